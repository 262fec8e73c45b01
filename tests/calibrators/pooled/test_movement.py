"""How campaigns move, as their own past tells it."""

from functools import cache
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrators.pooled.state_space import (
    OF_CAMPAIGNS,
    AveragedFilter,
    CampaignSeries,
    LevelFilter,
    daily_cycles,
)
from tests.calibrators.pooled.fit_levels import fit_levels

HOURS = 48
AGES = np.arange(HOURS)[::-1] + 0.5


def courses(levels, positives=200.0, seed=1, variance=0.05):
    """Of campaigns with these levels, (c, h), and what is expected of all alike."""
    expected = np.full(levels.shape, positives)
    observed = np.random.default_rng(seed).poisson(expected * np.exp(levels)).astype(float)
    return CampaignSeries(
        observed, expected, np.zeros(levels.shape), np.full(len(levels), variance)
    )


def swings(hours, campaigns=30, period=40.0):
    """Levels that go up and down slowly, each in its own time, (campaigns, hours)."""
    phases = np.linspace(0, 2 * np.pi, campaigns, endpoint=False)[:, None]
    return 0.2 * np.sin(2 * np.pi * np.arange(hours) / period + phases)


def test_a_slow_swing_is_met_where_it_is_going():
    """The last hour's level, known for certain, would be further off."""
    levels = swings(HOURS + 1)
    seen = courses(levels[:, :-1], positives=50_000.0)
    found = AveragedFilter.of(seen, AGES).forecast(seen, AGES)[0]
    late = np.sqrt(np.mean((levels[:, -2] - levels[:, -1]) ** 2))
    assert np.sqrt(np.mean((found - levels[:, -1]) ** 2)) < 0.5 * late


def test_swings_are_told_as_trends_and_walks_as_steps():
    rng = np.random.default_rng(2)
    walks = np.cumsum(rng.normal(0, 0.08, (30, HOURS)), axis=1)
    trends, steps = (
        AveragedFilter.of(courses(levels, positives=2_000.0), AGES).strengths()
        for levels in (swings(HOURS), walks)
    )
    assert set(trends) == {"campaign_trend", "campaign_persistence"}
    assert steps == {"campaign_step": pytest.approx(0.08)}


def days(hours, campaigns=40, height=0.4):
    """Levels with a daily cycle each, in phases of their own, (campaigns, hours)."""
    phases = np.linspace(0, 2 * np.pi, campaigns, endpoint=False)[:, None]
    return height * np.sin(2 * np.pi * np.arange(hours) / 24.0 + phases)


def test_daily_cycles_are_met_at_their_hour():
    """Of what the last hour's level misses, known for certain, a third is left."""
    levels = days(HOURS + 1)
    seen = courses(levels[:, :-1], positives=60.0)
    filtered = AveragedFilter.of(seen, AGES)
    missed = filtered.forecast(seen, AGES)[0] - levels[:, -1]
    late = np.sqrt(np.mean((levels[:, -2] - levels[:, -1]) ** 2))
    assert "campaign_cycle" in filtered.strengths()
    assert np.sqrt(np.mean(missed**2)) < 0.09 < late + 0.02


def test_the_cycle_alone_is_what_comes_back_every_day():
    """Above a level that stays, known at any moment, before and after."""
    levels = days(HOURS) + 0.3
    seen = courses(levels, positives=5_000.0)
    found, _ = daily_cycles(seen, AGES, OF_CAMPAIGNS, np.append(AGES, -0.5))
    assert np.abs(found[:, :-1] - days(HOURS)).max() < 0.05
    assert found[:, -1] == pytest.approx(found[:, HOURS - 24], abs=1e-9)


def test_levels_that_stay_say_nothing_of_dynamics():
    still = courses(np.repeat(np.random.default_rng(3).normal(0, 0.2, (50, 1)), HOURS, axis=1))
    found = AveragedFilter.of(still, AGES)
    assert found.strengths() == {}
    assert found.belief.sum() == pytest.approx(1.0)
    assert found.belief[0] == found.belief.max()


def test_without_campaigns_half_of_the_belief_is_that_levels_stay():
    found = AveragedFilter.of(CampaignSeries(*np.empty((3, 0, HOURS)), np.empty(0)), AGES)
    assert found.belief[0] == pytest.approx(0.5)
    assert not found.models.cycles.any()


def test_what_has_not_come_twice_is_no_cycle():
    """Of the same hours: half of the belief is that there is none, or all of it."""
    seen = courses(np.zeros((1, HOURS)))
    short = seen._replace(expected=seen.expected * (AGES < 30.0))
    found, before = (AveragedFilter.of(one, AGES).models.cycles.any() for one in (seen, short))
    assert (found, before) == (True, False)


def after_a_jump(chance, positives, seen, variance):
    """The level of a campaign that stayed where it was until its last hour, which has begun after a
    jump with this chance, and in which so many positives were seen."""
    before = courses(np.zeros((1, HOURS)), positives=positives, variance=variance)
    observed, jumps = before.observed.copy(), np.zeros((1, HOURS))
    observed[0, -1], jumps[0, -1] = seen, chance
    stays = AveragedFilter(OF_CAMPAIGNS.chosen(np.array([0])), np.ones(1))
    return stays.forecast(before._replace(observed=observed, jumps=jumps), AGES)[0][0]


@pytest.mark.parametrize(("variance", "after"), [(0.8, 0.8), (0.001, 0.5)])
def test_after_a_certain_jump_the_past_says_nothing(variance, after):
    """The level is what one hour's positives and the variance of levels before any make it; but
    where campaigns are all alike, one that has jumped is none of them."""
    found = after_a_jump(1.0, positives=100.0, seen=250.0, variance=variance)
    assert 250 - 100 * np.exp(found) == pytest.approx(found / after, abs=1e-4)


def test_a_jump_that_is_half_sure_is_followed_half_at_least():
    """It lies between the past's level and the hour's, nearer to the hour's where that is sure."""
    found = after_a_jump(0.5, positives=1_000.0, seen=2_000.0, variance=0.3)
    assert 0.5 * log(2) < found < log(2)


@cache
def served(seed, own):
    """Of a campaign, of whose level the shape has so much, against the target."""
    levels = np.random.default_rng(seed).normal(0, 0.2, (200, 1)) * np.ones(HOURS)
    seen = courses(levels, positives=30.0, seed=seed)
    fitted = np.zeros(200)
    fitted[3] = own
    found = fit_levels(
        seen.expected * np.exp(fitted)[:, None],
        seen.observed,
        AGES,
        fitted=fitted,
        variances=seen.variances,
        weights=np.ones(levels.shape),
    )
    return found.shifts[3] + own - found.target_shift


@pytest.mark.slow
@given(own=st.floats(-0.5, 0.5), seed=st.integers(0, 5))
@settings(max_examples=20)
def test_what_the_shape_has_of_a_level_changes_nothing(own, seed):
    """However much of it is in the expected positives, the sum of both is served."""
    assert served(seed, own) == pytest.approx(served(seed, 0.0), abs=0.05)


def test_dynamics_are_learnt_of_the_largest_campaigns():
    """Whatever the order in which they come."""
    parts = [courses(np.full((800, 3), log(size)), seed=size) for size in (1, 3, 2)]
    nothing = CampaignSeries(*np.empty((3, 0, 3)), np.empty(0))
    kept = nothing.with_more(parts[0]).with_more(parts[1]).with_more(parts[2])
    totals = np.sort(np.concatenate([part.observed.sum(axis=1) for part in parts]))
    assert len(kept.variances) == 1_024
    assert np.sort(kept.observed.sum(axis=1)).tolist() == totals[-1_024:].tolist()


@given(
    positives=st.integers(0, 10_000),
    expected=st.floats(-12, 9).map(np.exp),
    variance=st.floats(-20, 3).map(np.exp),
)
def test_a_level_is_the_mode_however_far_it_is(positives, expected, variance):
    """Where the slope of the log posterior changes its sign."""
    stays = LevelFilter.before(OF_CAMPAIGNS.chosen(np.array([0])), np.array([variance]))
    stays.learn(np.array([float(positives)]), np.array([expected]), 0.5)
    found = float(stays.at(0.5)[0, 0])

    def slope(level):
        return variance * (positives - expected * np.exp(level)) - level

    near = 1e-6 * max(1.0, abs(found))
    assert slope(found - near) > 0 > slope(found + near)


def test_an_hour_of_a_million_positives_is_survived():
    """Where next to nothing is expected; the filter stays finite."""
    observed, expected = np.zeros((2, 1, HOURS))
    observed[0, 20], expected[0, :30] = 1e6, 1e-9
    seen = CampaignSeries(observed, expected, np.zeros((1, HOURS)), np.full(1, 1e4))
    found = AveragedFilter.of(seen, AGES)
    assert np.isfinite(found.belief).all()
    assert np.isfinite(found.forecast(seen, AGES)[0]).all()


def test_strengths_are_standard_deviations():
    movement = AveragedFilter(OF_CAMPAIGNS.chosen(np.array([3])), np.ones(1))
    assert movement.strengths() == {"campaign_step": sqrt(4e-4)}
