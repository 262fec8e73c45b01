"""The look-up of maps that share their knots, as all maps of one refit of `pooled` do."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.maps.calibration_map import MapColumns, segment_slopes
from calibrators.maps.look_up import (
    MapBlocks,
    aligned_rows,
    check_knots,
    check_lengths,
    in_pieces,
    pieces,
)
from calibrators.samples import (
    MANY,
    Floats,
    Integers,
    Scratch,
    Singles,
    check_unit_interval,
    places_of,
)

MOST_SETS: Final = 128
"""Sets of knots: the table of each takes 132 KiB, of which a part is read."""

MOST_OF_A_SLOT: Final = 8
"""Knots in one slot: sets that have more are crowded, and each is searched by halving."""

_ABOVE_ONE: Final = 1 + 2.0**-30
_TRAILING: Final = 48
"""Bits of a float behind its leading ones: sign, exponent and four of the mantissa."""

_HALVED: Final = 256
"""Scores up to which halving costs less than the table, where all have one set of knots: its steps
depend on the scores, but it is one call."""


@dataclass(frozen=True, slots=True, eq=False)
class KnotSets:
    """Maps that have few sets of knots: knots of each set, (s,), and knots of all sets end to end,
    (k,); the set of each map, (n,). Not checked: `SharedKnots` does that."""

    lengths: Integers
    knots: Floats
    of_maps: Integers

    @classmethod
    def of(cls, maps: MapColumns, pause: Callable[[], None]) -> "KnotSets | None":
        """Those of maps; None where there are too many, or not two maps for each."""
        known: dict[bytes, int] = {}
        of_maps = np.empty(len(maps), np.int64)
        most = min(MOST_SETS, len(maps) // 2)
        for run, flat in pieces(maps.lengths):
            pause()
            data, end = (maps.knots[flat] + 0.0).tobytes(), 0
            for number, size in enumerate((8 * maps.lengths[run]).tolist(), run.start):
                start, end = end, end + size
                of_maps[number] = known.setdefault(data[start:end], len(known))
            if len(known) > most:
                return None
        lengths = np.array([len(knots) // 8 for knots in known], np.int64)
        return cls(lengths, np.frombuffer(b"".join(known)), of_maps)

    @property
    def starts(self) -> Integers:
        """The place of the first knot of each set, (s,)."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    @property
    def each(self) -> list[Floats]:
        """The knots of each set."""
        return [*np.split(self.knots, self.starts[1:])]

    def knots_of(self, maps: Integers | slice) -> Floats:
        """The knots of these maps, end to end."""
        sets = self.of_maps[maps]
        return np.asarray(self.knots[places_of(self.starts[sets], self.lengths[sets])])

    def to_bytes(self) -> bytes:
        """Little-endian: sets u4, knots of each set u4, the knots f8, the set of each map u1."""
        lengths = np.append(len(self.lengths), self.lengths).astype("<u4")
        columns = lengths, self.knots.astype("<f8"), self.of_maps.astype("u1")
        return b"".join(column.tobytes() for column in columns)

    @classmethod
    def read(cls, data: bytes, offset: int, count: int) -> tuple[Self, int]:
        """Those of so many maps that start at offset, and the offset behind them; ValueError on bad
        bytes."""
        (sets,), offset = _column(data, offset, 1, "<u4")
        lengths, offset = _column(data, offset, int(sets), "<u4")
        knots, offset = _column(data, offset, int(lengths.sum()), "<f8")
        of_maps, offset = _column(data, offset, count, "u1")
        if of_maps.max(initial=0) >= sets:
            raise ValueError(f"atlas: a map of set {of_maps.max()}, there are {sets}")
        return cls(lengths.astype(np.int64), knots + 0.0, of_maps.astype(np.int64)), offset


def _column(data: bytes, offset: int, count: int, kind: str) -> tuple[NDArray[Any], int]:
    end = offset + count * np.dtype(kind).itemsize
    if end > len(data):
        raise ValueError("atlas: the bytes end early")
    return np.frombuffer(data, kind, count, offset), end


def slots_of(scores: Floats) -> Integers:
    """A slot for each score in [0, 1], from 0 on, never falling, that holds 6 % of odds or less:
    the leading bits of the odds. Knots lie about evenly in log-odds, and so in slots."""
    odds = scores / (_ABOVE_ONE - scores)
    # Adding 0.0 turns -0.0 into 0.0, whose leading bits are 0.
    odds += 0.0
    return np.asarray(odds.view(np.int64) >> _TRAILING)


_SLOTS: Final = int(slots_of(np.ones(1))[0]) + 1


class _Tables(NamedTuple):
    """Between which knots of its set a score lies, by its slot. A place is counted from 1, where
    the first knot of the first set is.

    places : of each set and slot, the last knot that all scores of the slot have passed,
        (s * _SLOTS,).
    knots : of all sets end to end, behind a number that is none, (1 + k,).
    following : the knot behind each of them, or infinity behind the last of a set, (1 + k,).
    most : how many knots a score may have passed besides, but in sets that are crowded.
    crowded : whether a set is, (s,); None where none is.
    """

    places: Integers
    knots: Floats
    following: Floats
    most: int
    crowded: NDArray[np.bool_] | None

    @classmethod
    def of(cls, sets: Sequence[Floats]) -> "_Tables":
        """Of the knots of each set, ascending from 0.0 to 1.0."""
        slots = [slots_of(knots) for knots in sets]
        starts = np.cumsum([0, *map(len, sets)]).tolist()
        places = [
            start + np.maximum(own.searchsorted(np.arange(_SLOTS)), 1)
            for own, start in zip(slots, starts, strict=False)
        ]
        following = [each for knots in sets for each in (knots[1:], [np.inf])]
        counts = np.array([np.unique(own, return_counts=True)[1].max() for own in slots])
        crowded = counts > MOST_OF_A_SLOT
        knots, behind = (np.concatenate(([np.nan], *columns)) for columns in (sets, following))
        most = int(counts[~crowded].max(initial=0))
        return cls(np.concatenate(places), knots, behind, most, crowded if crowded.any() else None)


class _Items(NamedTuple):
    """What single scores read: lists and views, whose items are Python's own numbers.

    sets, starts : the set of each map, and the place of its first knot among those of all maps.
    values, slopes : at the knots of all maps, end to end.
    knots : of each set, those behind the first, and all.
    """

    sets: "memoryview[int]"
    starts: "memoryview[int]"
    values: "memoryview[float]"
    slopes: "memoryview[float]"
    knots: list[tuple[list[float], list[float]]]


class SharedKnots:
    """Maps by row that have few sets of knots; immutable.

    A set stands once, and a map is its values and slopes: 16 bytes a knot where `MapBlocks` has 36.
    A batch is searched all scores at once: the slot of a score says, by the table of the set, which
    knot it has passed at least, and comparisons whether it has passed more. All of that stays in
    the processor's cache; of a map one line is read.
    """

    __slots__ = (
        "_each",
        "_firsts",
        "_items",
        "_segments",
        "_sets",
        "_shifts",
        "_starts",
        "_tables",
    )

    def __init__(
        self, sets: KnotSets, values: Floats, pause: Callable[[], None] = lambda: None
    ) -> None:
        """From the sets, and the values at the knots of all maps, end to end. `pause` is called
        between pieces of the work. Raises ValueError on maps that `CalibrationMap` would refuse."""
        check_lengths(sets.lengths)
        check_knots(sets.lengths, check_unit_interval("knots", sets.knots))
        self._sets, self._each = sets, sets.each
        self._firsts: list[int] = sets.starts.tolist()
        self._tables = _Tables.of(self._each)
        lengths = sets.lengths[sets.of_maps]
        self._starts = np.cumsum(lengths) - lengths
        # From a place among the knots of the sets to that among the knots of all maps.
        self._shifts = self._starts - sets.starts[sets.of_maps]
        # One more in front, as in the tables.
        pairs = aligned_rows(len(values) // 2 + 1, np.float64).reshape(-1, 2)
        self._segments = pairs[: 1 + len(values)]
        for run, flat in pieces(lengths):
            pause()
            checked = check_unit_interval("values", values[flat]) + 0.0
            part = self._segments[1 + flat.start : 1 + flat.stop]
            part[:, 0], part[:, 1] = checked, segment_slopes(sets.knots_of(run), checked)
        self._items = self._item_by_item()

    def look_up(self, rows: Integers, scores: Floats | Singles) -> Floats:
        """Probabilities of n scores, each by the map of its row."""
        return in_pieces(self._look_up_piece, rows, scores)

    def _look_up_piece(self, rows: Integers, given: Floats | Singles) -> Floats:
        # Once here, and not in every step.
        scores: Floats = given.astype(np.float64, copy=False)
        places = self._places(rows, scores)
        found: Floats = scores - self._tables.knots.take(places)
        places += self._shifts.take(rows)
        values, slopes = self._segments.take(places, 0).T
        found *= slopes
        found += values
        return found

    def _places(self, rows: Integers, scores: Floats) -> Integers:
        """Of the last knot that each score has passed, in the set of its row's map."""
        sets = None if len(self._each) == 1 else self._sets.of_maps.take(rows)
        table, _, following, most, crowded = self._tables
        if len(scores) <= _HALVED or (sets is None and crowded is not None):
            first = 0 if sets is None or not len(sets) else int(sets[0])
            if sets is None or (sets == first).all():
                found: Integers = self._each[first].searchsorted(scores, "right")
                return found + self._firsts[first]
        slots = slots_of(scores)
        if sets is not None:
            slots += sets * _SLOTS
        places = table.take(slots)
        for _ in range(most):
            places += scores >= following.take(places)
        if sets is not None and crowded is not None:
            for number in {*sets[crowded.take(sets)].tolist()}:
                own = np.flatnonzero(sets == number)
                passed = self._each[number].searchsorted(scores[own], "right")
                places[own] = passed + self._firsts[number]
        return places

    def at(self, row: int, score: float) -> float:
        """`look_up` of one score, to the last bit, in plain Python."""
        sets, starts, values, slopes, own = self._items
        following, knots = own[sets[row]]
        place = bisect_right(following, score)
        at = starts[row] + place
        return values[at] + slopes[at] * (score - knots[place])

    def look_up_few(self, rows: Sequence[int], scores: Sequence[float]) -> list[float]:
        """`look_up` to the last bit, in plain Python."""
        # Item by item, because each step of so short a loop is felt.
        sets, starts, values, slopes, own = self._items
        found = []
        for row, score in zip(rows, scores, strict=True):
            following, knots = own[sets[row]]
            place = bisect_right(following, score)
            at = starts[row] + place
            found.append(values[at] + slopes[at] * (score - knots[place]))
        return found

    def _item_by_item(self) -> _Items:
        knots = [(each[1:].tolist(), each.tolist()) for each in self._each]
        columns = (self._sets.of_maps, self._starts, *self._segments[1:].T)
        return _Items(*map(memoryview, columns), knots)  # type: ignore[arg-type,call-arg]

    def columns(self, rows: Integers | slice = slice(None)) -> MapColumns:
        """The maps of these rows, as they came."""
        lengths = self._sets.lengths[self._sets.of_maps[rows]]
        places = places_of(1 + self._starts[rows], lengths)
        return MapColumns(lengths, self._sets.knots_of(rows), self._segments[:, 0][places])

    def packed(self) -> Iterator[bytes | memoryview]:
        """`KnotSets.to_bytes`, and little-endian the values of all maps f8."""
        yield self._sets.to_bytes()
        values = Scratch(len(self._starts) >= MANY).stored(self._segments[1:, 0])
        yield np.ascontiguousarray(values, "<f8").data


Maps = MapBlocks | SharedKnots


def maps_by_row(maps: MapColumns, pause: Callable[[], None] = lambda: None) -> Maps:
    """Maps behind the look-up that suits them; raises ValueError on maps that `CalibrationMap`
    would refuse. `pause` is called between pieces of the work."""
    sets = KnotSets.of(maps, pause)
    return MapBlocks(maps, pause) if sets is None else SharedKnots(sets, maps.values, pause)


def read_shared(
    data: bytes, offset: int, count: int, pause: Callable[[], None]
) -> tuple[Maps, int]:
    """So many maps whose `SharedKnots.packed` start at offset, and the offset behind them;
    ValueError on bad bytes, and as `maps_by_row`."""
    sets, offset = KnotSets.read(data, offset, count)
    values, end = _column(data, offset, int(sets.lengths[sets.of_maps].sum()), "<f8")
    return SharedKnots(sets, values, pause), end
