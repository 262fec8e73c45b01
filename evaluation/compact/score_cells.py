"""Score cells: scores that differ in their last binary digits only, taken as one."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

MANTISSA_BITS = 52
ALL_BITS = 63
_LARGEST = np.asarray(np.finfo(np.float64).max).view(np.int64)


def score_cells(scores: Floats, dropped: int) -> Integers:
    """The cell of each score, (n,): its binary digits without the last `dropped`, at most 63.

    The scores are finite and at least 0 (and not -0.0); cells ascend with them. An octave, from x
    to 2 x, has 2 ** (52 - dropped) cells.

    Examples
    --------
    >>> score_cells(np.array([0.5, 0.5000001, 0.75, 1.0]), 51).tolist()
    [2044, 2044, 2045, 2046]
    """
    bits = scores.view(np.int64)
    return bits >> dropped if dropped else bits


def inside_cells(scores: Floats, cells: Integers, dropped: int) -> Floats:
    """The scores, (n,), moved into their cells where the rounding of a mean left them outside."""
    lowest = cells << dropped
    highest = np.minimum(lowest | ((1 << dropped) - 1), _LARGEST)
    return np.clip(scores, lowest.view(np.float64), highest.view(np.float64))


def least_dropped(
    scores: Floats, opens_slice: NDArray[np.bool_], budget: int, dropped: int = 0
) -> int:
    """The fewest digits, at least `dropped`, that leave at most `budget` cells.

    The scores, (n,), are sorted by slice and score; `opens_slice`, (n - 1,), says which row is of
    another slice than the one before it. Without any digits each slice is one cell, so more than
    `budget` slices leave more cells than that.
    """
    bits = scores.view(np.int64)
    apart = bits[1:] ^ bits[:-1]
    apart[opens_slice] = np.iinfo(np.int64).max
    low, high = dropped, ALL_BITS
    while low < high:
        middle = (low + high) // 2
        if 1 + np.count_nonzero(apart >= 1 << middle) <= budget:
            high = middle
        else:
            low = middle + 1
    return low
