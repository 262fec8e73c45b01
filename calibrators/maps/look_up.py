"""Calibration maps of many campaigns in flat arrays, by row: the look-up of scores, one by one or
many at once.

The look-up is compiled where a compiler was, and plain Python and numpy elsewhere. Both give the
same to the last bit.
"""

import mmap
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from calibrators.maps.calibration_map import MapColumns, segment_slopes
from calibrators.names import compiled, index_of
from calibrators.samples import (
    Floats,
    Integers,
    Singles,
    check_unit_interval,
    file_memory,
    places_of,
)

ROW_BYTES: Final = 32
"""Bytes of a row."""

HUGE_PAGE: Final = 2 * 1024 * 1024
LARGE: Final = HUGE_PAGE // 2
"""Bytes from which a table is worth huge pages, and to be kept for the next of its size."""

_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_MOST_SPARE: Final = 1.25
"""Of what is in use: versions differ in size, and take turns at two places."""

_used: Final[set[mmap.mmap]] = set()
_spare: Final[deque[mmap.mmap]] = deque()


def aligned_rows(rows: int, dtype: type[Any]) -> NDArray[Any]:
    """An array of shape (rows, 32 bytes of the dtype), each row within one line of the cache; what
    it holds is left to the caller to write.

    A processor remembers where a few thousand pages are, so a large table is in huge ones. Memory
    that is touched for the first time has to be found by the system, and under a hypervisor by the
    host, which may stop everything for milliseconds. So the memory of a large table that is gone is
    used again, by one that needs half of it at least. Little more is kept for that than is in use:
    that of the version before, where one version follows the other, and none where none is served.
    """
    size = max(1, rows) * ROW_BYTES
    if size < LARGE:
        table = np.frombuffer(mmap.mmap(-1, size, flags=_PRIVATE), dtype)
    else:
        table = _large(size, dtype)
    found: NDArray[Any] = table.reshape(-1, ROW_BYTES // table.itemsize)[:rows]
    return found


def _large(size: int, dtype: type[Any]) -> NDArray[Any]:
    block = _taken(size) or _new(size)
    start = -np.frombuffer(block, np.uint8).ctypes.data % HUGE_PAGE
    table = np.frombuffer(block, dtype, size // np.dtype(dtype).itemsize, start)
    _used.add(block)
    # All views refer to this array, and end before it does.
    finalize(table, _keep, block).atexit = False
    return table


def _keep(block: mmap.mmap) -> None:
    """Where tables grow, the oldest block is the one that has become too small."""
    _used.discard(block)
    _spare.append(block)
    while _bytes(_spare) > _MOST_SPARE * _bytes(_used):
        # Another thread may have been faster.
        with suppress(IndexError):
            _spare.popleft()


IN_FILES: Final = 32 << 20
"""Bytes from which on a table may be in a file: some fifty thousand maps."""


def drop_spare_tables() -> None:
    """For who answers no requests, and has many versions: keeps nothing for the next."""
    _spare.clear()


def _bytes(blocks: set[mmap.mmap] | deque[mmap.mmap]) -> int:
    # Another thread may change them meanwhile, and a collection even while a tuple is made.
    return sum(map(len, blocks.copy()))


def _taken(size: int) -> mmap.mmap | None:
    for block in _spare.copy():
        if size <= len(block) - HUGE_PAGE <= 2 * size:
            # Another thread may have been faster.
            with suppress(ValueError):
                _spare.remove(block)
                return block
    return None


def _new(size: int) -> mmap.mmap:
    """Memory for a table that may start at a huge page, and for an eighth more: the next is hardly
    ever just as large. What is not touched takes no memory."""
    if size > IN_FILES:
        with suppress(OSError):
            return file_memory(size + HUGE_PAGE)
    block = mmap.mmap(-1, size + size // 8 + HUGE_PAGE, flags=_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


# A piece at a time, so that what a fill writes down stays in the processor's cache, and so that no
# single step of it keeps the other threads of a process waiting.
_FILLED = 4096
_SEARCHED = 4096


class NumpyLookUp:
    """What `_look_up.c` does, in Python and numpy, to the last bit. Scores are in [0, 1]."""

    def __init__(self, spans: Integers, knots: Floats, segments: Floats) -> None:
        """As `MapRows` has them."""
        firsts, lengths, shifts = spans.T
        self._spans, self._knots, self._segments = spans, knots, segments
        self._share_all = bool((lengths == len(knots)).all())
        self._halvings = int(lengths.max(initial=1) - 1).bit_length()
        # An item of a memoryview is a Python number at a third of the price of one of numpy.
        self._spans_of = firsts.data, (firsts + lengths).data, shifts.data
        self._columns = knots.data, *(column.data for column in segments.T)

    def of_row(self, row: int, score: float) -> float:
        """Probability of one score by the map of the row."""
        (firsts, stops, shifts), (knots, values, slopes) = self._spans_of, self._columns
        place = bisect_right(knots, score, firsts[row], stops[row]) - 1
        at = place + shifts[row]
        found: float = values[at] + slopes[at] * (score - knots[place])
        return found

    def look_up_few(self, rows: Sequence[int], scores: Sequence[float]) -> list[float]:
        """Probabilities of scores, each by the map of its row."""
        return [self.of_row(row, score) for row, score in zip(rows, scores, strict=True)]

    def look_up(self, rows: Integers, scores: Floats, found: Floats) -> None:
        """Writes the probabilities, (n,), of scores, each by the map of its row."""
        for start in range(0, len(rows), _SEARCHED):
            piece = slice(start, start + _SEARCHED)
            found[piece] = self._look_up(rows[piece], scores[piece])

    def _look_up(self, rows: Integers, scores: Floats) -> Floats:
        place, length, shift = self._spans.take(rows, 0).T
        if self._share_all:
            place = self._knots.searchsorted(scores, "right") - 1
        else:
            self._halve(place, length, scores)
        values, slopes = self._segments.take(place + shift, 0).T
        found: Floats = slopes * (scores - self._knots.take(place))
        found += values
        return found

    def _halve(self, place: Integers, length: Integers, scores: Floats) -> None:
        """All scores at once, each between the bounds of its own map."""
        for _ in range(self._halvings):
            half = length >> 1
            # A map of one knot left has half = 0, and its place does not move.
            place += half * (self._knots.take(place + half) <= scores)
            length -= half


class MapRows:
    """Maps by row, which may share their knots; immutable.

    spans : of each map the place of its first knot, how many it has, and what leads from a knot's
        place to that of its segment, (n, 3): one line of the processor's cache.
    knots : all knots, (k,).
    segments : value and slope at the knots of all maps, end to end, (m, 2): another line.
    """

    __slots__ = ("_knots", "_search", "_segments", "_spans", "at", "look_up_few")

    at: Final[Callable[[int, float], float]]
    """Probability of one score by the map of a row."""
    look_up_few: Final[Callable[[Sequence[int], Sequence[float]], list[float]]]
    """`look_up` to the last bit, of lists."""

    def __init__(
        self,
        lengths: Integers,
        firsts: Integers,
        knots: Floats,
        values: Floats,
        pause: Callable[[], None],
    ) -> None:
        """From the number of knots of each map and the place of the first, (n,), all knots, (k,),
        which are checked, and the values at those of all maps, end to end, (m,). `pause` is called
        between pieces of the work. Raises ValueError on values outside [0, 1]."""
        shifts = np.cumsum(lengths) - lengths - firsts
        self._spans, self._knots = np.stack((firsts, lengths, shifts), axis=1), knots
        pairs = aligned_rows(-(-len(values) // 2), np.float64).reshape(-1, 2)
        self._segments = pairs[: len(values)]
        for run, flat in pieces(lengths):
            pause()
            checked = check_unit_interval("values", values[flat]) + 0.0
            own = knots[places_of(firsts[run], lengths[run])]
            self._segments[flat, 0], self._segments[flat, 1] = checked, segment_slopes(own, checked)
        maps = self._spans, knots, self._segments
        # What names have rows is the atlas' to know.
        plain = compiled is None
        self._search = NumpyLookUp(*maps) if plain else compiled.LookUp(index_of(()), maps)
        # Bound here, because they are short enough to feel each step on the way.
        self.at, self.look_up_few = self._search.of_row, self._search.look_up_few

    @classmethod
    def of(cls, maps: MapColumns, pause: Callable[[], None] = lambda: None) -> "MapRows":
        """Maps with knots of their own. Raises ValueError on maps that `CalibrationMap` would
        refuse."""
        check_lengths(maps.lengths)
        knots = aligned_rows(-(-len(maps.knots) // 4), np.float64).reshape(-1)[: len(maps.knots)]
        for run, flat in pieces(maps.lengths):
            pause()
            # Adding 0.0 turns -0.0 into 0.0, as `CalibrationMap` does.
            knots[flat] = check_unit_interval("knots", maps.knots[flat]) + 0.0
            check_knots(maps.lengths[run], knots[flat])
        firsts = np.cumsum(maps.lengths) - maps.lengths
        return MapRows(maps.lengths, firsts, knots, maps.values, pause)

    def look_up(self, rows: Integers, scores: Floats | Singles) -> Floats:
        """Probabilities of n scores, each by the map of its row; IndexError on a row beyond the
        last."""
        found = np.empty(len(rows))
        given = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(scores, np.float64)
        self._search.look_up(*given, found)
        return found

    def columns(self, rows: Integers | slice = slice(None)) -> MapColumns:
        """The maps of these rows, as they came."""
        firsts, lengths, shifts = self._spans[rows].T
        values = self._segments[places_of(firsts + shifts, lengths), 0]
        return MapColumns(lengths, self._knots[places_of(firsts, lengths)], values)


def pieces(lengths: Integers) -> Iterator[tuple[slice, slice]]:
    """Runs of whole maps with about `_FILLED` knots each, and where their knots stand."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(_FILLED, int(ends[-1:].sum()), _FILLED), side="right")
    stops = np.unique(np.append(cuts, len(lengths))).tolist()
    first = flat = 0
    for stop in stops:
        if stop > first:
            yield slice(first, stop), slice(flat, int(ends[stop - 1]))
            first, flat = stop, int(ends[stop - 1])


def check_lengths(lengths: Integers) -> None:
    """Raises ValueError on a map of fewer knots than two."""
    if not (lengths >= 2).all():
        raise ValueError("atlas: a map needs at least two knots")


def check_knots(lengths: Integers, knots: Floats) -> None:
    """Raises ValueError unless each map's knots increase strictly from 0.0 to 1.0."""
    ends = np.cumsum(lengths)
    first = ends - lengths
    above = np.empty(len(knots), dtype=bool)
    np.greater(knots[1:], knots[:-1], out=above[1:])
    above[first] = knots[first] == 0.0
    if not above.all() or not (knots[ends - 1] == 1.0).all():
        raise ValueError("atlas: knots of a map must increase strictly from 0.0 to 1.0")
