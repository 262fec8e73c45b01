"""The atlas: the calibration maps of all campaigns of one target, looked up in one pass.

The campaigns of an atlas: their names in order, the row of each, and their bytes.
Calibration maps of many campaigns end to end, as the atlas holds them.
Campaigns in the order of their names.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.bins.codecs import pack_names, unpack_names
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.maps.look_up import MapBlocks
from calibrators.samples import Floats, Integers, Singles, check_unit_interval


class CampaignRows:
    """Row i + 1 is that of campaigns[i]; immutable, so that atlases of the same campaigns share
    one. Raises ValueError on a name that stands twice."""

    __slots__ = ("campaigns", "packed", "row_of")

    def __init__(self, campaigns: Sequence[str], packed: bytes | None = None) -> None:
        """`packed` are the names' bytes where they are known already."""
        self.campaigns = tuple(campaigns)
        self.packed = pack_names(self.campaigns) if packed is None else packed
        # A comprehension, which lets other threads in: one call for all names would not.
        self.row_of = {campaign: row for row, campaign in enumerate(self.campaigns, 1)}
        if len(self.row_of) < len(self.campaigns):
            raise ValueError("atlas: a campaign stands twice")

    @classmethod
    def read(
        cls, data: bytes, offset: int, count: int, like: Self | None = None
    ) -> tuple[Self, int]:
        """The names that start at offset, and the offset behind them: `like` itself where its
        bytes stand there. ValueError on bad bytes."""
        if like is not None and like._stands_at(data, offset, count):
            return like, offset + len(like.packed)
        names, end = unpack_names(memoryview(data), offset, count)
        return cls(names, data[offset:end]), end

    def _stands_at(self, data: bytes, offset: int, count: int) -> bool:
        return len(self.campaigns) == count and data.startswith(self.packed, offset)


SCHEMA_VERSION = 1
_HEADER = struct.Struct("<4sHHI")
_MAGIC = b"SATL"

FEW: Final = 32
"""Up to so many scores `look_up_few` costs less than `look_up`: measured by benchmarks.look_up."""

CAMPAIGN, TARGET, IDENTITY = "campaign", "target", "identity"


class Atlas:
    """Maps of any number of campaigns behind one vectorised look-up; immutable.

    Row 0 is what serves a campaign without a map of its own: the target's map, or the identity.
    Readers hold a reference to a whole atlas; a new one replaces it by one assignment.

    >>> atlas = Atlas.build({"a": CalibrationMap.proportional(0.5)})
    >>> atlas(["a", "b"], [0.2, 0.2]), atlas.level("a"), atlas.level("b")
    (array([0.1, 0.2]), 'campaign', 'identity')
    """

    __slots__ = (
        "_blocks",
        "_campaign_rows",
        "_firsts",
        "_following",
        "_has_target_map",
        "_knots",
        "_lasts",
        "_row_of",
        "_slopes",
        "_values",
        "campaigns",
    )

    campaigns: Final[tuple[str, ...]]

    def __init__(
        self, campaign_rows: CampaignRows, blocks: MapBlocks, has_target_map: bool
    ) -> None:
        """From the maps by row; see `build` and `from_bytes`."""
        self.campaigns = campaign_rows.campaigns
        self._campaign_rows = campaign_rows
        self._row_of = campaign_rows.row_of
        self._blocks = blocks
        self._has_target_map = has_target_map
        # Bound here, because the scalar look-up is short enough to feel each step on the way.
        items = blocks.items()
        self._firsts, self._lasts, self._following = items.firsts, items.lasts, items.following
        self._knots, self._values, self._slopes = items.knots, items.values, items.slopes

    @classmethod
    def build(
        cls, maps: Mapping[str, CalibrationMap], target_map: CalibrationMap | None = None
    ) -> Self:
        """The atlas of these maps by campaign; without a target map the identity stands in."""
        campaigns = sorted(maps)
        rows = [target_map or CalibrationMap.identity(), *(maps[name] for name in campaigns)]
        blocks = MapBlocks(
            np.array([len(row.knots) for row in rows], np.int64),
            np.concatenate([row.knots for row in rows]),
            np.concatenate([row.values for row in rows]),
        )
        return cls(CampaignRows(campaigns), blocks, target_map is not None)

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

    def look_up(self, rows: Integers, scores: Floats | Singles) -> Floats:
        """Probabilities of n scores, each by the map of its row; scores are already checked."""
        return self._blocks.look_up(rows, scores)

    def few_rows(self, campaigns: Sequence[str]) -> list[int]:
        """`rows` of a handful of campaigns, as a list."""
        row_of = self._row_of.get
        return [row_of(campaign, 0) for campaign in campaigns]

    def look_up_few(self, rows: Sequence[int], scores: Sequence[float]) -> list[float]:
        """`look_up` to the last bit, cheaper for up to `FEW` scores, which are already checked."""
        firsts, lasts, following = self._firsts, self._lasts, self._following
        knots, values, slopes = self._knots, self._values, self._slopes
        found = []
        for row, score in zip(rows, scores, strict=True):
            place = bisect_right(following, score, firsts[row], lasts[row])
            found.append(values[place] + slopes[place] * (score - knots[place]))
        return found

    def at(self, campaign: str, score: float) -> float:
        """Probability of one score of one campaign; ValueError on a score outside [0, 1]."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score = {score}: must be in [0, 1]")
        row = self._row_of.get(campaign, 0)
        place = bisect_right(self._following, score, self._firsts[row], self._lasts[row])
        return self._values[place] + self._slopes[place] * (score - self._knots[place])

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
        return CalibrationMap(*self._blocks.map_at(row))

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SATL", schema_version u2, has a target map u2, campaigns
        u4; the names (`calibrators.bins.codecs`); knots per row u4, row 0 first; knots f8; values
        f8."""
        header = _HEADER.pack(_MAGIC, SCHEMA_VERSION, self._has_target_map, len(self.campaigns))
        lengths, knots, values = self._blocks.flat()
        columns = (lengths.astype("<u4"), knots.astype("<f8"), values.astype("<f8"))
        return b"".join(
            (header, self._campaign_rows.packed, *(column.tobytes() for column in columns))
        )

    @classmethod
    def from_bytes(
        cls, data: bytes, like: Self | None = None, pause: Callable[[], None] = lambda: None
    ) -> Self:
        """The atlas that `to_bytes` wrote; ValueError on any other bytes, and on maps that
        `CalibrationMap` would refuse. Shares the campaigns with `like` where they are the same.
        `pause` is called between pieces of the work."""
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ValueError("these are not the bytes of an atlas")
        _, version, has_target_map, count = _HEADER.unpack_from(data)
        if version != SCHEMA_VERSION or has_target_map > 1:
            raise ValueError(f"atlas: schema_version {version}, this reads {SCHEMA_VERSION}")
        known = None if like is None else like._campaign_rows
        campaign_rows, offset = CampaignRows.read(data, _HEADER.size, count, known)
        blocks = _read_blocks(data, offset, count + 1, pause)
        return cls(campaign_rows, blocks, bool(has_target_map))


def _read_blocks(data: bytes, offset: int, count: int, pause: Callable[[], None]) -> MapBlocks:
    if len(data) < offset + 4 * count:
        raise ValueError("atlas: the bytes end early")
    lengths = np.frombuffer(data, "<u4", count, offset).astype(np.int64)
    offset += 4 * count
    total = int(lengths.sum())
    if len(data) != offset + 16 * total:
        raise ValueError(f"atlas: {total} knots need {offset + 16 * total} bytes")
    knots = np.frombuffer(data, "<f8", total, offset)
    values = np.frombuffer(data, "<f8", total, offset + 8 * total)
    return MapBlocks(lengths, knots, values, pause)


@dataclass(frozen=True, slots=True, eq=False)
class MapColumns:
    """Knots of each map, (c,), at least 2; knots and values of all maps end to end, (k,) each.

    Not checked: the atlas does that.
    """

    lengths: Integers
    knots: Floats
    values: Floats

    @classmethod
    def of_maps(cls, maps: Sequence[CalibrationMap]) -> Self:
        """The columns of maps."""
        return cls(
            np.array([len(each.knots) for each in maps], np.int64),
            np.concatenate([np.empty(0), *(each.knots for each in maps)]),
            np.concatenate([np.empty(0), *(each.values for each in maps)]),
        )

    @classmethod
    def end_to_end(cls, parts: Sequence["MapColumns"]) -> Self:
        """The maps of all parts, one part behind the other."""
        return cls(
            np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]),
            np.concatenate([np.empty(0), *(part.knots for part in parts)]),
            np.concatenate([np.empty(0), *(part.values for part in parts)]),
        )

    def taken(self, order: Integers) -> "MapColumns":
        """These maps, (n,), in this order; a view where they are neighbours."""
        if len(order) and (np.diff(order) == 1).all():
            return self.run(int(order[0]), int(order[-1]) + 1)
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[order]
        shifts = starts[order] - (np.cumsum(lengths) - lengths)
        places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        return MapColumns(lengths, self.knots[places], self.values[places])

    def run(self, first: int, behind: int) -> "MapColumns":
        """A view of the maps of first <= number < behind."""
        start = int(self.lengths[:first].sum())
        lengths = self.lengths[first:behind]
        span = slice(start, start + int(lengths.sum()))
        return MapColumns(lengths, self.knots[span], self.values[span])

    def __len__(self) -> int:
        return len(self.lengths)


def sorted_rows(campaigns: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """The distinct names ascending, and the place of each of these, (n,), among them."""
    # Distinct in the order they come in, which is often that of their names, and then soon sorted.
    names = tuple(sorted(dict.fromkeys(campaigns)))
    row_of = {name: row for row, name in enumerate(names)}
    return names, np.fromiter(map(row_of.__getitem__, campaigns), np.int64, len(campaigns))


def merged_rows(
    parts: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], list[Integers]]:
    """The names of all parts, each of which ascends, and the rows of each part's names in them."""
    if len(parts) == 1:
        return parts[0], [np.arange(len(parts[0]))]
    names, rows = sorted_rows([name for part in parts for name in part])
    ends = np.cumsum([len(part) for part in parts])
    return names, np.split(rows, ends[:-1]) if parts else []


def blocks_in_order(rows: Integers, lengths: Integers) -> Integers:
    """Where each entry comes from when blocks of these lengths are put in the order of rows."""
    order = np.argsort(rows)
    taken = lengths[order]
    before = np.cumsum(lengths) - lengths
    return np.repeat(before[order] - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())


def even_spans(names: Sequence[str], most: int) -> list[tuple[str, str | None]]:
    """As few spans of ascending names as hold at most so many each: the first name of each, and the
    one behind it, None behind the last. They are even, because a small one at the end would cost as
    much as the others."""
    count = -(-len(names) // most)
    firsts = [names[len(names) * span // count] for span in range(count)]
    behind: list[str | None] = [*firsts[1:], None]
    return list(zip(firsts, behind, strict=False))
