"""Jumps and odd hours: found soon, invented seldom."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrators.pooled.change_points import (
    drift_rates,
    hour_weights,
    likelihood_ratio_prefilter,
    run_lengths,
)
from tests.calibrators.pooled.runs_oracle import present_run

HOURS = 48
AGES = np.arange(HOURS)[::-1] + 0.5
DAY = 1 + 0.5 * np.sin(2 * np.pi * np.arange(HOURS) / 24)


def drawn(positives, log_ratios, seed=1, campaigns=300):
    """Expected and observed positives of campaigns with a day's cycle of traffic."""
    rng = np.random.default_rng(seed)
    expected = positives * DAY * np.ones((campaigns, 1))
    return expected, rng.poisson(expected * np.exp(log_ratios)).astype(float)


def judged(expected, observed):
    """The weights of campaigns that may all fall at once: that is no outage."""
    return hour_weights(expected, observed, AGES, outage=np.zeros(HOURS, bool))


def jump_by(factor, since):
    """Log ratios that jump so many hours before the end."""
    return np.log(factor) * (np.arange(HOURS) >= HOURS - since)


@pytest.mark.parametrize("seed", range(4))
def test_the_present_run_is_that_of_all_ways_to_cut_the_hours(seed):
    """Adams and MacKay's recursion is exact: it sums over 2 ** 8 cuts in 9 steps."""
    rng = np.random.default_rng(seed)
    expected = rng.uniform(0.5, 20, (3, 9))
    observed = rng.poisson(expected * np.where(np.arange(9) < 5, 1.0, 2.5)).astype(float)
    found = run_lengths(expected, observed, np.full(3, 0.01), 0.05, 1e-12, most=9)
    chances = np.zeros((3, 9))
    np.put_along_axis(chances, found.begins, found.chances, axis=1)
    for row in range(3):
        exact = present_run(observed[row], expected[row], 0.01, 0.05)
        assert chances[row] == pytest.approx(exact, abs=1e-8)


def test_few_runs_are_enough():
    """Of 48 runs 12 are kept: the weights hardly change."""
    rng = np.random.default_rng(2)
    jumps = (rng.random((300, HOURS)) < 1 / HOURS) * rng.normal(0, 0.7, (300, HOURS))
    expected, observed = drawn(30.0, np.cumsum(jumps, axis=1))
    drift = drift_rates(expected, observed)
    all_runs, some = (
        run_lengths(expected, observed, drift, 1 / 720, 1 / 720, most).covered()
        for most in (HOURS, 12)
    )
    assert np.abs(all_runs - some).mean() < 0.01
    assert ((all_runs > 0.5) != (some > 0.5)).mean() < 0.002


def smooth(campaigns):
    """A day's cycle of each campaign's own, by a third up and down."""
    phase = np.random.default_rng(3).random((campaigns, 1))
    return 0.3 * np.sin(2 * np.pi * (np.arange(HOURS) / 24 + phase))


def walk(campaigns):
    """Five per cent an hour."""
    return np.cumsum(np.random.default_rng(4).normal(0, 0.05, (campaigns, HOURS)), axis=1)


def scatter(campaigns):
    """More than Poisson: each hour has ten per cent of its own."""
    return np.random.default_rng(5).normal(0, 0.1, (campaigns, HOURS))


@pytest.mark.parametrize("positives", [0.3, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("course", [None, smooth, walk, scatter])
def test_ordinary_drift_is_no_jump(positives, course):
    """At most one campaign in a hundred says that it has jumped in its two days."""
    expected, observed = drawn(positives, course(1000) if course else 0.0, campaigns=1000)
    found = judged(expected, observed)
    assert found.jumped.mean() <= 0.01
    assert found.odd_hours.mean() <= 0.001
    assert found.weights.mean() >= 0.97


@pytest.mark.parametrize(
    ("positives", "factor", "hours"),
    [(5, 3.0, 6), (100, 0.3, 3), (20, 2.0, 12), (20, 3.0, 2), (100, 2.0, 2), (100, 0.5, 3)],
)
def test_a_jump_is_found_within_hours(positives, factor, hours):
    """By three campaigns in four; then the hours before it weigh little, those after it all."""
    expected, observed = drawn(positives, jump_by(factor, hours))
    found = judged(expected, observed)
    assert found.jumped.mean() > 0.75
    assert np.median(found.weights[:, : HOURS - hours]) < 0.2
    assert found.weights[:, HOURS - hours :].mean() > 0.9


def test_a_jump_long_ago_leaves_all_hours_since():
    expected, observed = drawn(50.0, jump_by(2.0, 30))
    found = judged(expected, observed)
    assert found.jumped.mean() > 0.95
    assert found.weights[:, :17].max(axis=1).mean() < 0.1
    assert found.weights[:, 18:].mean() > 0.97


@pytest.mark.parametrize("factor", [0.0, 4.0, 40.0])
def test_a_single_odd_hour_counts_little_and_its_past_counts_on(factor):
    expected, observed = drawn(40.0, 0.0)
    observed[:, 30] *= factor
    found = judged(expected, observed)
    assert found.weights[:, 30].mean() < 0.1
    assert found.odd_hours[:, 30].mean() > 0.9
    assert np.delete(found.weights, 30, axis=1).mean() > 0.97
    assert not found.jumped.any()


@pytest.mark.parametrize("factor", [0.4, 2.5, 6.0])
def test_the_newest_hour_has_half_a_say(factor):
    """Whether it begins something new or is odd, only its future tells: so the past keeps half."""
    expected, observed = drawn(200.0, jump_by(factor, 1))
    found = judged(expected, observed)
    assert 0.4 < np.median(found.weights[:, -1]) < 0.6
    assert 0.4 < np.median(found.weights[:, :-1]) < 0.6


@given(order=st.permutations(range(12)), cut=st.integers(0, 12))
@settings(max_examples=10)
def test_each_campaign_is_judged_for_itself(order, cut):
    """Neither the order of campaigns nor the blocks they come in matter."""
    logs = np.vstack([jump_by(factor, 5) for factor in np.geomspace(0.2, 5, 12)])
    expected, observed = drawn(30.0, logs, campaigns=12)
    whole = judged(expected, observed)
    parts = [judged(expected[some], observed[some]) for some in (order[:cut], order[cut:])]
    together = np.concatenate([part.weights for part in parts])
    assert together == pytest.approx(whole.weights[order])


@given(factor=st.floats(0.2, 5.0))
@settings(max_examples=15)
def test_a_constant_factor_does_not_matter(factor):
    """Raw scores will do for expected positives, however far they are off."""
    expected, observed = drawn(30.0, jump_by(2.0, 6), campaigns=20)
    usual = judged(expected, observed)
    other = judged(expected * factor, observed)
    assert other.weights == pytest.approx(usual.weights, abs=0.02)


amounts = st.one_of(st.just(0.0), st.floats(0, 1e-9), st.floats(0, 50), st.floats(0, 1e7))


@given(data=st.data(), campaigns=st.integers(0, 3), hours=st.integers(0, 14))
def test_weights_lie_between_nothing_and_all_whatever_there_is(data, campaigns, hours):
    tables = st.lists(
        st.lists(amounts, min_size=hours, max_size=hours), min_size=campaigns, max_size=campaigns
    )
    expected, observed = (
        np.array(data.draw(tables), np.float64).reshape(campaigns, hours) for _ in range(2)
    )
    found = hour_weights(expected, observed, np.arange(hours)[::-1] + 0.5)
    assert found.weights.shape == found.odd_hours.shape == expected.shape
    assert found.jumped.shape == (campaigns,)
    assert ((found.weights >= 0) & (found.weights <= 1)).all()


def test_fewer_than_four_positives_tell_no_jump():
    expected = np.full((1, HOURS), 1e-3)
    observed = np.zeros((1, HOURS))
    observed[0, 40:43] = 1.0
    assert judged(expected, observed).weights.tolist() == [[1.0] * HOURS]


def test_the_running_hour_weighs_nothing_in_its_first_minutes():
    expected, observed = drawn(30.0, 0.0, campaigns=5)
    ages = AGES - 0.5 + 0.04
    ages[-1] = 0.02
    found = hour_weights(expected, observed, ages)
    assert not found.weights[:, -1].any()
    assert found.weights[:, :-1].mean() > 0.9


def test_seldom_jumps_need_more_evidence():
    expected, observed = drawn(10.0, jump_by(2.0, 8))
    drift = drift_rates(expected, observed)
    often, seldom = (
        (run_lengths(expected, observed, drift, 1 / hours, 1 / 720).covered()[:, 0] < 0.5).mean()
        for hours in (100.0, 1e6)
    )
    assert often > 2 * seldom


def test_what_the_detector_skips_it_would_not_have_found():
    """No campaign that is not suspicious has a jump, or an odd hour, more likely than not."""
    expected, observed = drawn(10.0, walk(2000), campaigns=2000)
    expected *= ((observed.sum(axis=1) + 1) / (expected.sum(axis=1) + 1))[:, None]
    quiet = ~likelihood_ratio_prefilter(expected, observed)
    assert 0.2 < quiet.mean() < 1
    e, y = expected[quiet], observed[quiet]
    found = run_lengths(e, y, drift_rates(e, y), 1 / 720, 1 / 720)
    assert found.covered().min() > 0.5
    assert found.odd_hours().max() < 0.5


def test_ordinary_drift_is_measured():
    """The steps that are found are those that were made, where there is traffic to see them."""
    rng = np.random.default_rng(6)
    for step in (0.02, 0.05, 0.15):
        logs = np.cumsum(rng.normal(0, step, (300, HOURS)), axis=1)
        expected, observed = drawn(3000.0, logs)
        found = np.sqrt(drift_rates(expected, observed))
        assert np.median(found) == pytest.approx(step, rel=0.5)


def test_a_jump_does_not_pass_for_ordinary_drift():
    quiet = np.sqrt(drift_rates(*drawn(300.0, 0.0)))
    jumped = np.sqrt(drift_rates(*drawn(300.0, jump_by(4.0, 9))))
    assert np.median(jumped) < 3 * np.median(quiet)


def test_without_traffic_the_usual_drift_is_assumed():
    expected, observed = drawn(0.1, 0.0)
    assert np.sqrt(drift_rates(expected, observed)) == pytest.approx(0.05, rel=0.2)
