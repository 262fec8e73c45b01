"""The knots of many maps in blocks of flat arrays, searched for a whole batch at once."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.map_pivots import PIVOTS, Pivots, pivots_of
from calibrators.samples import Floats, Integers, check_unit_interval
from calibrators.segments import segment_slopes

Lines = NDArray[np.complex128]

GROUP = 8
"""Knots that are compared at once: those of a line of the processor's cache."""

_LINE_BYTES = 64
_NARROW = GROUP * PIVOTS
# A piece at a time, so that what a search or a fill writes down stays in the processor's cache,
# and so that no single step of a fill keeps the other threads of a process waiting.
_SEARCHED = 4096
_FILLED = 16_384


class Items(NamedTuple):
    """The same memory, item by item: a memoryview's item is a Python number at half the price of a
    numpy scalar. The segment of a score in the map of a row is
    `bisect_right(following, score, firsts[row], lasts[row])`."""

    firsts: "memoryview[int]"
    lasts: "memoryview[int]"
    following: "memoryview[float]"
    knots: "memoryview[float]"
    values: "memoryview[float]"
    slopes: "memoryview[float]"


class MapBlocks:
    """Maps by row; immutable.

    Each map's knots stand in a block of their own, in groups of eight, padded with infinity. A
    batch is searched all values at once, without a branch or a loop per item: how many of eight
    pivots a score has passed says in which group it is, and how many of the group's knots, where.
    These are two lines of the cache for each score; the value and the slope at the knot, read
    together as one complex number, are the third. Blocks of more than 64 knots are a power of two
    long; between the two, they are searched by halving.
    """

    __slots__ = ("_firsts", "_groups", "_knots", "_lengths", "_lines", "_pivots", "_spans")

    def __init__(self, lengths: Integers, knots: Floats, values: Floats) -> None:
        """From the maps' knots and values end to end, of `lengths` knots each.

        Raises ValueError on maps that `CalibrationMap` would refuse.
        """
        _check_values(lengths, knots, values)
        widths = _block_widths(lengths)
        size = int(widths.sum())
        self._lengths = lengths
        starts = np.cumsum(widths) - widths
        self._firsts = starts // GROUP
        # One more in front: how many knots are passed is then the place of the last of them.
        self._knots = _behind_a_line_of_cache(size)
        self._lines: Lines = np.zeros(size + 1, np.complex128)
        for maps, flat in _pieces(lengths):
            self._fill(maps, starts[maps], knots[flat], values[flat])
        self._groups = self._knots[1:].reshape(-1, GROUP)
        steps = np.maximum(widths // PIVOTS, GROUP)
        self._pivots: Pivots = pivots_of(self._knots[1:], starts, widths, steps)
        self._spans = steps // GROUP if widths.max() > _NARROW else None

    def _fill(self, maps: slice, starts: Integers, knots: Floats, values: Floats) -> None:
        lengths = self._lengths[maps]
        ends = np.cumsum(lengths)
        _check_knots(lengths, ends, knots)
        places = np.repeat(starts + 1 - (ends - lengths), lengths)
        places += np.arange(len(knots))
        # Adding 0.0 turns -0.0 into 0.0, as `CalibrationMap` does.
        values = values + 0.0
        self._knots[places] = knots + 0.0
        self._lines.real[places] = values
        self._lines.imag[places] = segment_slopes(knots, values)

    def look_up(self, rows: Integers, scores: Floats) -> Floats:
        """Probabilities of n scores, each by the map of its row."""
        probabilities = np.empty(len(rows))
        for start in range(0, len(rows), _SEARCHED):
            piece = slice(start, start + _SEARCHED)
            self._look_up_piece(rows[piece], scores[piece], probabilities[piece])
        return probabilities

    def _look_up_piece(self, rows: Integers, scores: Floats, probabilities: Floats) -> None:
        places = self._places(rows, scores)
        lines = self._lines.take(places)
        np.subtract(scores, self._knots.take(places), out=probabilities)
        probabilities *= lines.imag
        probabilities += lines.real

    def _places(self, rows: Integers, scores: Floats) -> Integers:
        repeated = np.repeat(scores, GROUP)
        groups: Integers = self._firsts.take(rows)
        passed = _passed(self._pivots.take(rows, axis=0), repeated)
        if self._spans is None:
            groups += passed
        else:
            spans = self._spans.take(rows)
            groups += passed * spans
            self._halve(spans, scores, groups)
        passed = _passed(self._groups.take(groups, axis=0), repeated)
        groups *= GROUP
        groups += passed
        return groups

    def _halve(self, spans: Integers, scores: Floats, groups: Integers) -> None:
        """Halve eighths of more groups than one, down to the group."""
        half = int(spans.max()) >> 1
        while half:
            wide = np.flatnonzero(spans > half)
            ahead = groups[wide] + half
            groups[wide] += half * (self._groups[ahead, 0] <= scores[wide])
            half >>= 1

    def items(self) -> Items:
        """What a look-up of single scores reads."""
        # First and last knot side by side, value and slope as well: fewer cache lines to wait for.
        starts = self._firsts * GROUP
        spans = np.stack((starts, starts + self._lengths - 1), axis=1)
        knots, lines = self._knots[1:], self._lines[1:]
        columns = (*spans.T, knots[1:], knots, lines.real, lines.imag)
        return Items(*map(memoryview, columns))  # type: ignore[arg-type]

    def map_at(self, row: int) -> tuple[Floats, Floats]:
        """Knots and values of one row's map."""
        start = int(self._firsts[row]) * GROUP + 1
        span = slice(start, start + int(self._lengths[row]))
        return self._knots[span], self._lines.real[span]

    def flat(self) -> tuple[Integers, Floats, Floats]:
        """Lengths, and knots and values end to end, as they came."""
        taken = self._knots <= 1.0
        return self._lengths, self._knots[taken], self._lines.real[taken]


def _passed(knots: NDArray[Any], repeated: Floats) -> NDArray[np.uint8]:
    """How many of each row's eight knots are at most its score, which is repeated for each."""
    # Eight booleans are the bytes of one integer: its bits count them.
    return np.bitwise_count((knots.reshape(-1) <= repeated).view(np.uint64))


def _behind_a_line_of_cache(size: int) -> Floats:
    """Infinities, one and then `size` of which each group of eight is in one line of the cache."""
    infinities = np.full(size + 2 * GROUP, np.inf)
    behind = -infinities.ctypes.data % _LINE_BYTES // infinities.itemsize or GROUP
    return infinities[behind - 1 : behind + size]


def _block_widths(lengths: Integers) -> Integers:
    """Of each map's block: whole groups, or for more than 64 knots a power of two."""
    widths = -(-lengths // GROUP) * GROUP
    wide = lengths > _NARROW
    if wide.any():
        widths[wide] = 1 << np.ceil(np.log2(lengths[wide])).astype(np.int64)
    return widths


def _pieces(lengths: Integers) -> Iterator[tuple[slice, slice]]:
    """Runs of whole maps with about `_FILLED` knots each, and where their knots stand."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(_FILLED, int(ends[-1]), _FILLED), side="right")
    stops = np.unique(np.append(cuts, len(lengths))).tolist()
    first = flat = 0
    for stop in stops:
        if stop > first:
            yield slice(first, stop), slice(flat, int(ends[stop - 1]))
            first, flat = stop, int(ends[stop - 1])


def _check_values(lengths: Integers, knots: Floats, values: Floats) -> None:
    if not (lengths >= 2).all():
        raise ValueError("atlas: a map needs at least two knots")
    check_unit_interval("knots", knots)
    check_unit_interval("values", values)


def _check_knots(lengths: Integers, ends: Integers, knots: Floats) -> None:
    last = ends - 1
    inside = np.ones(len(knots) - 1, dtype=bool)
    inside[last[:-1]] = False
    whole = (knots[last] == 1.0) & (knots[ends - lengths] == 0.0)
    if not whole.all() or not (np.diff(knots)[inside] > 0).all():
        raise ValueError("atlas: knots of a map must increase strictly from 0.0 to 1.0")
