"""Pool adjacent violators, on bins (Phase 2 of Algorithm 1, Deng et al.)."""

import numpy as np
from scipy.optimize import isotonic_regression

from calibrators.samples import Floats, Integers

_EQUAL = 1 + 1e-9
"""Means this close are equal but for rounding, which must not decide whether two bins pool."""


def pool_adjacent_violators(weights: Floats, values: Floats) -> Integers:
    """Which bins form a pool: the first bin of each, shape (k,), ascending.

    Pools are the fewest whose weighted mean values strictly increase: weighted isotonic regression.
    Weights are above 0. O(number of bins).
    """
    starts = isotonic_regression(values, weights=weights).blocks[:-1].astype(np.int64)
    pooled = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / pooled
    if (means[1:] > means[:-1] * _EQUAL).all():
        return starts
    return starts[_pool_equals(pooled.tolist(), means.tolist())]


def _pool_equals(weights: list[float], values: list[float]) -> list[int]:
    """Isotonic regression leaves bins of equal means apart; this pools them too, with a stack."""
    starts: list[int] = []
    pooled: list[tuple[float, float]] = []
    for start, (weight, value) in enumerate(zip(weights, values, strict=True)):
        first = start
        while pooled and value <= pooled[-1][1] * _EQUAL:
            top_weight, top_value = pooled.pop()
            value = (value * weight + top_value * top_weight) / (weight + top_weight)
            weight += top_weight
            first = starts.pop()
        starts.append(first)
        pooled.append((weight, value))
    return starts
