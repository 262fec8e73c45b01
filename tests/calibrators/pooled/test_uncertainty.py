"""How sure levels are: what is learnt of counts, and mixtures over when a level jumped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from calibrators.pooled.levels import jump_rate
from calibrators.pooled.outliers import CampaignHours
from calibrators.pooled.serving import learnt_variance, mixture_variance
from calibrators.pooled.state_space import SPANS, AveragedFilter, CampaignSeries, LevelModels

HOURS = 48
RATE, JUMP = 0.01, 0.5


def counts_of(deviation, expected=200.0, n=2_000, seed=3):
    """Positives whose rates are that far from the expected, in log ratio."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(0.0, deviation, n)
    return rng.poisson(expected * np.exp(levels)).astype(float), np.full(n, expected)


@pytest.mark.parametrize("deviation", [0.0, 0.05, 0.1, 0.3])
def test_the_variance_beyond_chance_is_learnt(deviation):
    observed, expected = counts_of(deviation)
    found = learnt_variance(observed, expected, *np.zeros((2, len(expected))))
    assert np.sqrt(found) == pytest.approx(deviation, rel=0.15, abs=0.02)


def test_what_is_known_is_not_learnt_again():
    observed, expected = counts_of(0.2)
    known = np.full(len(expected), 0.2**2)
    assert np.sqrt(learnt_variance(observed, expected, known, 0 * known)) < 0.06


def test_what_is_followed_is_left_out_of_what_wanders():
    """Half is left of a variance v that 1 / v positives followed."""
    observed, expected = counts_of(0.1)
    followed = np.full(len(expected), 1 / 0.02)
    found = learnt_variance(observed, expected, 0 * expected, followed)
    assert found == pytest.approx(0.02, rel=0.2)


def test_few_counts_leave_what_is_usual():
    nothing = learnt_variance(*np.empty((4, 0)))
    assert 0.05 < np.sqrt(nothing) < 0.2
    assert learnt_variance(*np.ones((2, 1)), *np.zeros((2, 1))) == pytest.approx(nothing, rel=0.1)


def literal_interval(observed, expected, variance):
    """By the chances of each place of a jump, one by one, on a fine grid of levels."""
    log_chances = [0.0, np.log(RATE)]
    parts = [(0.0, variance), (0.0, variance + JUMP)]
    shorter = 0
    for span in (1, 2, 4, 8, 16):
        y, e = sum(observed[-span:]), sum(expected[-span:])
        chances = [
            stats.nbinom.logpmf(y, size, size / (size + e))
            for size in (1 / variance, 1 / (variance + JUMP))
        ]
        size = 1 / (variance + JUMP)
        log_chances.append(np.log(RATE * (span - shorter)) + chances[1] - chances[0])
        parts.append((np.log((size + y) / (size + e)), 1 / (size + y)))
        shorter = span
    weights = np.exp(np.array(log_chances) - max(log_chances))
    grid = np.linspace(0.0, 8.0, 40_001)
    masses = [
        stats.norm.cdf(grid, m, np.sqrt(v)) - stats.norm.cdf(-grid, m, np.sqrt(v)) for m, v in parts
    ]
    return grid[np.searchsorted(weights @ masses / weights.sum(), 0.9)]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 60), min_size=16, max_size=16),
    st.floats(0.1, 30.0),
    st.floats(0.02, 0.5),
)
def test_mixtures_are_those_of_the_literal_oracle(observed, expected, deviation):
    hours = np.full(16, expected)
    found = mixture_variance(
        np.array([observed], float), hours[None], np.array([deviation**2]), RATE, JUMP
    )
    ends = literal_interval(observed, hours, deviation**2)
    assert 1.6449 * np.sqrt(found[0]) == pytest.approx(ends, rel=2e-3, abs=2e-3)


def test_an_interval_holds_both_levels_while_a_jump_is_in_doubt_and_one_when_it_is_sure():
    before, variance = np.full((1, 16), 10.0), np.array([0.1**2])
    widths = []
    for last in (10.0, 23.0, 60.0):
        observed = before.copy()
        observed[0, -1] = last
        widths.append(1.645 * np.sqrt(mixture_variance(observed, before, variance, RATE, JUMP)[0]))
    calm, doubt, sure = widths
    assert calm < 0.2 < 2 * calm < doubt
    assert sure > np.log(4.0)


def test_a_level_that_has_followed_a_jump_in_part_does_not_hide_it():
    """A filter of levels that wander takes two halved hours for a fall by a sixth. What it said of
    them before speaks for a jump, and knows nothing of them."""
    table, ages = np.full((1, HOURS), 30.0), np.arange(HOURS, 0, -1) - 0.5
    moves = AveragedFilter(LevelModels.of([(0.0016, 0.0, 0.0, 0.0, 0)]), np.ones(1))
    observed = np.where(ages < 2, 15.0, table)
    seen = CampaignSeries(observed, table, 0 * table, np.full(1, 0.01))
    (level,), (variance,), _, before = moves.forecast(seen, ages)
    assert before[0, 0, 1:] == pytest.approx(30.0 * np.array(SPANS[1:]), rel=0.01)
    served = (observed, table * np.exp(level), np.array([variance]), RATE, JUMP)
    hidden, told = (mixture_variance(*served, each)[0] for each in (None, before))
    assert 1.645 * np.sqrt(hidden) < level - np.log(0.5) < 1.645 * np.sqrt(told)


def test_jumps_that_were_found_make_jumps_likely():
    table = np.full((10, HOURS), 20.0)
    calm = CampaignHours.of(table, table)
    begun = np.ones(table.shape)
    begun[:5, :20] = 0.01
    assert jump_rate([calm._replace(begun=begun)]) > 6 * jump_rate([calm])
    assert jump_rate([]) == 0.5 / 360
