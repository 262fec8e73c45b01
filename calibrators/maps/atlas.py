"""The atlas: the calibration maps of all campaigns of one target, looked up in one pass."""

import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.bins.codecs import campaigns_of
from calibrators.bins.model_versions import SEPARATOR, named, parted
from calibrators.bins.table import BinsTable
from calibrators.fields.columns import FieldColumns, Given
from calibrators.fields.effects import FieldEffects
from calibrators.maps.calibration_map import CalibrationMap, MapColumns, Spreads
from calibrators.maps.groups import FieldGroups, GroupMaps, GroupRows
from calibrators.maps.look_up import MapRows
from calibrators.maps.shared_knots import SharedKnots, maps_by_row, read_column, read_shared
from calibrators.names import CampaignRows, JsonTexts, LeftTexts, PackedTexts
from calibrators.samples import MANY, Floats, Integers, Scratch, Singles, check_unit_interval

SCHEMA_VERSION = 1
_WITH_GROUPS = 2
"""The schema_version of an atlas that has maps of groups."""
_WITH_SECTIONS = 3
"""The schema_version of an atlas that has effects of fields, or spreads."""
_WITH_SETS = 4
"""The schema_version of an atlas whose maps share their knots."""
_GROUPS = struct.Struct("<I")
_SECTION = struct.Struct("<Q")
_HEADER = struct.Struct("<4sHHI")
_MAGIC = b"SATL"

FEW: Final = 32
"""Up to so many scores `look_up_few` costs less than `look_up`: measured by benchmarks.look_up."""

_CALIBRATED = 1 << 15
"""Cells that are calibrated at once: what is worked out for each stays in the cache."""

CAMPAIGN, GROUP, TARGET, IDENTITY = "campaign", "group", "target", "identity"


class Atlas:
    """Maps of any number of campaigns behind one vectorised look-up; immutable.

    Row 0 is what serves a campaign without a map of its own: the target's map, or the identity.
    Behind the rows of the campaigns are those of groups, which serve campaigns without a map of
    their own in place of row 0, by what their names say. Of a named version of the model a campaign
    has a row of its own, see `calibrators.bins.model_versions`, and so have new ones, as the
    campaign without a name. The effects of fields, where there are any, correct what the maps say;
    no look-up here knows them.
    Readers hold a reference to a whole atlas; a new one replaces it by one assignment.

    >>> atlas = Atlas.build({"a": CalibrationMap.proportional(0.5)})
    >>> atlas(["a", "b"], [0.2, 0.2]), atlas.level("a"), atlas.level("b")
    (array([0.1, 0.2]), 'campaign', 'identity')
    """

    __slots__ = (
        "_campaign_rows",
        "_groups",
        "_has_target_map",
        "_index",
        "_maps",
        "campaigns",
        "effects",
        "group_field",
        "has_groups",
        "look_up_few",
        "rows_of_new",
        "shared_level",
        "spreads",
    )

    campaigns: Final[tuple[str, ...]]
    effects: Final[FieldEffects | None]
    group_field: Final[str | None]
    """The field whose value names the group of a campaign without a map, if one does."""
    has_groups: Final[bool]
    look_up_few: Final[Callable[[Sequence[int], Sequence[float]], list[float]]]
    """`look_up` to the last bit, cheaper for up to `FEW` scores, which are already checked."""
    rows_of_new: Final[tuple[int, int]]
    """From which row on, and up to which, there are maps for new campaigns of versions."""
    shared_level: Final[str]
    """The level of row 0."""
    spreads: Final[Spreads | None]

    def __init__(
        self,
        campaign_rows: CampaignRows,
        maps: MapRows,
        has_target_map: bool,
        groups: GroupRows | None = None,
        effects: FieldEffects | None = None,
        spreads: Spreads | None = None,
    ) -> None:
        """From the maps by row; see `build` and `from_bytes`."""
        self.effects, self.spreads = effects, spreads
        of = None if groups is None else groups.group_of
        self.group_field = of.field if isinstance(of, FieldGroups) else None
        self.campaigns = campaign_rows.campaigns
        self._groups = groups
        self._campaign_rows = campaign_rows
        self._index = campaign_rows.index
        self._maps = maps
        self._has_target_map = has_target_map
        self.has_groups = groups is not None
        self.shared_level = TARGET if has_target_map else IDENTITY
        first = bisect_left(self.campaigns, SEPARATOR)
        behind = bisect_left(self.campaigns, SEPARATOR + chr(0x10FFFF), first)
        self.rows_of_new = first + 1, behind + 1
        # Bound here, because it is short enough to feel each step on the way.
        self.look_up_few = maps.look_up_few

    @classmethod
    def build(
        cls,
        maps: Mapping[str, CalibrationMap],
        target_map: CalibrationMap | None = None,
        groups: GroupMaps | None = None,
    ) -> Self:
        """The atlas of these maps by campaign; without a target map the identity stands in."""
        rows = MapColumns.of_maps([target_map or CalibrationMap.identity(), *maps.values()])
        return cls.of_columns(tuple(maps), rows, target_map is not None, groups)

    @classmethod
    def of_columns(
        cls,
        campaigns: Sequence[str],
        maps: MapColumns,
        has_target_map: bool,
        groups: GroupMaps | None = None,
    ) -> Self:
        """From the target's map, or the identity, and behind it those of the campaigns, (c,), which
        come in any order; and from those of groups."""
        order = sorted(range(len(campaigns)), key=campaigns.__getitem__)
        in_order = maps.taken(np.array([0, *(place + 1 for place in order)], np.int64))
        names = CampaignRows([campaigns[place] for place in order])
        if groups is None or not groups.names:
            return cls(names, maps_by_row(in_order), has_target_map)
        every = maps_by_row(MapColumns.end_to_end((in_order, groups.maps)))
        rows = GroupRows(groups.group_of, groups.names, len(campaigns) + 1)
        return cls(names, every, has_target_map, rows)

    @classmethod
    def empty(cls) -> Self:
        """The atlas that serves the identity to everyone."""
        return cls.build({})

    def __len__(self) -> int:
        return len(self.campaigns)

    def __reduce__(self) -> tuple[Callable[[bytes], "Atlas"], tuple[bytes]]:
        """By its bytes: what copies estimators, or sends them to processes, can take atlases."""
        return Atlas.from_bytes, (self.to_bytes(),)

    def __call__(self, campaigns: Sequence[str], scores: ArrayLike) -> Floats:
        """Probabilities of a mixed batch, shape (n,); ValueError on a score outside [0, 1] or on
        unequal lengths."""
        checked = check_unit_interval("scores", scores)
        rows = self.rows(campaigns)
        if len(rows) != len(checked):
            raise ValueError(f"{len(rows)} campaigns for {len(checked)} scores")
        return self.look_up(rows, checked)

    def served(self, campaigns: Sequence[str], scores: ArrayLike, fields: FieldColumns) -> Floats:
        """The same as the service answers: with what the events' fields change."""
        checked = check_unit_interval("scores", scores)
        found = self.by_maps(campaigns, np.arange(len(campaigns)), checked, fields)
        if self.effects is None:
            return found
        return self.effects.applied(found, campaigns_of(campaigns), self.effects.coded(fields))

    def by_maps(
        self, campaigns: Sequence[str], codes: NDArray[Any], scores: Floats, fields: FieldColumns
    ) -> Floats:
        """The same without effects; `codes` are the places of the events' campaigns, (n,)."""
        rows = self.rows(campaigns)[codes]
        if groups := fields.get(self.group_field or ""):
            rows = np.where(rows, rows, self.rows_of_groups(groups.names)[groups.codes])
        return self.look_up(rows, scores)

    def rows(self, campaigns: Sequence[str]) -> Integers:
        """Row of the map that serves each campaign, shape (n,)."""
        rows = np.empty(len(campaigns), np.int64)
        if not self._fill(campaigns, rows):
            if self._groups is None and _name_no_version(campaigns):
                return rows
            unknown = np.flatnonzero(rows == 0)
            names = [campaigns[place] for place in unknown.tolist()]
            if self._groups is not None or SEPARATOR in "".join(names):
                rows[unknown] = [*map(self._row_above, names)]
        return rows

    def _fill(self, campaigns: Sequence[str], rows: Integers) -> bool:
        """Whether all of them are known."""
        # Not by their base class, which takes longer to ask.
        if type(campaigns) is JsonTexts or type(campaigns) is PackedTexts:
            return campaigns.fill(self._index, rows)
        return bool(self._index.fill(campaigns, rows))

    def _row_above(self, campaign: str) -> int:
        """What serves a campaign without a map: of a version of the model, what that has for new
        campaigns; of a version that is not known here, what serves the campaign."""
        known, version = parted(campaign)
        if version is not None:
            of_new: int = self._index.get(named("", version), 0)
            return of_new or self._row(known)
        return 0 if self._groups is None else self._groups.row_of(campaign)

    def own_rows(self, campaigns: Sequence[str]) -> Integers:
        """Row of each campaign, shape (n,); 0 for one without a map of its own."""
        rows = np.empty(len(campaigns), np.int64)
        self._fill(campaigns, rows)
        return rows

    def grouped(self, rows: Sequence[int], groups: Sequence[str]) -> list[int]:
        """Rows, (n,), of which 0 becomes that of the group with this name, (n,)."""
        found = zip(rows, self.rows_of_groups(groups).tolist(), strict=True)
        return [row or group for row, group in found]

    def _row(self, campaign: str) -> int:
        own: int = self._index.get(campaign, 0)
        return own or self._row_above(campaign)

    def look_up(self, rows: Integers, scores: Floats | Singles) -> Floats:
        """Probabilities of n scores, each by the map of its row; scores are already checked."""
        return self._maps.look_up(rows, scores)

    def few_rows(self, campaigns: Sequence[str]) -> list[int]:
        """`rows` of a handful of campaigns, as a list."""
        if self._groups is not None:
            return [self._row(campaign) for campaign in campaigns]
        rows = list(map(self._index.get, campaigns, repeat(0)))
        if all(rows) or SEPARATOR not in "".join(campaigns):
            return rows
        return [row or self._row_above(name) for row, name in zip(rows, campaigns, strict=True)]

    def at(self, campaign: str, score: float) -> float:
        """Probability of one score of one campaign; ValueError on a score outside [0, 1]."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score = {score}: must be in [0, 1]")
        return self._maps.at(self._row(campaign), score)

    def level(self, campaign: str) -> str:
        """What serves the campaign: its own map, its group's, the target's, or the identity."""
        return self._level(self._row(campaign))

    def levels(self, rows: Integers) -> list[str]:
        """The level behind each row that `rows` gave."""
        return [self._level(row) for row in rows.tolist()]

    def _level(self, row: int) -> str:
        if row > len(self.campaigns):
            return GROUP
        new = not row or self.campaigns[row - 1].startswith(SEPARATOR)
        return self.shared_level if new else CAMPAIGN

    def versions(self, rows: Integers) -> list[str | None]:
        """The named version of the model that each of these rows is of, None of none."""
        own = [self.campaigns[row - 1] if 0 < row <= len(self) else "" for row in rows.tolist()]
        return [parted(name)[1] for name in own]

    @property
    def groups(self) -> GroupMaps | None:
        """The maps of groups, if there are any."""
        if self._groups is None:
            return None
        maps = self.columns(slice(len(self.campaigns) + 1, None))
        return GroupMaps(self._groups.group_of, self._groups.names, maps)

    def rows_of_groups(self, names: Sequence[str]) -> Integers:
        """The row of each group, (g,), 0 for one without a map."""
        if self._groups is None:
            return np.zeros(len(names), np.int64)
        return np.fromiter(self._groups.rows_of(names), np.int64, len(names))

    @property
    def target_map(self) -> CalibrationMap | None:
        """The target's own map, if it has one."""
        return self.columns(slice(0, 1)).only if self._has_target_map else None

    def map_of(self, campaign: str, group: str | None = None) -> CalibrationMap:
        """The map that serves the campaign, of the group where a field says it."""
        row = self._row(campaign) or (0 if group is None else int(self.rows_of_groups([group])[0]))
        return self.columns(slice(row, row + 1)).only

    def with_effects(self, effects: FieldEffects | None) -> "Atlas":
        """The same maps with these effects of fields."""
        return self if effects is self.effects else self._with(effects, self.spreads)

    def with_own(self, maps: Mapping[str, CalibrationMap], gone: Collection[str] = ()) -> "Atlas":
        """The same, but these campaigns have these maps as their own, others that are gone none."""
        if not (changed := {*maps, *gone}):
            return self
        kept = [row for row, name in enumerate(self.campaigns, 1) if name not in changed]
        names = [*(self.campaigns[row - 1] for row in kept), *maps]
        stay = self.columns(np.array([0, *kept], np.int64))
        every = MapColumns.end_to_end((stay, MapColumns.of_maps(list(maps.values()))))
        atlas = Atlas.of_columns(names, every, self._has_target_map, self.groups)
        return atlas.with_effects(self.effects).with_spreads_of(self)

    def at_scores(self, moved: Callable[[Integers, Floats], Floats]) -> "Atlas":
        """The same values at other scores: `moved` gives where the knots of all maps, (k,), come to
        lie, from the row of each and its score, (k,) each, which never falls within a map. 0 and 1
        stay; of knots that come to lie at one score the first does."""
        columns = self.columns()
        rows = np.repeat(np.arange(len(columns)), columns.lengths)
        inside = (columns.knots > 0.0) & (columns.knots < 1.0)
        knots = columns.knots.copy()
        knots[inside] = moved(rows[inside], columns.knots[inside])
        kept = np.append(True, (np.diff(knots) > 0.0) | (np.diff(rows) > 0))
        lengths = np.bincount(rows[kept], minlength=len(columns))
        moved_maps = maps_by_row(MapColumns(lengths, knots[kept], columns.values[kept]))
        found = (self._campaign_rows, moved_maps, self._has_target_map, self._groups)
        return Atlas(*found, self.effects, self.spreads)

    def with_spreads(self, spreads: Spreads | None) -> "Atlas":
        """The same maps with the spreads of all rows, or none."""
        return self._with(self.effects, spreads)

    def _with(self, effects: FieldEffects | None, spreads: Spreads | None) -> "Atlas":
        rows, has_target_map = self._campaign_rows, self._has_target_map
        return Atlas(rows, self._maps, has_target_map, self._groups, effects, spreads)

    def with_spreads_of(self, other: "Atlas") -> "Atlas":
        """The same maps, each with what the other atlas says of its campaign or group: of those
        without a map there what it says of anybody new."""
        if other.spreads is None or other is self:
            return self
        return self.with_spreads(other.spreads.taken(other._rows_like(self)))

    def _rows_like(self, other: "Atlas") -> Integers:
        """The rows here that say something of each row of another atlas."""
        groups = () if other._groups is None else other._groups.names
        return np.concatenate(([0], self.rows(other.campaigns), self.rows_of_groups(groups)))

    def quantiles(
        self,
        rows: Integers,
        scores: Floats,
        probabilities: Floats,
        levels: Sequence[float],
        campaigns: Sequence[str] | str = "",
        fields: Mapping[str, Given] = MappingProxyType({}),
    ) -> list[Floats]:
        """Below what the true probability lies with these chances, in (0, 1), (n,) each, given what
        `look_up` said, corrected by the effects that campaigns and fields have. ValueError of an
        atlas without spreads."""
        if self.spreads is None:
            raise ValueError("atlas: its maps have no spreads")
        variances = None
        if fields and self.effects is not None:
            variances = self.effects.variances(campaigns, fields, len(scores))
        return [*self.spreads.quantiles(rows, scores, probabilities, levels, variances)]

    def columns(self, rows: Integers | slice = slice(None)) -> MapColumns:
        """The maps of rows: the target's (or the identity), the campaigns', those of groups."""
        return self._maps.columns(rows)

    def calibrated(self, table: BinsTable, ratios: Mapping[str, float] | None = None) -> BinsTable:
        """The same events, those of all versions of the model together, binned by the probability
        that the atlas gives their scores, its odds times the ratio of the campaign, if any."""
        parts = (self._calibrated(part, ratios or {}) for part in table.slices(_CALIBRATED))
        return BinsTable.in_a_row(parts).without_versions()

    def _calibrated(self, table: BinsTable, ratios: Mapping[str, float]) -> BinsTable:
        _, outcomes, weights, rows = table.samples()
        found = self.of_samples(table, ratios)
        return BinsTable.from_columns(table.campaigns, rows, found, weights, outcomes * weights)

    def of_samples(self, table: BinsTable, ratios: Mapping[str, float]) -> Floats:
        """The probabilities, (n,), of a table's samples; ratios as in `calibrated`."""
        scores, _, _, rows = table.samples()
        found = self.look_up(self.rows(table.campaigns)[rows], scores)
        if not ratios:
            return found
        of_each = [ratios.get(parted(name)[0], 1.0) for name in table.campaigns]
        raised = found * np.array(of_each)[rows]
        return np.asarray(raised / (1.0 - found + raised))

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SATL", schema_version u2, has a target map u2, campaigns
        u4; the names (`calibrators.bins.codecs`); knots per row u4, row 0 first; knots f8; values
        f8. With groups the schema_version is 2, and behind the names stand their number, u4, and
        the expression and they as a list of names. With effects or spreads it is 3: the number of
        groups may be 0, with no list behind it, and at the end stand two sections, each a length u8
        and as many bytes: effects, and spreads (`Spreads.to_bytes`); empty where there are none.
        Where maps share their knots it is 4: as 3, but for the maps (`SharedKnots.packed`)."""
        return b"".join(self._pieces())

    def to_memory(self) -> memoryview:
        """`to_bytes`, in a file where there are many maps: they come to hundreds of megabytes."""
        pieces = [np.frombuffer(piece, np.uint8) for piece in self._pieces()]
        return Scratch(len(self.campaigns) >= MANY).joined(pieces).data

    def _pieces(self) -> tuple[bytes | memoryview, ...]:
        version = self._schema_version
        header = _HEADER.pack(_MAGIC, version, self._has_target_map, len(self.campaigns))
        names = [self._campaign_rows.packed]
        if self._groups is not None:
            names += (_GROUPS.pack(len(self._groups.names)), self._groups.to_bytes())
        elif version >= _WITH_SECTIONS:
            names.append(_GROUPS.pack(0))
        ends = self._ends() if version >= _WITH_SECTIONS else ()
        return header, *names, *self._map_bytes(), *ends

    @property
    def _schema_version(self) -> int:
        if isinstance(self._maps, SharedKnots):
            return _WITH_SETS
        if not (self.effects is None and self.spreads is None):
            return _WITH_SECTIONS
        return SCHEMA_VERSION if self._groups is None else _WITH_GROUPS

    def _map_bytes(self) -> Iterator[bytes | memoryview]:
        if isinstance(self._maps, SharedKnots):
            yield from self._maps.packed()
            return
        maps = self.columns()
        yield maps.lengths.astype("<u4").tobytes()
        yield maps.knots.astype("<f8").tobytes()
        yield maps.values.astype("<f8").tobytes()

    def _ends(self) -> Iterator[bytes]:
        for each in (self.effects, self.spreads):
            section = b"" if each is None else each.to_bytes()
            yield _SECTION.pack(len(section)) + section

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
        if not SCHEMA_VERSION <= version <= _WITH_SETS or has_target_map > 1:
            raise ValueError(f"atlas: schema_version {version}, this reads up to {_WITH_SETS}")
        known = None if like is None else like._campaign_rows
        campaign_rows, offset = CampaignRows.read(data, _HEADER.size, count, known)
        groups = effects = spreads = None
        if version >= _WITH_GROUPS:
            groups, offset = _read_groups(data, offset, count + 1, version)
            count += 0 if groups is None else len(groups.names)
        read = read_shared if version == _WITH_SETS else _read_own
        maps, offset = read(data, offset, count + 1, pause)
        if version >= _WITH_SECTIONS:
            section, offset = _read_section(data, offset)
            effects = FieldEffects.from_bytes(section, pause) if section else None
            section, offset = _read_section(data, offset)
            spreads = Spreads.from_bytes(section, count + 1) if section else None
        if offset != len(data):
            raise ValueError(f"atlas: ends at byte {offset}, there are {len(data)}")
        return cls(campaign_rows, maps, bool(has_target_map), groups, effects, spreads)


def _name_no_version(campaigns: Sequence[str]) -> bool:
    """Whether that can be told without reading them, and is so."""
    return isinstance(campaigns, LeftTexts) and not campaigns.have(SEPARATOR)


def _read_groups(
    data: bytes, offset: int, first: int, version: int
) -> tuple[GroupRows | None, int]:
    (count,), offset = read_column(data, offset, 1, "<u4")
    if version >= _WITH_SECTIONS and not count:
        return None, offset
    return GroupRows.read(data, offset, int(count), first)


def _read_own(
    data: bytes, offset: int, count: int, pause: Callable[[], None]
) -> tuple[MapRows, int]:
    read, offset = read_column(data, offset, count, "<u4")
    lengths = read.astype(np.int64)
    total = int(lengths.sum())
    end = offset + 16 * total
    if len(data) < end:
        raise ValueError(f"atlas: {total} knots need {16 * total} bytes")
    knots = np.frombuffer(data, "<f8", total, offset)
    values = np.frombuffer(data, "<f8", total, offset + 8 * total)
    return maps_by_row(MapColumns(lengths, knots, values), pause), end


def _read_section(data: bytes, offset: int) -> tuple[bytes, int]:
    (length,), start = read_column(data, offset, 1, "<u8")
    section, end = read_column(data, start, int(length), "u1")
    return section.tobytes(), end
