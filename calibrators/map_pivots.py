"""Where the search for a score begins: the first knot of each eighth of a map's block."""

from collections.abc import Callable

import numpy as np

from calibrators.cache_lines import half_lines
from calibrators.samples import Integers, Singles

PIVOTS = 8
"""Columns; the last one is infinity, because the first eighth needs no pivot."""

_ROWS = 1024


def pivots_of(
    knots: Singles,
    starts: Integers,
    widths: Integers,
    steps: Integers,
    pause: Callable[[], None] = lambda: None,
) -> Singles:
    """Every step-th knot of each block but its first, shape (m, 8), infinity beyond its width.

    `pause` is called between pieces of the work.
    """
    pivots: Singles = half_lines(len(starts), np.float32)
    # A piece at a time, so that no single step keeps the other threads of a process waiting.
    for first in range(0, len(starts), _ROWS):
        pause()
        rows = slice(first, first + _ROWS)
        offsets = steps[rows, None] * np.arange(1, PIVOTS + 1)
        found = knots.take(starts[rows, None] + offsets, mode="clip")
        pivots[rows] = np.where(offsets < widths[rows, None], found, np.inf)
    return pivots
