"""Cuts of weighted samples into bins of equal frequency."""

import numpy as np

from calibrators.samples import Floats, Integers

MOST_BINS = 2**20
"""More bins than this only where there are more distinct scores."""

LAST_WHOLE = 2.0**53
"""From here on every float is whole, and counting single samples means nothing any more."""


def bin_count(total_weight: float, bin_size: float, distinct: int = 1) -> int:
    """K = max(1, floor(N / n)), Algorithm 1 line 3 of Deng et al.

    Never more than the number of distinct scores or 2**20, whichever is more: weights of 1e12
    must not ask for more bins than memory holds.
    """
    return int(min(max(total_weight // bin_size, 1), max(MOST_BINS, distinct)))


def equal_cuts(total_weight: float, bins: int) -> Floats:
    """Where the bins end, in cumulative weight, shape (bins + 1,), from 0 to the total.

    A whole total is cut after whole samples, cut k after sample (2kN + K) // (2K), so that sizes
    differ by at most one and no remainder is dropped; any other at exactly kN/K.
    """
    edges = np.arange(bins + 1)
    if total_weight.is_integer() and total_weight < LAST_WHOLE:
        # The quotient apart from the remainder: 2kN itself would overflow.
        size, rest = divmod(int(total_weight), bins)
        return (edges * size + (2 * edges * rest + bins) // (2 * bins)).astype(np.float64)
    # The exponent apart, for a total near the largest float would overflow in the product.
    mantissa, exponent = np.frexp(total_weight)
    cuts: Floats = np.ldexp(edges * mantissa / bins, exponent)
    return cuts


def bin_starts(reached: Floats, bins: int) -> Integers:
    """First entry of each of at most `bins` bins, ascending from 0.

    `reached` are cumulative weights, shape (m,), one entry for each distinct score: a cut inside
    a run of equal scores moves to the run's end, and bins that this leaves empty vanish.
    """
    if not len(reached):
        return np.empty(0, np.int64)
    cuts = equal_cuts(float(reached[-1]), bins)[1:-1]
    ends = np.searchsorted(reached, cuts)
    # The ends ascend already: only repetitions have to go.
    fresh = np.diff(ends, prepend=-1) > 0
    ends = ends[fresh & (ends < len(reached) - 1)]
    return np.concatenate(([0], ends + 1))
