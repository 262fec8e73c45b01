"""Pool adjacent violators: the increasing fit of bins, which joins neighbours that fall."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from calibrators.scipy_functions import isotonic_regression

_EQUAL = 1 + 1e-9
"""Means this close are equal but for rounding, which must not decide whether two bins pool."""


def pool_adjacent_violators(weights: Floats, values: Floats) -> Integers:
    """Which bins form a pool: the first bin of each, shape (k,), ascending.

    Pools are the fewest whose weighted mean values strictly increase: weighted isotonic regression.
    Weights are above 0. O(number of bins).
    """
    _, starts = isotonic_regression(values, weights)
    pooled = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / pooled
    rises = strictly_increase(means)
    if rises.all():
        return starts
    equal = (np.flatnonzero(~rises) + 1).tolist()
    return starts[_pool_equals(pooled.tolist(), means.tolist(), equal)]


def strictly_increase(means: Floats) -> NDArray[np.bool_]:
    """Whether each mean but the first lies above the one before by more than rounding, (k - 1,)."""
    return means[1:] > means[:-1] * _EQUAL


def _pool_equals(weights: list[float], values: list[float], equal: list[int]) -> list[int]:
    """Isotonic regression leaves bins of equal means apart; this pools them too, with a stack.

    `equal` are the bins that do not lie above the one before, ascending; the others are only
    looked at behind a pool.
    """
    starts: list[int] = []
    pooled: list[tuple[float, float]] = []
    done = 0
    for place in equal:
        starts.extend(range(done, place))
        pooled.extend(zip(weights[done:place], values[done:place], strict=True))
        done = max(done, place)
        while done < len(values) and _pooled_with_top(weights[done], values[done], starts, pooled):
            done += 1
    starts.extend(range(done, len(values)))
    return starts


def _pooled_with_top(
    weight: float, value: float, starts: list[int], pooled: list[tuple[float, float]]
) -> bool:
    """Put the next bin into the pool before it, if it belongs there, and that where it belongs."""
    merged = False
    while pooled and value <= pooled[-1][1] * _EQUAL:
        top_weight, top_value = pooled.pop()
        value = (value * weight + top_value * top_weight) / (weight + top_weight)
        weight += top_weight
        first = starts.pop()
        merged = True
    if merged:
        starts.append(first)
        pooled.append((weight, value))
    return merged


def pool_each(weights: Floats, values: Floats, offsets: Integers) -> Integers:
    """`pool_adjacent_violators` of each campaign: the first bin of every pool, ascending.

    The bins of campaign i stand at offsets[i]:offsets[i + 1]; there is at least one. Most campaigns
    have few bins, and in order: these are seen at once, and only the others gone through.
    """
    starts = np.ones(len(values), bool)
    sizes = np.diff(offsets)
    for campaign in np.flatnonzero(_disordered(weights, values, offsets)).tolist():
        bins = slice(offsets[campaign], offsets[campaign + 1])
        starts[bins] = False
        # Two bins out of order are one pool.
        pools = np.zeros(1, np.int64)
        if sizes[campaign] > 2:
            pools = pool_adjacent_violators(weights[bins], values[bins])
        starts[bins.start + pools] = True
    return np.flatnonzero(starts)


def _disordered(weights: Floats, values: Floats, offsets: Integers) -> Integers:
    """How many bins of each campaign do not lie clearly above the one before."""
    rises = np.ones(len(values), bool)
    rises[1:] = (values[1:] > values[:-1]) & strictly_increase(weights * values / weights)
    rises[offsets[:-1]] = True
    return np.add.reduceat(~rises, offsets[:-1], dtype=np.int64)
