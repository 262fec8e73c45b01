"""The look-up of maps that share their knots, as all maps of one refit of `pooled` do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import MapRows, check_knots, check_lengths, pieces
from calibrators.samples import MANY, Floats, Integers, Scratch, check_unit_interval

MOST_SETS: Final = 128
"""Sets of knots: those of all maps are to stay in the processor's cache."""


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

    def to_bytes(self) -> bytes:
        """Little-endian: sets u4, knots of each set u4, the knots f8, the set of each map u1."""
        lengths = np.append(len(self.lengths), self.lengths).astype("<u4")
        columns = lengths, self.knots.astype("<f8"), self.of_maps.astype("u1")
        return b"".join(column.tobytes() for column in columns)

    @classmethod
    def read(cls, data: bytes, offset: int, count: int) -> tuple[Self, int]:
        """Those of so many maps that start at offset, and the offset behind them; ValueError on bad
        bytes."""
        (sets,), offset = read_column(data, offset, 1, "<u4")
        lengths, offset = read_column(data, offset, int(sets), "<u4")
        knots, offset = read_column(data, offset, int(lengths.sum()), "<f8")
        of_maps, offset = read_column(data, offset, count, "u1")
        if of_maps.max(initial=0) >= sets:
            raise ValueError(f"atlas: a map of set {of_maps.max()}, there are {sets}")
        return cls(lengths.astype(np.int64), knots + 0.0, of_maps.astype(np.int64)), offset


def read_column(data: bytes, offset: int, count: int, kind: str) -> tuple[NDArray[Any], int]:
    """So many numbers of a kind, (count,), that start at offset, and the offset behind them;
    ValueError where the bytes end before."""
    end = offset + count * np.dtype(kind).itemsize
    if end > len(data):
        raise ValueError("atlas: the bytes end early")
    return np.frombuffer(data, kind, count, offset), end


class SharedKnots(MapRows):
    """Maps by row that have few sets of knots: 16 bytes a knot, where others have 24."""

    __slots__ = ("_sets",)

    def __init__(
        self, sets: KnotSets, values: Floats, pause: Callable[[], None] = lambda: None
    ) -> None:
        """From the sets, and the values at the knots of all maps, end to end. `pause` is called
        between pieces of the work. Raises ValueError on maps that `CalibrationMap` would refuse."""
        check_lengths(sets.lengths)
        check_knots(sets.lengths, check_unit_interval("knots", sets.knots))
        lengths, firsts = (column[sets.of_maps] for column in (sets.lengths, sets.starts))
        super().__init__(lengths, firsts, sets.knots, values, pause)
        self._sets = sets

    def packed(self) -> Iterator[bytes | memoryview]:
        """`KnotSets.to_bytes`, and little-endian the values of all maps f8."""
        yield self._sets.to_bytes()
        values = Scratch(len(self._spans) >= MANY).joined([self._segments[:, 0]])
        yield np.ascontiguousarray(values, "<f8").data


def maps_by_row(maps: MapColumns, pause: Callable[[], None] = lambda: None) -> MapRows:
    """Maps behind the look-up that suits them; raises ValueError on maps that `CalibrationMap`
    would refuse. `pause` is called between pieces of the work."""
    sets = KnotSets.of(maps, pause)
    return MapRows.of(maps, pause) if sets is None else SharedKnots(sets, maps.values, pause)


def read_shared(
    data: bytes, offset: int, count: int, pause: Callable[[], None]
) -> tuple[MapRows, int]:
    """So many maps whose `SharedKnots.packed` start at offset, and the offset behind them;
    ValueError on bad bytes, and as `maps_by_row`."""
    sets, offset = KnotSets.read(data, offset, count)
    values, end = read_column(data, offset, int(sets.lengths[sets.of_maps].sum()), "<f8")
    return SharedKnots(sets, values, pause), end
