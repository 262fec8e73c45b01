"""Sums of values that belong together.

A sum over a sum, and what it is when there is nothing below.
The mean of weighted values.
"""

import numpy as np

from calibrators.samples import Floats, Integers


def sum_at(places: Integers, values: Floats, length: int) -> Floats:
    """Sum of the values at each place 0..length-1, shape (length,); both arguments (n,)."""
    return np.bincount(places, values, length).astype(np.float64, copy=False)


def sum_between(values: Floats, starts: Integers, ends: Integers) -> Floats:
    """Sum of values[start:end] of each span, in the shape of the starts; 0 where start >= end.

    Spans that hold anything ascend and do not overlap. Each is added up on its own, so that none
    is rounded to the size of another.
    """
    held = starts < ends
    sums = np.zeros(starts.shape)
    if held.any():
        edges = np.stack((starts[held], ends[held]), axis=1).ravel()
        sums[held] = np.add.reduceat(values[: edges[-1]], edges[:-1])[::2]
    return sums


def ratio(numerator: float, denominator: float) -> float:
    """Numerator over denominator, both at least 0; over 0 it is infinite, and nan for 0 over 0."""
    if denominator > 0.0:
        return float(numerator) / float(denominator)
    return float("inf") if numerator > 0.0 else float("nan")


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Mean of the values, (n,), by weights at least 0, (n,); nan without weight."""
    total = weights.sum()
    if total == 0.0:
        return float("nan")
    # Shares, because value times weight can leave the range of floats where the mean does not.
    return float((values * (weights / total)).sum())
