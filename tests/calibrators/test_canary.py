"""How surely a wrong challenger is stopped, and how seldom a right one, by seeded simulation."""

import numpy as np
import pytest

from calibrators.canary import BOUND, LOG_LOSS, PCOC, CanaryEvidence, log_ratios
from calibrators.samples import Floats

RIGHT = np.array([0.004, 0.02, 0.08])
RUNS = 1000


def most_evidence(
    predicted: Floats, hours: int, clicks: float, wander: float = 0.0, instead: Floats = RIGHT
) -> Floats:
    """The largest evidence of each run, when an hour brings so many predicted clicks, as many in
    each cell, and the true level wanders with a memory of 20 hours."""
    rng = np.random.default_rng(1)
    counts = np.ceil(clicks / 3 / predicted)
    evidence = CanaryEvidence(0, np.full((RUNS, 3), -np.inf))
    most = np.full(RUNS, -np.inf)
    level = wander * rng.standard_normal((RUNS, 1))
    for _ in range(hours):
        level = 0.95 * level + np.sqrt(1 - 0.95**2) * wander * rng.standard_normal((RUNS, 1))
        positives = rng.binomial(counts.astype(int), RIGHT * np.exp(level))
        evidence = evidence.after(log_ratios(predicted, instead, counts, positives))
        most = np.maximum(most, evidence.total)
    return most


def stopped(*args: object, **named: object) -> float:
    return float((most_evidence(*args, **named) >= BOUND).mean())  # type: ignore[arg-type]


def test_the_evidence_is_a_martingale_if_the_challenger_is_right():
    """Its mean over all outcomes of two events is 1, whatever was predicted instead."""
    predicted, instead = np.array([0.1, 0.3]), np.array([0.12, 0.0])
    outcomes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    chances = np.where(outcomes, predicted, 1 - predicted).prod(axis=1)

    ratios = np.exp(log_ratios(predicted, instead, np.ones(2), outcomes))

    assert chances @ ratios == pytest.approx(1.0)


@pytest.mark.parametrize("off", [1.2, 1 / 1.2])
def test_a_level_that_is_off_by_a_fifth_is_stopped_within_1000_predicted_clicks(off):
    assert stopped(RIGHT * off, 50, 20) >= 0.99


def test_a_right_challenger_goes_on_for_a_month():
    assert stopped(RIGHT, 720, 5, instead=RIGHT * 1.1) <= 0.01


@pytest.mark.slow
def test_at_any_volume():
    """False aborts within what the bound allows, over all; few missed, with PCOC alone too."""
    volumes = (1, 20, 100)
    false = [stopped(RIGHT, 720, clicks, instead=RIGHT * 1.1) for clicks in volumes]
    assert sum(false) / len(false) <= 0.01
    for clicks in volumes:
        for off in (1.2, 1 / 1.2):
            assert stopped(RIGHT * off, 1000 // clicks, clicks) >= 0.985
        assert stopped(RIGHT * 1.2, 1000 // clicks, clicks, instead=RIGHT * 1.2) >= 0.975


def test_why_it_was_stopped():
    """A right level with the wrong order is for the log loss to see; a wrong level for PCOC."""
    counts, evidence = np.array([10_000.0, 10_000.0]), CanaryEvidence.none()
    champion, swapped = np.array([0.01, 0.03]), np.array([0.03, 0.01])
    positives = counts * champion

    assert evidence.reason is None
    found = evidence.after(log_ratios(swapped, champion, counts, positives))
    assert found.reason == LOG_LOSS
    both = evidence.after(log_ratios(champion * 1.2, champion * 1.2, counts, positives))
    assert both.reason == PCOC


def test_a_fault_that_begins_after_ten_good_days_is_found():
    """Good days are no credit."""
    right, counts, evidence = np.array([0.02]), np.array([5_000.0]), CanaryEvidence.none()

    def after(days: int, predicted: Floats) -> CanaryEvidence:
        found = evidence
        for _ in range(24 * days):
            found = found.after(log_ratios(predicted, right, counts, counts * right))
        return found

    evidence = after(10, right)
    assert evidence.reason is None
    assert after(1, right * 1.2).reason is not None
