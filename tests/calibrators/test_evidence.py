"""The e-detector of PCOC: few false alarms, by its bound and by count, and faults are found."""

import numpy as np
import pytest
from scipy.stats import nbinom

from calibrators import evidence
from calibrators.evidence import FORGOTTEN_HOURS, MARGIN, SUMS, PcocEvidence, bound_of

SHAPE = evidence._SHAPE


def watched(names, hours, predicted, level, rng, found=None):
    """The evidence after so many hours, whose level has the noise of drift and of chance."""
    found = found or PcocEvidence.empty()
    for hour in range(found.until, found.until + hours):
        noise = rng.gamma(SHAPE, 1 / SHAPE, len(names))
        found = found.after(hour, names, predicted, rng.poisson(predicted * level * noise) * 1.0)
    return found


def names_of(number):
    return tuple(f"{row:05}" for row in range(number))


@pytest.mark.parametrize("predicted", [0.01, 0.5, 8.0, 300.0])
@pytest.mark.parametrize("level", [1 / (1 + MARGIN), 1.0, 1 + MARGIN])
def test_no_hour_within_the_margin_grows_on_average(predicted, level):
    """By sums over all counts: what makes false alarms rare for any number of looks."""
    counts = np.arange(nbinom.ppf(1 - 1e-15, SHAPE, SHAPE / (SHAPE + 1.1 * predicted)) + 50)
    chances = nbinom.pmf(counts, SHAPE, SHAPE / (SHAPE + level * predicted))
    start = np.full((6, len(counts)), -np.inf)

    grown = np.exp(evidence._advanced(start, np.full(len(counts), predicted), counts))

    assert (grown @ chances <= 1 + 1e-9).all()


def test_a_fault_is_found_and_gone_after_its_end():
    rng = np.random.default_rng(1)
    names, predicted = names_of(200), np.full(200, 500.0)
    bound = bound_of(10_000)

    before = watched(names, 48, predicted, 1.0, rng)
    low, high = (watched(names, 36, predicted, level, rng, before) for level in (0.7, 1.3))
    after = watched(names, 48, predicted, 1.0, rng, high)

    assert (before.directions.max(axis=0) < bound).all()
    assert (low.directions[0] >= bound).all()
    assert (low.directions[1] < 0).all()
    assert (high.directions[1] >= bound).all()
    assert (high.directions[0] < 0).all()
    assert (after.directions.max(axis=0) < bound).all()


def test_intervals_hold_the_level_about_as_often_as_they_say():
    rng = np.random.default_rng(2)
    predicted = np.exp(rng.uniform(-2, 5, 4000))

    found = watched(names_of(4000), 30, predicted, 1 / 1.2, rng)

    lower, upper = found.values[SUMS.index("lower")], found.values[SUMS.index("upper")]
    assert 0.94 < ((lower <= 1.2) & (upper >= 1.2)).mean() <= 1


def test_campaigns_come_go_and_are_forgotten():
    one = np.array([5.0])
    both = PcocEvidence.empty().after(7, ("a",), one, one).after(8, ("b",), one, one * 0)

    assert (both.until, both.campaigns) == (9, ("a", "b"))
    assert both.values[0].tolist() == [7, 8]
    assert np.isinf(both.values[SUMS.index("upper"), 1])
    alone = both.after(8 + FORGOTTEN_HOURS - 1, (), one[:0], one[:0])
    assert alone.campaigns == ("b",)
    # What others do says nothing about a campaign.
    assert alone.directions[:, 0].tolist() == both.directions[:, 1].tolist()


def test_bytes_come_back_and_are_refused_where_they_end_early_or_late():
    one = np.array([5.0])
    written = PcocEvidence.empty().after(7, ("a",), one, one).to_bytes()

    assert PcocEvidence.from_bytes(written).to_bytes() == written
    for broken in (*(written[:end] for end in range(len(written))), written + bytes(8)):
        with pytest.raises(ValueError, match=r"evidence|column|names"):
            PcocEvidence.from_bytes(broken)


@pytest.mark.slow
def test_less_than_one_false_alarm_a_month_of_10_000_campaigns():
    """Campaigns of 0.1 to 1,000 clicks an hour, whose levels drift by 3 % and by the hour."""
    rng = np.random.default_rng(3)
    names, predicted = names_of(10_000), np.exp(rng.uniform(np.log(0.1), np.log(1000), 10_000))
    logs, level, most = np.full((6, 10_000), -np.inf), rng.normal(0, 0.03, 10_000), 0.0

    for _ in range(30 * 24):
        level = 0.9 * level + rng.normal(0, 0.03 * np.sqrt(1 - 0.81), 10_000)
        noise = rng.gamma(SHAPE, 1 / SHAPE, 10_000)
        came = rng.poisson(predicted * np.exp(level) * noise) * 1.0
        logs = evidence._advanced(logs, predicted, came)
        values = np.vstack((np.zeros((len(SUMS), 10_000)), logs))
        most = max(most, PcocEvidence(0, names, values).directions.max())

    assert most < bound_of(10_000)
