"""The atlas: the calibration maps of all campaigns of one target, looked up in one pass."""

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.calibration_map import CalibrationMap
from calibrators.names import pack_names, unpack_names
from calibrators.samples import Floats, Integers, check_unit_interval
from calibrators.segments import segment_slopes

SCHEMA_VERSION = 1
_HEADER = struct.Struct("<4sHHI")
_MAGIC = b"SATL"
_NARROWEST = 64
_PIECE = 8192

CAMPAIGN, TARGET, IDENTITY = "campaign", "target", "identity"


class Atlas:
    """Maps of any number of campaigns behind one vectorised look-up; immutable.

    Row 0 is what serves a campaign without a map of its own: the target's map, or the identity.
    Each map's knots stand in a block of the flat arrays, padded with infinity to a power of four,
    so a batch is searched by halving, all values at once, without a branch or a loop per item.
    Readers hold a reference to a whole atlas; a new one replaces it by one assignment.

    >>> atlas = Atlas.build({"a": CalibrationMap.proportional(0.5)})
    >>> atlas(["a", "b"], [0.2, 0.2]), atlas.level("a"), atlas.level("b")
    (array([0.1, 0.2]), 'campaign', 'identity')
    """

    __slots__ = (
        "_flat",
        "_has_target_map",
        "_knots",
        "_lengths",
        "_row_of",
        "_slopes",
        "_spans",
        "_starts",
        "_values",
        "_views",
        "_widths",
        "campaigns",
    )

    campaigns: Final[tuple[str, ...]]

    def __init__(
        self,
        campaigns: Sequence[str],
        lengths: Integers,
        knots: Floats,
        values: Floats,
        has_target_map: bool,
    ) -> None:
        """From the maps' knots and values end to end, row 0 first; see `build` and `from_bytes`."""
        self.campaigns = tuple(campaigns)
        self._has_target_map = has_target_map
        self._row_of = {campaign: row for row, campaign in enumerate(self.campaigns, 1)}
        self._lengths = lengths
        self._widths = _block_widths(lengths)
        self._starts = np.cumsum(self._widths) - self._widths
        # Lists, because indexing an array for one item costs more than the search itself.
        self._spans = (self._starts.tolist(), (self._starts + lengths).tolist())
        self._fill_blocks(knots, values, segment_slopes(knots, values))
        self._flat = (knots, values)
        # A memoryview's item is a Python float at half the price of a numpy scalar.
        self._views = (_view(self._knots), _view(self._values), _view(self._slopes))

    def _fill_blocks(self, knots: Floats, values: Floats, slopes: Floats) -> None:
        within = np.arange(len(knots)) - np.repeat(
            np.cumsum(self._lengths) - self._lengths, self._lengths
        )
        places = np.repeat(self._starts, self._lengths) + within
        size = int(self._widths.sum())
        self._knots = np.full(size, np.inf)
        self._values, self._slopes = np.zeros(size), np.zeros(size)
        self._knots[places], self._values[places], self._slopes[places] = knots, values, slopes

    @classmethod
    def build(
        cls, maps: Mapping[str, CalibrationMap], target_map: CalibrationMap | None = None
    ) -> Self:
        """The atlas of these maps by campaign; without a target map the identity stands in."""
        campaigns = sorted(maps)
        rows = [target_map or CalibrationMap.identity(), *(maps[name] for name in campaigns)]
        return cls(
            campaigns,
            np.array([len(row.knots) for row in rows], np.int64),
            np.concatenate([row.knots for row in rows]),
            np.concatenate([row.values for row in rows]),
            target_map is not None,
        )

    @classmethod
    def empty(cls) -> Self:
        """The atlas that serves the identity to everyone."""
        return cls.build({})

    def __len__(self) -> int:
        return len(self.campaigns)

    def __call__(self, campaigns: Sequence[str], scores: ArrayLike) -> Floats:
        """Probabilities of a mixed batch, shape (n,); ValueError on a score outside [0, 1] or on
        unequal lengths."""
        checked = check_unit_interval("scores", scores)
        rows = self.rows(campaigns)
        if len(rows) != len(checked):
            raise ValueError(f"{len(rows)} campaigns for {len(checked)} scores")
        return self.look_up(rows, checked)

    def rows(self, campaigns: Sequence[str]) -> Integers:
        """Row of each campaign, shape (n,); 0 for one without a map of its own."""
        return np.fromiter(map(self._row_of.get, campaigns, repeat(0)), np.int64, len(campaigns))

    def look_up(self, rows: Integers, scores: Floats) -> Floats:
        """Probabilities of n scores, each by the map of its row; scores are already checked."""
        probabilities = np.empty(len(rows))
        # A piece at a time, so that what the search writes down stays in the processor's cache.
        for start in range(0, len(rows), _PIECE):
            piece = slice(start, start + _PIECE)
            probabilities[piece] = self._look_up_piece(rows[piece], scores[piece])
        return probabilities

    def _look_up_piece(self, rows: Integers, scores: Floats) -> Floats:
        widths = self._widths[rows]
        narrow, wide = int(widths.min()), int(widths.max())
        if narrow == wide:
            return self._search(rows, scores, wide)
        probabilities = np.empty(len(rows))
        for width in np.unique(widths).tolist():
            chosen = np.flatnonzero(widths == width)
            probabilities[chosen] = self._search(rows[chosen], scores[chosen], width)
        return probabilities

    def _search(self, rows: Integers, scores: Floats, width: int) -> Floats:
        place = self._starts[rows]
        half = width >> 1
        while half:
            place += half * (self._knots.take(place + half) <= scores)
            half >>= 1
        probabilities: Floats = self._slopes.take(place)
        probabilities *= scores - self._knots.take(place)
        probabilities += self._values.take(place)
        return probabilities

    def at(self, campaign: str, score: float) -> float:
        """Probability of one score of one campaign; ValueError on a score outside [0, 1]."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score = {score}: must be in [0, 1]")
        row = self._row_of.get(campaign, 0)
        starts, ends = self._spans
        knots, values, slopes = self._views
        place = bisect_right(knots, score, starts[row], ends[row]) - 1
        return values[place] + slopes[place] * (score - knots[place])

    def level(self, campaign: str) -> str:
        """Which level serves the campaign: its own map, the target's, or the identity."""
        return CAMPAIGN if campaign in self._row_of else self._shared_level

    def levels(self, rows: Integers) -> list[str]:
        """The level behind each row that `rows` gave."""
        return [CAMPAIGN if row else self._shared_level for row in rows.tolist()]

    @property
    def _shared_level(self) -> str:
        return TARGET if self._has_target_map else IDENTITY

    @property
    def target_map(self) -> CalibrationMap | None:
        """The target's own map, if it has one."""
        return self._map_at(0) if self._has_target_map else None

    def map_of(self, campaign: str) -> CalibrationMap:
        """The map that serves the campaign."""
        return self._map_at(self._row_of.get(campaign, 0))

    def _map_at(self, row: int) -> CalibrationMap:
        span = slice(self._spans[0][row], self._spans[1][row])
        return CalibrationMap(self._knots[span], self._values[span])

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SATL", schema_version u2, has a target map u2, campaigns
        u4; the names (`calibrators.names`); knots per row u4, row 0 first; knots f8; values f8."""
        header = _HEADER.pack(_MAGIC, SCHEMA_VERSION, self._has_target_map, len(self.campaigns))
        knots, values = (column.astype("<f8").tobytes() for column in self._flat)
        lengths = self._lengths.astype("<u4").tobytes()
        return b"".join((header, pack_names(self.campaigns), lengths, knots, values))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The atlas that `to_bytes` wrote; ValueError on any other bytes, and on maps that
        `CalibrationMap` would refuse."""
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ValueError("these are not the bytes of an atlas")
        _, version, has_target_map, count = _HEADER.unpack_from(data)
        if version != SCHEMA_VERSION or has_target_map > 1:
            raise ValueError(f"atlas: schema_version {version}, this reads {SCHEMA_VERSION}")
        names, offset = unpack_names(memoryview(data), _HEADER.size, count)
        if len(set(names)) < len(names) or len(data) < offset + 4 * (count + 1):
            raise ValueError("atlas: a campaign stands twice, or the bytes end early")
        lengths = np.frombuffer(data, "<u4", count + 1, offset).astype(np.int64)
        offset += 4 * (count + 1)
        total = int(lengths.sum())
        if len(data) != offset + 16 * total:
            raise ValueError(f"atlas: {total} knots need {offset + 16 * total} bytes")
        knots = _floats(data, total, offset)
        values = _floats(data, total, offset + 8 * total)
        _check_maps(lengths, knots, values)
        return cls(names, lengths, knots, values, bool(has_target_map))


def _floats(data: bytes, count: int, offset: int) -> Floats:
    # Adding 0.0 copies, and turns -0.0 into 0.0 as `CalibrationMap` does.
    return np.frombuffer(data, "<f8", count, offset) + np.float64(0.0)


def _view(column: Floats) -> "memoryview[float]":
    return memoryview(column).cast("B").cast("d")  # type: ignore[arg-type]


def _block_widths(lengths: Integers) -> Integers:
    """The power of four, at least 64, that holds each map's knots: few distinct widths, so that a
    batch falls into few groups."""
    widths = np.full(len(lengths), _NARROWEST)
    while (small := widths < lengths).any():
        widths[small] *= 4
    return widths


def _check_maps(lengths: Integers, knots: Floats, values: Floats) -> None:
    check_unit_interval("knots", knots)
    check_unit_interval("values", values)
    if not (lengths >= 2).all():
        raise ValueError("atlas: a map needs at least two knots")
    last = np.cumsum(lengths) - 1
    inside = np.ones(len(knots) - 1, dtype=bool)
    inside[last[:-1]] = False
    whole = (knots[last] == 1.0) & (knots[last - lengths + 1] == 0.0)
    if not whole.all() or not (np.diff(knots)[inside] > 0).all():
        raise ValueError("atlas: knots of a map must increase strictly from 0.0 to 1.0")
