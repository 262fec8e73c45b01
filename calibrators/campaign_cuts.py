"""Equal-frequency cuts of many campaigns at once; each as `equal_frequency` cuts one."""

from itertools import pairwise

import numpy as np

from calibrators.equal_frequency import LAST_WHOLE, MOST_BINS
from calibrators.samples import Floats, Integers


def bin_counts(totals: Floats, bin_size: float, distinct: Integers) -> Integers:
    """`bin_count` of each campaign, (c,), by its total weight and its number of distinct scores."""
    most = np.maximum(MOST_BINS, distinct)
    return np.clip(totals // bin_size, 1, most).astype(np.int64)


def inner_cuts(totals: Floats, bins: Integers) -> tuple[Integers, Floats]:
    """`equal_cuts` of each campaign but 0 and the total, end to end: whose it is, and each cut."""
    campaigns = np.repeat(np.arange(len(bins)), bins - 1)
    before = np.cumsum(bins - 1) - (bins - 1)
    edges = np.arange(len(campaigns)) - before[campaigns] + 1
    whole = (np.floor(totals) == totals) & (totals < LAST_WHOLE)
    exact = _whole_cuts(np.where(whole, totals, 0.0)[campaigns], bins[campaigns], edges)
    mantissas, exponents = np.frexp(totals[campaigns])
    others = np.ldexp(edges * mantissas / bins[campaigns], exponents)
    return campaigns, np.where(whole[campaigns], exact, others)


def _whole_cuts(totals: Floats, bins: Integers, edges: Integers) -> Floats:
    size, rest = np.divmod(totals.astype(np.int64), bins)
    cuts: Integers = edges * size + (2 * edges * rest + bins) // (2 * bins)
    return cuts.astype(np.float64)


def running_sums(values: Floats, offsets: Integers) -> Floats:
    """Running sums of columns, (k, m), that begin anew with each campaign.

    Campaign i stands at offsets[i]:offsets[i + 1]. One after the other: a sum over all of them
    would be rounded by those before.
    """
    sums = np.empty_like(values)
    for first, last in pairwise(offsets.tolist()):
        np.add.accumulate(values[:, first:last], axis=1, out=sums[:, first:last])
    return sums


def reaching(reached: Floats, offsets: Integers, campaigns: Integers, cuts: Floats) -> Integers:
    """For each cut the first place within its campaign whose running sum reaches it.

    By halving, all cuts at once; the last place of a campaign reaches all of its cuts.
    """
    low, high = offsets[campaigns], offsets[campaigns + 1] - 1
    while (low < high).any():
        middle = (low + high) >> 1
        short = reached[middle] < cuts
        low, high = np.where(short, middle + 1, low), np.where(short, high, middle)
    return low
