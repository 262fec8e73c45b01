"""Curves that never fall: isotonic regression of the rows of a table that do."""

import numpy as np

from calibrators.samples import Floats


def monotone_rows(table: Floats, weights: Floats) -> Floats:
    """Each row's weighted isotonic regression, (n, k); rows that never fall stay as they are.

    By the max-min formula, all rows at once: the value at k is the largest over i <= k of the
    smallest over j >= k of the weighted mean of i..j.

    Source: Barlow et al., Statistical Inference under Order Restrictions, 1972, theorem 1.4.

    Parameters: table (n, k), weights above 0, (n, k).
    """
    falling = (np.diff(table, axis=1) < 0).any(axis=1)
    if not falling.any():
        return table
    fitted = table.copy()
    fitted[falling] = _max_min(table[falling], weights[falling])
    return fitted


def _max_min(table: Floats, weights: Floats) -> Floats:
    size = table.shape[1]
    mass = np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0)))
    sums = np.pad(np.cumsum(weights * table, axis=1), ((0, 0), (1, 0)))
    fitted = np.full(table.shape, -np.inf)
    for first in range(size):
        total = mass[:, first + 1 :] - mass[:, first, None]
        means = (sums[:, first + 1 :] - sums[:, first, None]) / total
        behind = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        fitted[:, first:] = np.maximum(fitted[:, first:], behind)
    return np.maximum.accumulate(fitted, axis=1)
