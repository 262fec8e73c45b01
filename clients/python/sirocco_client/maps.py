"""Maps of an edge atlas: their bytes, and the look-up of many scores at once."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAtlas
from sirocco_client.requests import Floats

Integers = NDArray[np.int64]
Breath = Callable[[], None]

_PIECE: Final = 8192
_KNOTS_AT_ONCE: Final = 1 << 16
_STEEPEST: Final = float(np.finfo(np.float64).max)


def slopes_of(knots: Floats, values: Floats) -> Floats:
    """Slope from each knot to the next, shape (k,); 0 for the last.

    Maps stand end to end: where the knots fall back to 0 a new map begins, and the slope is 0. A
    slope is the float nearest to rise over run that does not carry past the next knot's value, so
    that a monotone map stays monotone to the last bit.

    >>> slopes_of(np.array([0.0, 1.0, 0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.0, 0.5, 0.5])).tolist()
    [0.5, 0.0, 1.0, 0.0, 0.0]
    """
    rise, run = np.diff(values), np.diff(knots)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steep = np.clip(rise / run, -_STEEPEST, _STEEPEST)
    slopes = np.where(run > 0, steep, 0.0)
    following = values[1:]
    while True:
        reached = values[:-1] + slopes * run
        over = ((slopes > 0) & (reached > following)) | ((slopes < 0) & (reached < following))
        if not over.any():
            return np.append(slopes, 0.0)
        slopes[over] = np.nextafter(slopes[over], 0.0)


class EdgeMaps(NamedTuple):
    """Of each map how many knots it has, the place of the first among all knots, which maps may
    share, and what leads from a knot's place to that of its value; all knots; the values and slopes
    of all maps, end to end; how often the longest is halved until one knot is left."""

    lengths: Integers
    firsts: Integers
    shifts: Integers
    knots: Floats
    values: Floats
    slopes: Floats
    halvings: int

    @classmethod
    def of(
        cls, lengths: Integers, firsts: Integers, knots: Floats, values: Floats, breathe: Breath
    ) -> Self:
        """With the slopes, piece by piece."""
        shifts = np.cumsum(lengths) - lengths - firsts
        places = np.arange(len(values)) - np.repeat(shifts, lengths)
        slopes = np.empty(len(values))
        for start in range(0, len(values), _KNOTS_AT_ONCE):
            end = start + _KNOTS_AT_ONCE
            # One knot more than is kept: the slope of the last needs the one behind it.
            piece = slopes_of(knots[places[start : end + 1]], values[start : end + 1])
            slopes[start:end] = piece[:_KNOTS_AT_ONCE]
            breathe()
        halvings = int(lengths.max() - 1).bit_length()
        return cls(lengths, firsts, shifts, knots, values, slopes, halvings)

    @classmethod
    def read(cls, data: memoryview, offset: int, count: int, breathe: Breath) -> tuple[Self, int]:
        """So many maps with knots of their own that start at offset, and the offset behind them."""
        lengths, offset = _column(data, offset, count, "<u4")
        lengths = lengths.astype(np.int64)
        knots, offset = _column(data, offset, int(lengths.sum()), "<f8")
        values, offset = _column(data, offset, len(knots), "<f8")
        # Adding 0.0 copies, and turns -0.0 into 0.0 as the service does.
        knots, values = knots + 0.0, values + 0.0
        _check_maps(lengths, knots, values)
        return cls.of(lengths, np.cumsum(lengths) - lengths, knots, values, breathe), offset

    @classmethod
    def read_shared(
        cls, data: memoryview, offset: int, count: int, breathe: Breath
    ) -> tuple[Self, int]:
        """The same of maps that share their knots."""
        sets, offset = _column(data, offset, 1, "<u4")
        of_set, offset = _column(data, offset, int(sets[0]), "<u4")
        of_set = of_set.astype(np.int64)
        knots, offset = _column(data, offset, int(of_set.sum()), "<f8")
        rows, offset = _column(data, offset, count, "u1")
        if int(rows.max()) >= len(of_set):
            raise BadAtlas(f"atlas: a map of set {rows.max()}, there are {len(of_set)}")
        values, offset = _column(data, offset, int(of_set[rows].sum()), "<f8")
        knots, values = knots + 0.0, values + 0.0
        _check_maps(of_set, knots, values)
        firsts = np.cumsum(of_set) - of_set
        return cls.of(of_set[rows], firsts[rows], knots, values, breathe), offset

    def look_up(self, rows: Integers, scores: Floats) -> Floats:
        """Probabilities, (n,), of scores, each by the map of its row."""
        pieces = (slice(start, start + _PIECE) for start in range(0, len(scores), _PIECE))
        return np.concatenate([self._look_up(rows[piece], scores[piece]) for piece in pieces])

    def _look_up(self, rows: Integers, scores: Floats) -> Floats:
        """By halving, all scores at once, each between the bounds of its own map."""
        place, length = self.firsts.take(rows), self.lengths.take(rows)
        for _ in range(self.halvings):
            half = length >> 1
            # A map of one knot left has half = 0, and its place does not move.
            place += half * (self.knots.take(place + half) <= scores)
            length -= half
        of_value = place + self.shifts.take(rows)
        found: Floats = self.slopes.take(of_value)
        found *= scores - self.knots.take(place)
        found += self.values.take(of_value)
        return found


def _column(data: memoryview, offset: int, count: int, kind: str) -> tuple[NDArray[Any], int]:
    end = offset + count * np.dtype(kind).itemsize
    if end > len(data):
        raise BadAtlas("atlas: the bytes end early")
    return np.frombuffer(data, kind, count, offset), end


def _check_maps(lengths: Integers, knots: Floats, values: Floats) -> None:
    """Raises BadAtlas on knots, and on values, that no map has."""
    if lengths.min() < 2:
        raise BadAtlas("atlas: a map needs at least two knots")
    for column in (knots, values):
        if not (column.min() >= 0.0 and column.max() <= 1.0):
            raise BadAtlas("atlas: a knot or a value is outside [0, 1]")
    last = np.cumsum(lengths) - 1
    rising = knots[1:] > knots[:-1]
    # Between the last knot of a map and the first of the next nothing need rise.
    rising[last[:-1]] = True
    whole = (knots[last] == 1.0) & (knots[last - lengths + 1] == 0.0)
    if not (whole.all() and rising.all()):
        raise BadAtlas("atlas: knots of a map must increase strictly from 0.0 to 1.0")
