"""Maps of an edge atlas: their bytes, and the look-up of scores, one by one or many at once.

The look-up is compiled where a compiler was when this package was built (`_look_up.c`), and plain
Python and numpy elsewhere. Both give the same to the last bit.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sirocco_client.errors import BadAtlas
from sirocco_client.requests import Floats

try:
    from sirocco_client import _look_up
except ImportError:
    COMPILED = False
else:
    COMPILED = True

Integers = NDArray[np.int64]
Breath = Callable[[], None]

# Measured: up to here one look-up after the other costs less than one vectorised call.
_FEW: Final = 64
_PIECE: Final = 8192
_KNOTS_AT_ONCE: Final = 1 << 16
_SLOT_BYTES: Final = 32
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
    """Maps that may share their knots.

    spans : of each map the place of its first knot, how many it has, and what leads from a knot's
        place to that of its segment, (n, 3).
    knots : all knots, (k,).
    segments : value and slope at the knots of all maps, end to end, (m, 2).
    """

    spans: Integers
    knots: Floats
    segments: Floats

    @classmethod
    def of(
        cls, lengths: Integers, firsts: Integers, knots: Floats, values: Floats, breathe: Breath
    ) -> Self:
        """With the slopes, piece by piece."""
        shifts = np.cumsum(lengths) - lengths - firsts
        places = np.arange(len(values)) - np.repeat(shifts, lengths)
        segments = np.empty((len(values), 2))
        segments[:, 0] = values
        for start in range(0, len(values), _KNOTS_AT_ONCE):
            end = start + _KNOTS_AT_ONCE
            # One knot more than is kept: the slope of the last needs the one behind it.
            piece = slopes_of(knots[places[start : end + 1]], values[start : end + 1])
            segments[start:end, 1] = piece[:_KNOTS_AT_ONCE]
            breathe()
        return cls(np.stack((firsts, lengths, shifts), axis=1), knots, segments)

    @classmethod
    def read(cls, data: memoryview, offset: int, count: int, breathe: Breath) -> tuple[Self, int]:
        """So many maps with knots of their own that start at offset, and the offset behind them."""
        lengths, offset = read_column(data, offset, count, "<u4")
        lengths = lengths.astype(np.int64)
        knots, offset = read_column(data, offset, int(lengths.sum()), "<f8")
        values, offset = read_column(data, offset, len(knots), "<f8")
        # Adding 0.0 copies, and turns -0.0 into 0.0 as the service does.
        knots, values = knots + 0.0, values + 0.0
        _check_maps(lengths, knots, values)
        return cls.of(lengths, np.cumsum(lengths) - lengths, knots, values, breathe), offset

    @classmethod
    def read_shared(
        cls, data: memoryview, offset: int, count: int, breathe: Breath
    ) -> tuple[Self, int]:
        """The same of maps that share their knots."""
        sets, offset = read_column(data, offset, 1, "<u4")
        of_set, offset = read_column(data, offset, int(sets[0]), "<u4")
        of_set = of_set.astype(np.int64)
        knots, offset = read_column(data, offset, int(of_set.sum()), "<f8")
        rows, offset = read_column(data, offset, count, "u1")
        if int(rows.max()) >= len(of_set):
            raise BadAtlas(f"atlas: a map of set {rows.max()}, there are {len(of_set)}")
        values, offset = read_column(data, offset, int(of_set[rows].sum()), "<f8")
        knots, values = knots + 0.0, values + 0.0
        _check_maps(of_set, knots, values)
        firsts = np.cumsum(of_set) - of_set
        return cls.of(of_set[rows], firsts[rows], knots, values, breathe), offset


def read_column(data: memoryview, offset: int, count: int, kind: str) -> tuple[NDArray[Any], int]:
    """So many numbers at an offset, and the offset behind them; raises BadAtlas."""
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


class PlainNames(dict[str, int]):
    """Row i + 1 is that of names[i]: what `Names` of `_look_up.c` does, in Python."""

    def fill(self, names: Sequence[str], rows: Integers) -> bool:
        """Writes the row of each of n names, 0 of an unknown one; whether all are known."""
        rows[:] = np.fromiter(map(self.get, names, repeat(0)), np.int64, len(rows))
        return bool(rows.all())


def plain_index(names: tuple[str, ...], breathe: Breath) -> PlainNames:
    """`index_of`, in Python."""
    known = PlainNames()
    for start in range(0, len(names), _PIECE):
        piece = names[start : start + _PIECE]
        known.update(zip(piece, range(start + 1, start + 1 + len(piece)), strict=True))
        breathe()
    if len(known) < len(names):
        raise KeyError("names: one stands twice")
    return known


def index_of(names: tuple[str, ...], breathe: Breath) -> "Rows":
    """The rows of names, i + 1 that of names[i]; KeyError on a name that stands twice. `breathe` is
    called now and then, so that other threads get their turn."""
    if COMPILED:
        # Names with too many hashes alike are left to Python, whose hashes nobody can foresee.
        with suppress(ValueError):
            return _compiled_index(names, breathe)
    return plain_index(names, breathe)


def _slots(count: int) -> NDArray[np.uint8]:
    """None of them in two lines of the processor's cache."""
    memory = np.empty((count + 1) * _SLOT_BYTES, np.uint8)
    start = -memory.ctypes.data % _SLOT_BYTES
    return memory[start : start + count * _SLOT_BYTES].reshape(count, _SLOT_BYTES)


def _compiled_index(names: tuple[str, ...], breathe: Breath) -> "_look_up.Names":
    # At most half full: at three quarters one of a million has more than 128 others in its way.
    index = _look_up.Names(names, _slots(1 << (2 * len(names)).bit_length()))
    while len(index) < len(names):
        index.add(_PIECE)
        breathe()
    return index


Rows: TypeAlias = "PlainNames | _look_up.Names"


class PlainLookUp:
    """Maps behind names, in Python and numpy: what `_look_up.c` does, to the last bit.

    Scores are in [0, 1], rows those of maps.
    """

    def __init__(self, rows: PlainNames, maps: EdgeMaps) -> None:
        self._row_of, self._maps = rows.get, maps
        firsts, lengths, shifts = maps.spans.T
        self._halvings = int(lengths.max() - 1).bit_length()
        # For single scores: an item of a memoryview costs a third of one of numpy.
        self._views = [column.data for column in (maps.knots, *maps.segments.T)]
        self._firsts, self._stops, self._shifts = firsts.data, (firsts + lengths).data, shifts.data

    def at(self, name: str, score: object) -> float | None:
        """Probability of one score; None of a name without a row, and of what is no float in
        [0, 1]."""
        row = self._row_of(name)
        if row is None or type(score) is not float or not 0.0 <= score <= 1.0:
            return None
        return self.of_row(row, score)

    def of_row(self, row: int, score: float) -> float:
        """Probability of one score by the map of the row."""
        knots, values, slopes = self._views
        place = bisect_right(knots, score, self._firsts[row], self._stops[row]) - 1
        at = place + self._shifts[row]
        found: float = values[at] + slopes[at] * (score - knots[place])
        return found

    def look_up(self, rows: Integers, scores: Floats, found: Floats) -> None:
        """Writes the probabilities, (n,), of scores, each by the map of its row."""
        if len(rows) <= _FEW:
            found[:] = [*map(self.of_row, rows.tolist(), scores.tolist())]
            return
        for start in range(0, len(rows), _PIECE):
            piece = slice(start, start + _PIECE)
            found[piece] = self._look_up(rows[piece], scores[piece])

    def _look_up(self, rows: Integers, scores: Floats) -> Floats:
        """By halving, all scores at once, each between the bounds of its own map."""
        knots = self._maps.knots
        place, length, shift = self._maps.spans.take(rows, 0).T
        for _ in range(self._halvings):
            half = length >> 1
            # A map of one knot left has half = 0, and its place does not move.
            place += half * (knots.take(place + half) <= scores)
            length -= half
        values, slopes = self._maps.segments.take(place + shift, 0).T
        found: Floats = slopes * (scores - knots.take(place))
        found += values
        return found


def look_up_of(rows: "Rows", maps: EdgeMaps) -> "PlainLookUp | _look_up.LookUp":
    """The look-up of maps behind their names, compiled where those are."""
    return PlainLookUp(rows, maps) if isinstance(rows, PlainNames) else _look_up.LookUp(rows, maps)
