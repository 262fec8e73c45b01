"""Pooling of adjacent violators for many campaigns whose bins stand end to end."""

import numpy as np

from calibrators.pooling import pool_adjacent_violators, strictly_increase
from calibrators.samples import Floats, Integers


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
