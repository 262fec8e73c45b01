"""The knots of many maps in blocks of flat arrays, searched for a whole batch at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, check_unit_interval
from calibrators.segments import segment_slopes

Lines = NDArray[np.complex128]

_NARROWEST = 64
# A piece at a time, so that what a search or a fill writes down stays in the processor's cache,
# and so that no single step of a fill keeps the other threads of a process waiting.
_SEARCHED = 8192
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

    Each map's knots stand in a block of their own, padded with infinity to a power of two, so a
    batch is searched by halving, all values at once, without a branch or a loop per item. The
    value and the slope at a knot are read together, as one complex number.
    """

    __slots__ = ("_ahead", "_knots", "_lengths", "_lines", "_starts", "_widths")

    def __init__(self, lengths: Integers, knots: Floats, values: Floats) -> None:
        """From the maps' knots and values end to end, of `lengths` knots each.

        Raises ValueError on maps that `CalibrationMap` would refuse.
        """
        _check_values(lengths, knots, values)
        self._lengths = lengths
        self._widths = _block_widths(lengths)
        self._starts = np.cumsum(self._widths) - self._widths
        size = int(self._widths.sum())
        self._knots = np.full(size, np.inf)
        self._lines: Lines = np.zeros(size, np.complex128)
        for maps, flat in _pieces(lengths):
            self._fill(maps, knots[flat], values[flat])
        self._ahead = _views_ahead(self._knots, int(self._widths.max()))

    def _fill(self, maps: slice, knots: Floats, values: Floats) -> None:
        lengths = self._lengths[maps]
        ends = np.cumsum(lengths)
        _check_knots(lengths, ends, knots)
        places = np.repeat(self._starts[maps] - (ends - lengths), lengths)
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
        places: Integers = self._starts.take(rows)
        half = self._halve_the_wide(rows, scores, places)
        while half:
            places += half * (self._ahead[half].take(places) <= scores)
            half >>= 1
        return places

    def _halve_the_wide(self, rows: Integers, scores: Floats, places: Integers) -> int:
        """Halve blocks wider than the narrowest, down to its width; returns the next half."""
        widths = self._widths.take(rows)
        half = int(widths.max()) >> 1
        while half >= _NARROWEST:
            wide = np.flatnonzero(widths > half)
            behind = self._ahead[half].take(places[wide]) <= scores[wide]
            places[wide] += half * behind
            half >>= 1
        return half

    def items(self) -> Items:
        """What a look-up of single scores reads."""
        # First and last knot side by side, value and slope as well: fewer cache lines to wait for.
        spans = np.stack((self._starts, self._starts + self._lengths - 1), axis=1)
        columns = (
            *(spans[:, 0], spans[:, 1], self._knots[1:]),
            *(self._knots, self._lines.real, self._lines.imag),
        )
        return Items(*map(memoryview, columns))  # type: ignore[arg-type]

    def map_at(self, row: int) -> tuple[Floats, Floats]:
        """Knots and values of one row's map."""
        start = int(self._starts[row])
        span = slice(start, start + int(self._lengths[row]))
        return self._knots[span], self._lines.real[span]

    def flat(self) -> tuple[Integers, Floats, Floats]:
        """Lengths, and knots and values end to end, as they came."""
        taken = self._knots <= 1.0
        return self._lengths, self._knots[taken], self._lines.real[taken]


def _views_ahead(knots: Floats, widest: int) -> dict[int, Floats]:
    """The knots as seen from half a block before, by half: spares the search an addition."""
    halves = (1 << power for power in range(widest.bit_length() - 1))
    return {half: knots[half:] for half in halves}


def _block_widths(lengths: Integers) -> Integers:
    """The power of two, at least 64, that holds each map's knots."""
    widths = np.full(len(lengths), _NARROWEST)
    while (small := widths < lengths).any():
        widths[small] *= 2
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
