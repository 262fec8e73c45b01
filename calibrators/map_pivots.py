"""Where the search for a score begins: the first knot of each eighth of a map's block."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

PIVOTS = 8
"""Columns; the last one is infinity, because the first eighth needs no pivot."""

Pivots = NDArray[np.float32] | NDArray[np.float64]

_ROWS = 1024
_NEVER = -1


def pivots_of(knots: Floats, starts: Integers, widths: Integers, steps: Integers) -> Pivots:
    """Every step-th knot of each block but its first, shape (m, 8), infinity beyond its width.

    In single precision, rounded down, so that a search reads half the memory. It may then go one
    eighth too far, for a score between what is rounded and the pivot. If no other knot lies there,
    the knot before that eighth is the right one all the same. If one does, for any map, the pivots
    of all are doubles.
    """
    rounded = np.full((len(starts), PIVOTS), np.inf, np.float32)
    # A piece at a time, so that no single step keeps the other threads of a process waiting.
    for first in range(0, len(starts), _ROWS):
        rows = slice(first, first + _ROWS)
        places = _places(starts[rows], widths[rows], steps[rows])
        rounded[rows] = _rounded_down(_at(knots, places))
        if (rounded[rows] < _before(knots, places)).any():
            return _at(knots, _places(starts, widths, steps))
    return rounded


def _places(starts: Integers, widths: Integers, steps: Integers) -> Integers:
    offsets = steps[:, None] * np.arange(1, PIVOTS + 1)
    return np.where(offsets < widths[:, None], starts[:, None] + offsets, _NEVER)


def _at(knots: Floats, places: Integers) -> Floats:
    return np.where(places == _NEVER, np.inf, knots[places])


def _before(knots: Floats, places: Integers) -> Floats:
    found = knots[places - 1]
    # Infinity before a pivot is padding, and so is the pivot.
    return np.where((places == _NEVER) | np.isinf(found), 0.0, found)


def _rounded_down(exact: Floats) -> NDArray[np.float32]:
    rounded = exact.astype(np.float32)
    return np.where(rounded > exact, np.nextafter(rounded, np.float32(0)), rounded)
