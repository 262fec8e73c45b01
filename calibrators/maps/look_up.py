"""The knots of many maps in blocks of flat arrays, searched for a whole batch at once."""

import mmap
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from calibrators.maps.calibration_map import MapColumns, segment_slopes
from calibrators.samples import (
    Floats,
    Integers,
    Singles,
    check_unit_interval,
    file_memory,
    places_of,
)

GROUP: Final = 8
"""Knots that are compared at once: in single precision half a line of the processor's cache."""

_SIZES = 16


class SearchBuffers:
    """Buffers for n scores: `knots`, (n, 8), to compare them with, and `segments`, (n, 4), of which
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
def spare_buffers(n: int) -> list[SearchBuffers]:
    """Buffers for n scores that nobody uses: taken out by who needs some, and put back."""
    return []


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
    pivots: Singles = aligned_rows(len(starts), np.float32)
    # A piece at a time, so that no single step keeps the other threads of a process waiting.
    for first in range(0, len(starts), _ROWS):
        pause()
        rows = slice(first, first + _ROWS)
        offsets = steps[rows, None] * np.arange(1, PIVOTS + 1)
        found = knots.take(starts[rows, None] + offsets, mode="clip")
        pivots[rows] = np.where(offsets < widths[rows, None], found, np.inf)
    return pivots


_NARROW = GROUP * PIVOTS
_SEARCHED = 4096
# A piece at a time, so that what a fill writes down stays in the processor's cache, and so that no
# single step of it keeps the other threads of a process waiting.
_FILLED = 4096
# As an array, which spares each multiplication the making of one.
_GROUP_AS_ARRAY = np.array(GROUP)
_ABOVE_ALL = np.float32(2.0)
_SINGLE_BYTES = 4


class _Items(NamedTuple):
    """The same memory, item by item: a memoryview's item is a Python number at half the price of a
    numpy scalar. The segment of a score in the map of a row is
    `bisect_right(following, score, firsts[row], lasts[row])`."""

    firsts: "memoryview[int]"
    lasts: "memoryview[int]"
    following: "memoryview[float]"
    knots: "memoryview[float]"
    values: "memoryview[float]"
    slopes: "memoryview[float]"


def in_pieces(
    look_up: Callable[[Integers, Floats | Singles], Floats],
    rows: Integers,
    scores: Floats | Singles,
) -> Floats:
    """What a look-up finds, a piece at a time, so that what it writes down stays in the processor's
    cache."""
    if len(rows) <= _SEARCHED:
        return look_up(rows, scores)
    probabilities = np.empty(len(rows))
    for start in range(0, len(rows), _SEARCHED):
        piece = slice(start, start + _SEARCHED)
        probabilities[piece] = look_up(rows[piece], scores[piece])
    return probabilities


class MapBlocks:
    """Maps by row; immutable.

    Each map's knots stand in a block of their own, in groups of eight, padded with infinity. A
    batch is searched all values at once, without a branch or a loop per item: how many of eight
    pivots a score has passed says in which group it is, and how many of the group's knots, where.
    Blocks of more than 64 knots are a power of two long; between the two, they are searched by
    halving. The knot, its value and its slope are then read together from one line of the cache.

    The search compares scores and knots in single precision, which halves what it reads and writes.
    Knots are rounded up, so that a score which is a single itself has passed a knot if and only if
    it has passed the rounded one. For a double stands a single above it: no knot is missed, but it
    may seem to have passed one between the two: it is then below that knot, and goes back.
    """

    __slots__ = ("_firsts", "_groups", "_items", "_lengths", "_pivots", "_segments", "_spans")

    def __init__(self, maps: MapColumns, pause: Callable[[], None] = lambda: None) -> None:
        """`pause` is called between pieces of the work. Raises ValueError on maps that
        `CalibrationMap` would refuse."""
        lengths = maps.lengths
        check_lengths(lengths)
        widths = _block_widths(lengths)
        size = int(widths.sum())
        self._lengths = lengths
        starts = np.cumsum(widths) - widths
        self._firsts = starts // GROUP
        self._groups = aligned_rows(size // GROUP, np.float32)
        # One more in front: how many knots are passed is then the place of the last of them.
        self._segments = aligned_rows(size + 1, np.float64)
        self._segments[0] = np.inf
        stops = starts + widths
        for run, flat in pieces(lengths):
            pause()
            block = slice(int(starts[run.start]), int(stops[run.stop - 1]))
            piece = MapColumns(lengths[run], maps.knots[flat], maps.values[flat])
            self._fill(block, starts[run], piece)
        steps = np.maximum(widths // PIVOTS, GROUP)
        self._pivots = pivots_of(self._groups.reshape(-1), starts, widths, steps, pause)
        self._spans = steps // GROUP if widths.max() > _NARROW else None
        self._items = self._item_by_item()

    def _fill(self, block: slice, starts: Integers, maps: MapColumns) -> None:
        """Writes whole maps to the block that is theirs."""
        lengths, knots, values = maps.lengths, maps.knots, maps.values
        check_knots(lengths, check_unit_interval("knots", knots))
        check_unit_interval("values", values)
        places = places_of(starts - block.start, lengths)
        # Adding 0.0 turns -0.0 into 0.0, as `CalibrationMap` does.
        values = values + 0.0
        # Column by column: numpy is slow to assign by several indices at once.
        starts_at, begins_with, rises_by, _ = self._segments[block.start + 1 : block.stop + 1].T
        starts_at[:] = np.inf
        starts_at[places] = knots + 0.0
        begins_with[places] = values
        rises_by[places] = segment_slopes(knots, values)
        self._groups.reshape(-1)[block] = _singles_not_below(starts_at)

    def look_up(self, rows: Integers, scores: Floats | Singles) -> Floats:
        """Probabilities of n scores, each by the map of its row."""
        return in_pieces(self._look_up_piece, rows, scores)

    def at(self, row: int, score: float) -> float:
        """`look_up` of one score, to the last bit, in plain Python."""
        firsts, lasts, following, knots, values, slopes = self._items
        place = bisect_right(following, score, firsts[row], lasts[row])
        return values[place] + slopes[place] * (score - knots[place])

    def look_up_few(self, rows: Sequence[int], scores: Sequence[float]) -> list[float]:
        """`look_up` to the last bit, in plain Python."""
        # Item by item, because each step of so short a loop is felt.
        firsts, lasts, following, knots, values, slopes = self._items
        found = []
        for row, score in zip(rows, scores, strict=True):
            place = bisect_right(following, score, firsts[row], lasts[row])
            found.append(values[place] + slopes[place] * (score - knots[place]))
        return found

    def _look_up_piece(self, rows: Integers, scores: Floats | Singles) -> Floats:
        spare = spare_buffers(len(rows))
        # Taken out at once: another thread may search as many scores meanwhile.
        buffers = spare.pop() if spare else SearchBuffers(len(rows))
        if scores.itemsize == _SINGLE_BYTES:
            self._read_segments(self._places(rows, cast(Singles, scores), buffers), buffers)
        else:
            self._search_doubles(rows, scores, buffers)
        probabilities: Floats = scores - buffers.starts
        probabilities *= buffers.slopes
        probabilities += buffers.values
        if not spare:
            spare.append(buffers)
        return probabilities

    def _search_doubles(
        self, rows: Integers, scores: Floats | Singles, buffers: SearchBuffers
    ) -> None:
        above = np.nextafter(scores.astype(np.float32), _ABOVE_ALL)
        places = self._places(rows, above, buffers)
        self._read_segments(places, buffers)
        while (below := scores < buffers.starts).any():
            places -= below
            self._read_segments(places, buffers)

    def _read_segments(self, places: Integers, buffers: SearchBuffers) -> None:
        # Into given buffers, all places within bounds: "clip" spares a check and a copy.
        self._segments.take(places, 0, buffers.segments, "clip")

    def _places(self, rows: Integers, scores: Singles, buffers: SearchBuffers) -> Integers:
        """Of the last knot that each score has passed; IndexError on a row beyond the last."""
        repeated = scores.repeat(GROUP)
        groups: Integers = self._firsts.take(rows)
        self._pivots.take(rows, 0, buffers.knots, "clip")
        passed = buffers.passed(repeated)
        if self._spans is None:
            groups += passed
        else:
            spans = self._spans.take(rows)
            groups += passed * spans
            self._halve(spans, scores, groups)
        self._groups.take(groups, 0, buffers.knots, "clip")
        groups *= _GROUP_AS_ARRAY
        groups += buffers.passed(repeated)
        return groups

    def _halve(self, spans: Integers, scores: Singles, groups: Integers) -> None:
        """Halve eighths of more groups than one, down to the group."""
        half = int(spans.max(initial=0)) >> 1
        while half:
            wide = np.flatnonzero(spans > half)
            ahead = groups[wide] + half
            groups[wide] += half * (self._groups[ahead, 0] <= scores[wide])
            half >>= 1

    def _item_by_item(self) -> _Items:
        # First and last knot side by side, as the rest is: fewer cache lines to wait for.
        starts = self._firsts * GROUP
        spans = np.stack((starts, starts + self._lengths - 1), axis=1)
        knots, values, slopes, _ = self._segments[1:].T
        columns = (*spans.T, knots[1:], knots, values, slopes)
        return _Items(*map(memoryview, columns))  # type: ignore[arg-type]

    def columns(self, rows: Integers | slice = slice(None)) -> MapColumns:
        """The maps of these rows, as they came."""
        # The fourth of half a line of the cache holds nothing.
        lengths, (knots, values, _, _) = self._lengths[rows], self._segments.T
        places = places_of(1 + GROUP * self._firsts[rows], lengths)
        return MapColumns(lengths, knots[places], values[places])


def _singles_not_below(knots: Floats) -> Singles:
    """Knots, none of them below 0, rounded up: of singles that have no sign, the next one's bits
    are the next integer."""
    singles = knots.astype(np.float32)
    bits = singles.view(np.int32)
    bits += singles < knots
    return singles


def _block_widths(lengths: Integers) -> Integers:
    """Of each map's block: whole groups, or for more than 64 knots a power of two."""
    widths = -(-lengths // GROUP) * GROUP
    wide = lengths > _NARROW
    if wide.any():
        widths[wide] = 1 << np.ceil(np.log2(lengths[wide])).astype(np.int64)
    return widths


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
