"""Sums by place and by span, and ratios of sums with one rule for what is over 0."""

import numpy as np

from calibrators.samples import Floats, Integers


def sum_between(values: Floats, starts: Integers, ends: Integers) -> Floats:
    """Sum of values[start:end] of each span, in the shape of the starts; 0 where start >= end.

    Non-empty spans ascend and do not overlap. Each is added up on its own, so that none is rounded
    to the size of another.
    """
    held = starts < ends
    sums = np.zeros(starts.shape)
    if held.any():
        edges = np.stack((starts[held], ends[held]), axis=1).ravel()
        sums[held] = np.add.reduceat(values[: edges[-1]], edges[:-1])[::2]
    return sums


def quotients(numerators: Floats, denominators: Floats) -> Floats:
    """Each numerator over its denominator, all at least 0; over 0 infinite, nan for 0 over 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found: Floats = numerators / denominators
    return found


def ratio(numerator: float, denominator: float) -> float:
    """`quotients` of two numbers."""
    return float(quotients(np.asarray(numerator), np.asarray(denominator)))


def ratio_errors(predicted: Floats, actual: Floats) -> Floats:
    """max(r, 1/r) - 1 with r = predicted / actual, in the arguments' shape: the error of a bin.

    Infinite where either side is 0, nan where both are.
    """
    ratios = quotients(predicted, actual)
    return np.maximum(ratios, quotients(np.asarray(1.0), ratios)) - 1.0


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Mean of the values, (n,), by weights at least 0, (n,); nan without weight."""
    total = weights.sum()
    if total == 0.0:
        return float("nan")
    # Shares, because value times weight can leave the range of floats where the mean does not.
    return float((values * (weights / total)).sum())
