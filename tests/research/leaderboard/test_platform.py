"""Regimes: what each says of itself holds, whatever the seed."""

import numpy as np
import pytest

from research.leaderboard import REGIMES
from research.leaderboard.platform import HOURS

EACH = pytest.mark.parametrize("name", REGIMES)


def test_there_are_six_kinds_of_traffic_and_more():
    assert len(REGIMES) >= 6
    assert min(regime.ctr for regime in REGIMES.values()) == 0.001
    assert max(regime.ctr for regime in REGIMES.values()) == 0.1
    assert min(regime.campaigns for regime in REGIMES.values()) == 10
    assert max(regime.campaigns for regime in REGIMES.values()) == 10_000


@EACH
def test_a_regime_fits_into_its_platform(name):
    regime = REGIMES[name]

    assert regime.first_scored >= 24
    assert regime.first_scored + regime.scored_hours <= HOURS
    assert len(regime.platform(0).names) == regime.campaigns
    assert "\n" not in regime.description


@EACH
def test_traffic_and_click_rate_are_those_of_the_regime(name):
    """Over a typical day at a few seeds; jumps and drift move single hours."""
    regime = REGIMES[name]
    hours = [regime.platform(seed).hour(hour) for seed in (0, 1) for hour in (54, 60, 66)]
    truth = np.concatenate([hour.truth for hour in hours])

    assert truth.mean() == pytest.approx(regime.ctr, rel=0.25)
    assert len(truth) / len(hours) == pytest.approx(regime.impressions_per_hour, rel=0.5)


@EACH
def test_an_hour_is_the_same_in_any_order_and_process(name):
    regime = REGIMES[name]
    backwards = {hour: regime.platform(4).hour(hour) for hour in (3, 1)}
    again = regime.platform(4)

    for hour in (1, 3):
        assert again.hour(hour).truth.tolist() == backwards[hour].truth.tolist()
        assert again.hour(hour).events.outcomes.tolist() == backwards[hour].events.outcomes.tolist()
    assert regime.platform(5).hour(1).truth.tolist() != backwards[1].truth.tolist()


@EACH
def test_the_truth_never_falls_as_scores_rise_in_a_campaign_and_hour(name):
    drawn = REGIMES[name].platform(1).hour(70)
    rows, scores, truth = drawn.events.rows, drawn.events.scores, drawn.truth
    order = np.lexsort((scores, rows))
    falls = (np.diff(truth[order]) < -1e-12) & (np.diff(rows[order]) == 0)

    assert not falls.any()


def test_scores_are_true_in_one_regime_only():
    def wrong(name: str) -> float:
        drawn = REGIMES[name].platform(2).hour(50)
        return float(np.abs(drawn.truth - drawn.events.scores).max())

    assert wrong("calibrated") == 0.0
    assert all(wrong(name) > 0.005 for name in REGIMES if name != "calibrated")


def test_one_regime_has_plateaus_and_steps():
    """Neighbouring scores of its largest campaign have one truth, or very different ones."""
    drawn = REGIMES["steps"].platform(0).hour(50)
    mine = drawn.events.rows == 0
    order = np.argsort(drawn.events.scores[mine])
    z = np.log(drawn.events.scores[mine][order])
    steepness = np.diff(np.log(drawn.truth[mine][order])) / np.diff(z)

    assert (steepness < 0.01).mean() > 0.05
    assert steepness.max() > 30.0


def test_everyone_jumps_once_and_campaigns_on_their_own():
    platform = REGIMES["jumps"].platform(3)
    levels = np.stack([platform.paths.levels(hour) for hour in range(20, 130)])
    moved = np.abs(np.diff(levels, axis=0)) > 1e-9
    at = platform.paths.global_jump_hour

    assert moved[at - 1 - 20].all()
    assert 0.3 < np.delete(moved, at - 1 - 20, axis=0).any(axis=0).mean() < 1.0


def test_traffic_is_zipf_some_start_late_and_some_stop():
    platform = REGIMES["many"].platform(0)
    first, last = platform.traffic(0), platform.traffic(120)

    assert 0.10 < (first == 0).mean() < 0.20
    assert 0.05 < (last == 0).mean() < 0.15
    running = last > 0
    numbers = np.flatnonzero(running) + 1.0
    assert np.allclose(last[running] * numbers, last[0])


@pytest.mark.parametrize("hour", [-1, HOURS])
def test_there_is_no_hour_outside(hour):
    with pytest.raises(ValueError, match=f"hour = {hour}: must be at least 0 and below 240"):
        REGIMES["dense"].platform(0).hour(hour)
