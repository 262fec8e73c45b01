"""Pooling adjacent violators is weighted isotonic regression."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from calibrators.methods.smoothed_isotonic import pool_adjacent_violators
from calibrators.samples import Integers
from tests.calibrators.strategies import Floats


def means_of(starts: Integers, weights: Floats, values: Floats) -> Floats:
    """The weighted mean of each pool."""
    return np.add.reduceat(weights * values, starts) / np.add.reduceat(weights, starts)


@pytest.mark.parametrize("seed", range(20))
def test_pools_are_weighted_isotonic_regression(seed):
    """Against SciPy and scikit-learn, 400 cases with ties, zeros and ones."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(1, 60))
        weights = rng.choice([1.0, 2.0, 7.5], n) if seed % 2 else rng.random(n) + 1e-3
        values = rng.choice([0.0, 0.25, 0.5, 1.0], n) if seed % 3 else rng.random(n)

        starts = pool_adjacent_violators(weights, values)

        lengths = np.diff(starts, append=n)
        means = np.repeat(means_of(starts, weights, values), lengths)
        scipy_means = isotonic_regression(values, weights=weights).x
        sklearn_means = IsotonicRegression().fit(range(n), values, weights).predict(range(n))
        np.testing.assert_allclose(means, scipy_means, atol=1e-12)
        np.testing.assert_allclose(means, sklearn_means, atol=1e-12)
        assert (np.diff(means[starts]) > 0).all()


def test_means_that_differ_only_by_rounding_are_equal():
    """Equal means pool (line 17 of Algorithm 1 says <=), however they were summed up."""
    third = [1 / 3, float(Fraction(1, 3)) + 2**-54, 0.1 + 0.1 + 0.1 + 1 / 30]

    assert pool_adjacent_violators(np.ones(3), np.array(third)).tolist() == [0]
    assert pool_adjacent_violators(np.ones(2), np.zeros(2)).tolist() == [0]
    assert pool_adjacent_violators(np.ones(2), np.array([0.3, 0.3000001])).tolist() == [0, 1]


def pooled_on_a_stack(weights: list[float], values: list[float]) -> list[int]:
    """The oracle: every bin goes onto the stack, and into those below that it is not above."""
    stack: list[tuple[int, float, float]] = []
    for start, (weight, value) in enumerate(zip(weights, values, strict=True)):
        first = start
        while stack and value <= stack[-1][2] * (1 + 1e-9):
            first, top_weight, top_value = stack.pop()
            value = (value * weight + top_value * top_weight) / (weight + top_weight)
            weight += top_weight
        stack.append((first, weight, value))
    return [first for first, *_ in stack]


@pytest.mark.parametrize("seed", range(4))
def test_means_that_are_equal_but_for_rounding_pool_as_on_a_stack(seed):
    """Bins that rise by less, just as much, and more than rounding, alone and in rows."""
    rng = np.random.default_rng(seed)
    for _ in range(500):
        n = int(rng.integers(1, 14))
        steps = rng.integers(0, 4, n) * rng.choice([4e-10, 1e-9, 1e-12])
        values = np.sort(rng.choice([0.1, 0.2, 0.3], n) * (1 + steps))
        weights = rng.choice([1.0, 2.0, 1e6, 0.3], n)

        starts = pool_adjacent_violators(weights, values)

        # Distinct values that rise are pools of isotonic regression already.
        if (np.diff(values) > 0).all():
            means = weights * values / weights
            assert starts.tolist() == pooled_on_a_stack(weights.tolist(), means.tolist())
        else:
            assert (np.diff(means_of(starts, weights, values)) > 0).all()
