"""Where a search writes what it finds on its way, kept for the next one of the same size."""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Singles

GROUP: Final = 8
"""Knots that are compared at once: in single precision half a line of the processor's cache."""

_SIZES = 16


class SearchRoom:
    """Room for n scores: `knots`, (n, 8), to compare them with, and `segments`, (n, 4), of which
    `starts`, `values` and `slopes`, (n,), are columns.

    Arrays that are written again and again stay in the processor's cache, and all views of them
    are made once.
    """

    __slots__ = (
        "_counts",
        "_eights",
        "_flat",
        "_passed",
        "knots",
        "segments",
        "slopes",
        "starts",
        "values",
    )

    def __init__(self, n: int) -> None:
        self.knots: Singles = np.empty((n, GROUP), np.float32)
        self.segments: Floats = np.empty((n, 4))
        self.starts, self.values, self.slopes, _ = self.segments.T
        self._flat = self.knots.reshape(-1)
        self._passed = np.empty(n * GROUP, np.bool_)
        # Eight booleans are the bytes of one integer: its bits count them.
        self._eights = self._passed.view(np.uint64)
        self._counts = np.empty(n, np.uint8)

    def passed(self, repeated: Singles) -> NDArray[np.uint8]:
        """How many of each row's eight knots are at most its score, which is repeated for each."""
        np.less_equal(self._flat, repeated, self._passed)
        return np.bitwise_count(self._eights, self._counts)


@lru_cache(_SIZES)
def spare_rooms(n: int) -> list[SearchRoom]:
    """Rooms for n scores that nobody is in: taken out by who needs one, and put back."""
    return []
