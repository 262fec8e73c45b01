"""Fast levels: what they follow, what they are drawn to, and what they never do."""

from functools import cache
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from calibrators.pooled.levels import ALL_MOVEMENTS, levels_of_blocks
from calibrators.pooled.outliers import CampaignHours
from calibrators.pooled.serving import in_log_odds, in_log_ratios
from calibrators.pooled.state_space import FARTHEST, _modes
from tests.calibrators.pooled.fit_levels import fit_levels
from tests.calibrators.pooled.levels_oracle import levels

BOUND = log(3.0)


def ages_of(hours, moment=0.0):
    """Ages of whole hours, and of a running one that began `moment` hours ago."""
    whole = np.arange(hours - (moment > 0))[::-1] + 0.5 + moment
    return np.append(whole, moment / 2) if moment else whole


def platform(seed, campaigns=30, hours=30, positives=20.0, drift=0.05):
    """Expected and observed positives of drifting campaigns."""
    rng = np.random.default_rng(seed)
    expected = positives * rng.pareto(1.5, (campaigns, 1)) * rng.uniform(0.5, 1.5, hours)
    walk = np.cumsum(rng.normal(0, drift, (campaigns, hours)), axis=1)
    return expected, rng.poisson(expected * np.exp(walk)).astype(float)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("moment", [0.0, 0.25])
def test_levels_are_those_of_the_literal_oracle(seed, moment):
    expected, observed = platform(seed, campaigns=4, hours=9, drift=0.2)
    ages, rng = ages_of(9, moment), np.random.default_rng(seed)
    begun = np.sort(rng.uniform(0.01, 1.0, expected.shape), axis=1)
    given_ = {
        "weights": begun * rng.uniform(0, 1, expected.shape),
        "begun": begun,
        "fitted": np.array([0.3, -0.2, 0.0, 0.1]),
        "variances": np.array([0.05, 0.4, 0.0, 1e-6]),
    }
    found = fit_levels(expected, observed, ages, **given_)
    plain = {name: values.tolist() for name, values in given_.items()}
    shifts, target = levels(expected.tolist(), observed.tolist(), ages.tolist(), **plain)
    assert found.shifts == pytest.approx(shifts, abs=1e-6)
    assert found.target_shift == pytest.approx(target, abs=1e-9)


@given(st.floats(0, 0.99), st.floats(-4, 4), st.floats(0, 2))
def test_log_odds_and_log_ratios_are_of_the_same_probabilities(rate, level, variance):
    """A level in log-odds, taken out of a rate, and the ratio to it put upon the rate without."""
    ratios, spreads = in_log_ratios(*map(np.array, ([level], [variance], [rate])))
    before = rate / (rate + (1 - rate) * np.exp(level))
    assert before * np.exp(ratios) == pytest.approx([rate], abs=1e-12)
    if rate <= (1 + before) / 2:
        back, once_more = in_log_odds(ratios, spreads, np.array([before]))
        assert back == pytest.approx([level], abs=1e-9)
        assert once_more == pytest.approx(spreads / (1 - rate) ** 2, rel=1e-9)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_of_none_and_of_all_are_no_error(rate):
    """Where all is positive nothing rises, and what falls is a number still."""
    ratios = np.array([-0.5, 0.0, 0.5])
    shifts, spreads = in_log_odds(ratios, np.ones(3), np.full(3, rate))
    assert np.isfinite(spreads).all()
    expected = ratios if rate == 0 else [-20.29, 0.0, log(2)]
    assert shifts == pytest.approx(expected, abs=0.05)


def test_levels_of_high_rates_are_in_log_odds():
    """A quarter more clicks at a rate of a half are .62 of all impressions."""
    expected, _ = platform(3, campaigns=50)
    course = np.where(np.arange(30) < 26, 1.0, 1.25)
    rates = np.full(50, 0.5)
    found = fit_levels(expected, expected * course, ages_of(30), rates=rates)
    assert found.target_shift == pytest.approx(log(0.62 / 0.38), abs=0.03)
    assert found.shifts == pytest.approx(found.target_shift, abs=0.1)


def test_the_target_is_followed_within_hours():
    """Whatever the campaigns' traffic, all of them move with it."""
    expected, _ = platform(3, campaigns=50)
    course = np.where(np.arange(30) < 26, 1.0, 1.5)
    found = fit_levels(expected, expected * course, ages_of(30))
    assert found.target_shift == pytest.approx(log(1.5), abs=0.02)
    assert found.shifts == pytest.approx(log(1.5), abs=0.05)


@pytest.mark.parametrize("factor", [0.4, 1.6])
def test_a_jump_of_all_campaigns_is_followed_after_two_hours(factor):
    """Of forty with four clicks an hour each, which have been where they are for two days."""
    ages = ages_of(48)
    served = []
    for seed in range(5):
        expected = np.full((40, 48), 4.0)
        moved = np.where(ages < 2, factor, 1.0)
        observed = np.random.default_rng(seed).poisson(expected * moved).astype(np.float64)
        served.append(fit_levels(expected, observed, ages).target_shift)

    assert np.mean(served) == pytest.approx(np.log(factor), abs=0.12)


def test_a_campaign_leaves_the_target_as_far_as_its_traffic_allows():
    rng = np.random.default_rng(4)
    expected = np.repeat([[200.0], [0.05]], 30, axis=1)
    expected = np.vstack([expected, np.full((60, 30), 200.0)])
    ratios = np.exp(np.cumsum(rng.normal(0, 0.02, expected.shape), axis=1))
    ratios[:2] = np.where(np.arange(30) < 25, 1.0, 2.0)
    found = fit_levels(expected, rng.poisson(expected * ratios), ages_of(30))
    moved = found.shifts - found.target_shift
    assert moved[0] == pytest.approx(log(2), abs=0.1)
    assert abs(moved[1]) < 0.1


def test_campaigns_that_differ_by_chance_only_stay_with_the_target():
    expected = np.full((200, 30), 3.0)
    observed = np.random.default_rng(5).poisson(expected)
    found = fit_levels(expected, observed, ages_of(30))
    assert np.abs(found.shifts).max() < 0.1


def test_a_group_moves_as_one():
    """A campaign of a group without traffic of its own has the group's shift."""
    expected = np.full((40, 30), 5.0)
    expected[0] = 0.0
    groups = np.repeat([0, 1], 20)
    course = np.where((groups[:, None] == 0) & (np.arange(30) >= 25), 1.6, 1.0)
    found = fit_levels(expected, expected * course, ages_of(30), groups=groups)
    assert found.group_shifts == pytest.approx([log(1.6), 0.0], abs=0.1)
    assert found.shifts[0] == pytest.approx(found.group_shifts[0])
    assert set(found.strengths) >= {"target_half_life", "group_half_life"}


def test_a_campaign_without_a_group_leans_on_the_target():
    expected, observed = platform(6)
    alone = fit_levels(expected, observed, ages_of(30))
    none = fit_levels(expected, observed, ages_of(30), groups=np.full(30, -1))
    np.testing.assert_array_equal(alone.shifts, none.shifts)
    assert none.group_shifts.shape == (0,)


@cache
def levels_in(order):
    """Of the campaigns of four groups in this order."""
    some = list(order)
    expected, observed = platform(7)
    groups = np.arange(30) % 4 - 1
    return fit_levels(expected[some], observed[some], ages_of(30), groups=groups[some])


@pytest.mark.slow
@given(order=st.permutations(range(30)).map(tuple))
@settings(max_examples=10)
def test_the_order_of_campaigns_does_not_matter(order):
    assert levels_in(order).shifts == pytest.approx(levels_in(range(30)).shifts[[*order]], abs=1e-9)


def test_campaigns_twice_are_the_same_campaigns():
    """The target's level of twice the traffic is the same, and so is what each adds to it."""
    expected, observed = platform(9, positives=500.0)
    once = fit_levels(expected, observed, ages_of(30))
    twice = fit_levels(np.tile(expected, (2, 1)), np.tile(observed, (2, 1)), ages_of(30))
    assert twice.shifts[:30] == pytest.approx(twice.shifts[30:])
    assert twice.shifts[:30] == pytest.approx(once.shifts, abs=0.02)


amounts = st.one_of(st.just(0.0), st.floats(0, 1e-9), st.floats(0, 50), st.floats(0, 1e7))


@given(data=st.data(), campaigns=st.integers(0, 4), hours=st.integers(0, 12))
def test_levels_are_finite_and_bounded_whatever_there_is(data, campaigns, hours):
    """No campaigns, no hours, zeros, fractions, an hour that has only just begun."""
    rows = st.lists(amounts, min_size=hours, max_size=hours)
    tables = st.lists(rows, min_size=campaigns, max_size=campaigns)
    expected, observed = (
        np.array(data.draw(tables), np.float64).reshape(campaigns, hours) for _ in range(2)
    )
    groups = data.draw(st.lists(st.integers(-1, 2), min_size=campaigns, max_size=campaigns))
    moment = data.draw(st.sampled_from([0.0, 0.01, 0.0834, 0.5])) if hours else 0.0
    found = fit_levels(expected, observed, ages_of(hours, moment), groups=groups)
    assert np.isfinite(found.shifts).all()
    assert abs(found.target_shift) <= BOUND + 1e-9
    assert (np.abs(found.group_shifts - found.target_shift) <= BOUND + 1e-9).all()
    leaned = np.array([found.group_shifts[g] if g >= 0 else found.target_shift for g in groups])
    assert (np.abs(found.shifts - leaned) <= BOUND + 1e-9).all()


def test_silence_moves_target_groups_and_campaigns_to_their_bounds():
    found = fit_levels(np.full((3, 12), 1e3), np.zeros((3, 12)), ages_of(12), groups=[0, 1, 2])
    assert found.target_shift == pytest.approx(-BOUND)
    assert found.group_shifts == pytest.approx(np.full(3, -2 * BOUND))
    assert found.shifts == pytest.approx(np.full(3, -3 * BOUND))


def test_without_data_there_is_no_shift():
    found = fit_levels(np.zeros((3, 5)), np.zeros((3, 5)), ages_of(5))
    assert found.shifts.tolist() == [0.0, 0.0, 0.0]
    assert found.target_shift == 0.0
    assert found.strengths == {}
    assert not found.frozen


def test_an_hour_of_less_than_five_minutes_is_left_out():
    """Its last impressions wait for their clicks: it would pull every level down."""
    expected, observed = platform(10)
    few = expected[:, :1] / 20
    late = np.hstack([expected, few]), np.hstack([observed, few / 3])
    young = fit_levels(*late, ages_of(31, 0.05))
    old = fit_levels(*late, ages_of(31, 0.3))
    without = fit_levels(expected, observed, ages_of(31, 0.05)[:-1])
    np.testing.assert_array_equal(young.shifts, without.shifts)
    assert old.target_shift < young.target_shift


def test_weights_of_zero_leave_an_hour_out():
    expected, observed = platform(11)
    weights = np.ones(expected.shape)
    weights[0, 10] = 0.0
    spoilt = observed.copy()
    spoilt[0, 10] = 1e5
    clean = fit_levels(expected, observed, ages_of(30), weights=weights)
    other = fit_levels(expected, spoilt, ages_of(30), weights=weights)
    assert other.shifts == pytest.approx(clean.shifts)


def morning(hours):
    """Three fifths of the usual at seven, for some four hours."""
    return np.exp(-0.5 * np.exp(-0.5 * ((hours % 24 - 7) / 1.7) ** 2))


@pytest.mark.parametrize("served", range(53, 59))
def test_a_morning_of_a_few_hours_is_met_on_the_third_day(served):
    """600 clicks an hour; three waves alone leave eight percent at seven."""
    rng, hours = np.random.default_rng(served), np.arange(served - 48, served)
    expected = np.full((1, 48), 600.0)
    drawn = (rng.poisson(expected * morning(hours)).astype(float) for _ in range(10))
    shifts = [fit_levels(expected, seen, ages_of(48)).target_shift for seen in drawn]
    assert abs(np.mean(shifts) - np.log(morning(served))) < 0.05


@pytest.mark.parametrize("positives", [5.0, 100.0])
def test_a_daily_cycle_is_that_of_the_literal_oracle(positives):
    """Of three waves or six, as the hours have it: with few clicks of both, with many of six."""
    hours, rng = np.arange(40), np.random.default_rng(3)
    expected = np.full((2, 40), positives)
    observed = rng.poisson(expected * morning(hours)).astype(float)
    ones = {"weights": np.ones((2, 40)), "begun": np.ones((2, 40))}
    given_ = ones | {"fitted": np.zeros(2), "variances": np.full(2, 0.1)}
    found = fit_levels(expected, observed, ages_of(40), **given_)
    plain = {name: values.tolist() for name, values in given_.items()}
    shifts, target = levels(expected.tolist(), observed.tolist(), ages_of(40).tolist(), **plain)
    assert found.target_shift == pytest.approx(target, abs=1e-9)
    assert found.shifts == pytest.approx(shifts, abs=1e-6)


@settings(max_examples=200)
@given(st.floats(-6, 6), st.floats(-9, 9), st.integers(0, 5_000), st.floats(-40, 12))
def test_a_level_is_found_however_far_it_is_from_what_was_believed(low, spread, observed, expected):
    """The zero of the falling function, to a part of its standard deviation."""
    s, e = np.exp(spread), np.exp(expected)
    column = np.array([[low]]), np.array([[s]]), np.array([float(observed)]), np.array([e])

    ((found,),) = _modes(*column)

    def slope(x):
        return s * (observed - e * np.exp(x)) - (x - low)

    top = max(low, low + s * observed, log(max(observed, 1e-9) / e), -FARTHEST) + 1
    true = brentq(slope, -1e5, min(top, 600.0), xtol=1e-12)
    deviation = 1 / np.sqrt(1 / s + e * np.exp(true))
    assert found == pytest.approx(
        np.clip(true, -FARTHEST, FARTHEST), abs=1e-3 * max(deviation, 0.1)
    )


@pytest.mark.parametrize("positives", [2.0, 50.0])
def test_movements_that_are_believed_say_what_all_say(positives):
    """Those that the trial leaves out need not be filtered for the levels of the hour after."""
    block = CampaignHours.of(*platform(3, hours=48, positives=positives, drift=0.1))
    every = levels_of_blocks([block], ages_of(48), 0)
    few = levels_of_blocks([block], ages_of(48), 0, movements=every.movements)

    assert len(every.movements.campaigns.steps) < len(ALL_MOVEMENTS.campaigns.steps) / 2
    assert few.shifts == pytest.approx(every.shifts, abs=1e-12)
    assert few.variances == pytest.approx(every.variances, rel=1e-9)
    assert few.target_shift == pytest.approx(every.target_shift, abs=1e-12)
