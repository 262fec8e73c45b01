"""Table 1 of paper 004 on the synthetic platform, small."""

import numpy as np
import pytest

from calibrators import SmoothedIsotonic
from evaluation import Platform, backtest, gc_n
from research.reproduction import Conclusion
from research.reproduction.sir_platform import DISTORTIONS, EXPERIMENT, distorted, gc_n_floor


def run(seed=0, shares=None):
    seen = [] if shares is None else shares
    return EXPERIMENT.run(quick=True, seed=seed, progress=seen.append)


@pytest.fixture(scope="module")
def found(shares):
    """The quick run."""
    return run(shares=shares)


def values(found):
    return {f"{check.part}: {check.what}": check.ours for check in found.checks}


def test_all_rows_of_the_table_are_there(found):
    """Six ways and the truth, each with GC-3, 4 and 5, and every number defined."""
    rows = {c.what.rpartition(", ")[0] for c in found.checks if c.part == "Table 1"}

    assert rows == {
        "none",
        "isotonic",
        "bbq",
        "beta",
        "sir, midpoint",
        "sir, mean",
        "truth",
        "noise floor",
    }
    assert all(np.isfinite(check.ours) for check in found.checks)


def test_the_printed_numbers_stand_beside(found):
    """GC-5 of BBQ on data set A is the 3.05 of the paper."""
    shown = {check.what: check.paper_shown for check in found.checks}

    assert shown["bbq, GC-5"] == "3.05, 0.84"


def test_a_small_run_judges_the_ranking_only(found):
    """A few hours cannot tell calibrators apart, but a monotone map keeps the order even there."""
    scored = {c.what: c.verdict for c in found.checks if c.verdict is not Conclusion.SHOWN}
    ranking = {what for what in scored if "AUC" in what}

    assert {scored[what] for what in ranking} == {Conclusion.AGREES}
    assert {scored[what] for what in scored.keys() - ranking} == {Conclusion.NOT_CHECKED}


def test_criteria_are_those_of_the_table(found):
    """A cut is 1 less the ratio of two rows, a gap their difference."""
    ours = values(found)

    cut = 1.0 - ours["Table 1: sir, mean, GC-4"] / ours["Table 1: none, GC-4"]
    assert ours["Shape: sir, mean: GC-4 cut against none"] == pytest.approx(cut)
    gap = ours["Table 1: sir, mean, GC-3"] - ours["Table 1: isotonic, GC-3"]
    assert ours["Shape: sir, mean: GC-3 less that of isotonic"] == pytest.approx(gap)
    gap = ours["Distortions: affine: beta, GC-5"] - ours["Distortions: affine: sir, GC-5"]
    assert ours["Distortions: affine: GC-5 of beta less that of sir"] == pytest.approx(gap)


def test_progress_runs_from_nothing_to_all(found, shares):
    """It never goes back."""
    assert shares == sorted(shares)
    assert shares[0] > 0.0
    assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("name", DISTORTIONS)
def test_a_distortion_keeps_the_ranking_inside_a_campaign(name):
    """Clicks, campaigns and times are the log's own."""
    log = Platform(campaigns=3, impressions_per_hour=500, seed=2).hours(0, 2)

    events = distorted(log, DISTORTIONS[name])

    assert np.array_equal(events.outcomes, log.events.outcomes)
    for row in range(3):
        chosen = log.events.rows == row
        by_score = np.argsort(events.scores[chosen], kind="stable")
        assert (np.diff(log.truth[chosen][by_score]) >= 0.0).all()


def test_sir_mends_what_is_not_affine_and_the_scores_are_worse():
    """The claim of the full run, on the same platform at a high click rate."""
    log = Platform(2, 6_000, 0.2, seed=3, drift=0.0).hours(0, 8)
    events = distorted(log, DISTORTIONS["not affine"])

    cards = backtest(events, {"sir": SmoothedIsotonic()}, window_hours=6).scorecards

    assert cards["sir"]["gc_3"] < 0.5 * cards["raw"]["gc_3"]


def test_the_floor_is_the_mean_over_drawn_outcomes():
    """A literal loop over the same draws."""
    rng = np.random.default_rng(5)
    p, campaigns = rng.uniform(0.1, 0.5, 900), rng.integers(0, 2, 900)
    draws = np.random.default_rng(6)
    expected = [gc_n(p, draws.random(900) < p, campaigns, 3) for _ in range(4)]

    floor = gc_n_floor(p, campaigns, 3, rng=np.random.default_rng(6), draws=4)

    assert floor == pytest.approx(np.mean(expected))
