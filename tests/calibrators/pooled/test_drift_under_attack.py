"""What an attack, or a broken tracker, can do to a campaign at most: the bounds of decision 13.

Every hour before, in and after the attack is refitted as the service would, with a stand-in for the
shape: the campaign's level by its weighted hours.
"""

import numpy as np
import pytest

from calibrators.pooled.change_points import hour_weights
from tests.calibrators.pooled.fit_levels import fit_levels

HOURS = 48
AFTER = 6
LENGTHS = (1, 3, pytest.param(8, marks=pytest.mark.slow))
CAMPAIGNS = 40
"""Of which the first ten are attacked."""


def served(positives, factor, length):
    """The ratio of what is served to the truth, (10, length + AFTER), after each hour's refit; the
    last `AFTER` refits know as many hours after the attack, the first none."""
    rng = np.random.default_rng(11)
    shape = (CAMPAIGNS, HOURS + length + AFTER)
    true = np.exp(np.cumsum(rng.normal(0, 0.02, shape), axis=1))
    seen = true.copy()
    seen[:10, HOURS : HOURS + length] *= factor
    observed = rng.poisson(positives * seen).astype(float)
    moments = range(HOURS + 1, shape[1] + 1)
    ratios = [
        _served(positives, observed[:, now - HOURS : now]) / true[:, now - 1] for now in moments
    ]
    return np.array(ratios).T[:10]


def _served(positives, observed):
    expected, ages = np.full(observed.shape, positives), np.arange(HOURS)[::-1] + 0.5
    weights = hour_weights(expected, observed, ages).weights
    recent = weights * np.exp2(-ages / 24)
    level = ((observed * recent).sum(axis=1) + 20) / ((expected * recent).sum(axis=1) + 20)
    levels = fit_levels(
        expected * level[:, None],
        observed,
        ages,
        weights=weights,
        fitted=np.log(level),
        variances=np.full(len(level), 0.05),
    )
    return level * np.exp(levels.shifts)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 8])
@pytest.mark.parametrize(
    ("positives", "factor"), [(20.0, 0.0), (20.0, 20.0), (200.0, 0.0), (200.0, 100.0)]
)
def test_an_implausible_attack_has_no_say(positives, factor, length):
    """All clicks or none: nobody bids by it, in no hour of it and none after."""
    ratios = served(positives, factor, length)
    assert np.median(ratios, axis=0) == pytest.approx(1.0, abs=0.25)
    assert 0.5 < ratios.min() < ratios.max() < 2


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("factor", [3.0, 6.0])
@pytest.mark.parametrize("positives", [20.0, 200.0])
def test_a_plausible_attack_is_bounded_and_over_two_hours_after_it(positives, factor, length):
    """It passes for a jump: its first hour moves the map by a factor of 3 at most, its others by
    no more than it is. Refits that know two honest hours are within a quarter of the truth, half of
    them; those that know three are within a factor of 1.85, all of them."""
    ratios = served(positives, factor, length)
    assert ratios[:, 0].max() < 3.0
    assert ratios.max() < 1.5 * factor
    after = ratios[:, length + 1 :]
    assert np.median(after, axis=0) == pytest.approx(1.0, abs=0.25)
    assert after[:, 1:].max() < 1.85


@pytest.mark.parametrize("factor", [0.0, 100.0])
def test_an_attack_on_one_moves_neither_the_target_nor_the_others(factor):
    rng = np.random.default_rng(12)
    expected = np.full((CAMPAIGNS, HOURS), 50.0)
    observed = rng.poisson(expected).astype(float)
    attacked = observed.copy()
    attacked[0, -3:] *= factor
    ages = np.arange(HOURS)[::-1] + 0.5
    clean, spoilt = (fit_levels(expected, y, ages) for y in (observed, attacked))
    assert spoilt.target_shift == pytest.approx(clean.target_shift, abs=0.02)
    assert spoilt.shifts[1:] == pytest.approx(clean.shifts[1:], abs=0.05)


def test_without_weights_the_levels_bound_it_themselves():
    """The last line: a factor of 3, whatever is seen, and what exceeds it counts as no more."""
    expected = np.full((CAMPAIGNS, HOURS), 50.0)
    observed = expected.copy()
    observed[0, -10:] = 1e6
    found = fit_levels(
        expected, observed, np.arange(HOURS)[::-1] + 0.5, weights=np.ones(expected.shape)
    )
    assert found.shifts[0] <= found.target_shift + np.log(3) + 1e-9
    assert found.target_shift < np.log(1.2)
