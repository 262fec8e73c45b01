"""The calibration maps of all campaigns of a target, looked up in this process: every probability
is the same as the service's to the last bit.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Self, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from sirocco_client.errors import BadAtlas, BadInput, checked_number, length_of
from sirocco_client.fields import EdgeEffects, Fields, TextColumn, check_fields
from sirocco_client.intervals import EdgeSpreads
from sirocco_client.maps import Breath, EdgeMaps, Integers, Rows, index_of, look_up_of, read_column
from sirocco_client.requests import SCORE_RULE, Campaigns, Floats, checked_scores, without_version

_WIDTHS: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<i8"}
_SCALE: Final = 10**9
_AT_ONCE: Final = 1000


def unpack_lengths(data: memoryview, offset: int, count: int) -> tuple[Integers, int]:
    """The lengths in bytes, and the offset behind them; raises BadAtlas.

    An entry has 1, 2, 4 or 8 bytes, and counts once or, if the unit is 1, a billion times.
    """
    if offset + 2 > len(data):
        raise BadAtlas("names: the bytes end early")
    width, unit = data[offset], data[offset + 1]
    end = offset + 2 + width * count
    if width not in _WIDTHS or unit > 1 or end > len(data):
        raise BadAtlas(f"names: width {width} and unit {unit} of {count} lengths")
    lengths = np.frombuffer(data, _WIDTHS[width], count, offset + 2).astype(np.int64)
    largest = (len(data) - end) // (_SCALE if unit else 1)
    if count and not 0 <= lengths.min() <= lengths.max() <= largest:
        raise BadAtlas("names: a length is more than there are bytes")
    return lengths * (_SCALE if unit else 1), end


def rows_by_name(text: bytes, lengths: Integers, breathe: Breath) -> Rows:
    """The row of each name, from 1; raises BadAtlas on text that is no UTF-8, or a name that
    stands twice. `breathe` is called now and then, so that other threads get their turn."""
    names: list[str] = []
    left = _names(text, lengths)
    try:
        while piece := list(islice(left, _AT_ONCE)):
            names += piece
            breathe()
        return index_of(tuple(names), breathe)
    except UnicodeDecodeError:
        raise BadAtlas(f"names: the text behind name {len(names)} is no UTF-8") from None
    except KeyError:
        raise BadAtlas("names: a campaign stands twice") from None


def _names(text: bytes, lengths: Integers) -> Iterator[str]:
    end = 0
    for length in lengths:
        start, end = end, end + int(length)
        yield text[start:end].decode()


# Magic, schema_version, whether row 0 is the target's own map, campaigns.
_HEADER: Final = struct.Struct("<4sHHI")
_MAGIC: Final = b"SATL"
_SCHEMA_VERSION: Final = 1
_WITH_SECTIONS: Final = 3
_WITH_SETS: Final = 4
_NO_FIELDS: Final[Mapping[str, str]] = {}


class _Names(NamedTuple):
    """The names as they came, and what was made of them: versions mostly differ in maps alone."""

    packed: bytes
    rows: Rows


class _Groups(NamedTuple):
    """What finds the group of a campaign in its name, or the field that says it, and the rows of
    the groups' maps."""

    search: Callable[[str], re.Match[str] | None]
    rows: Mapping[str | None, int]
    field: str | None = None

    def row(self, campaign: str, named: str = "") -> int:
        if self.field is not None:
            return self.rows.get(named, 0)
        found = self.search(campaign)
        return self.rows.get(found[1], 0) if found else 0


class EdgeAtlas:
    """Immutable maps behind a scalar and a vectorised look-up.

    Both give the same probability to the last bit, and the same as the service gives.
    """

    __slots__ = ("_at", "_effects", "_groups", "_has_target_map", "_look_up", "_names", "_spreads")

    def __init__(
        self,
        names: _Names,
        maps: EdgeMaps,
        has_target_map: bool,
        groups: _Groups | None = None,
        effects: EdgeEffects | None = None,
        spreads: EdgeSpreads | None = None,
    ) -> None:
        """Use `from_bytes`."""
        self._effects, self._spreads = effects, spreads
        self._names = names
        self._groups = groups
        self._has_target_map = has_target_map
        self._look_up = look_up_of(names.rows, maps)
        self._at = self._look_up.at

    @classmethod
    def from_bytes(
        cls, data: bytes, before: Self | None = None, breathe: Breath = lambda: None
    ) -> Self:
        """The atlas in bytes of `GET /v1/atlas/{target}`; raises BadAtlas on any others.

        What `before` has already is used again. `breathe` is called after every short piece of
        work.
        """
        version, count, has_target_map = _header(data)
        view = memoryview(data)
        name_lengths, start = unpack_lengths(view, _HEADER.size, count)
        end = start + int(name_lengths.sum())
        packed = bytes(view[_HEADER.size : end])
        groups, behind = _groups(view, end, count + 1, version)
        count += 1 + (len(groups.rows) if groups else 0)
        read = EdgeMaps.read_shared if version == _WITH_SETS else EdgeMaps.read
        maps, stop = read(view, behind, count, breathe)
        effects, spreads = _sections(view, stop, count, version)
        if before is not None and before._names.packed == packed:
            names = before._names
        else:
            names = _Names(packed, rows_by_name(data[start:end], name_lengths, breathe))
        return cls(names, maps, has_target_map, groups, effects, spreads)

    @classmethod
    def identity(cls) -> Self:
        """Changes no score of any campaign."""
        ends = np.array([0.0, 1.0])
        maps = EdgeMaps.of(np.array([2]), np.array([0]), ends, ends, lambda: None)
        return cls(_Names(b"", index_of((), lambda: None)), maps, False)

    def __len__(self) -> int:
        """Campaigns with a map of their own."""
        return len(self._names.rows)

    def at(
        self, campaign: str, score: SupportsFloat, fields: Mapping[str, str] = _NO_FIELDS
    ) -> float:
        """Probability of one score; raises BadInput unless it is in [0, 1]. What is not named of
        fields counts as other."""
        found = self._at(campaign, score)
        if found is None:
            found = self._at_row(self._row(campaign, self._group_values(fields, 1)[0]), score)
        if self._effects is None:
            return found
        return self._effects.applied_once(found, without_version(campaign)[0], fields)

    def _at_row(self, row: int, given: SupportsFloat) -> float:
        score = checked_number("score", given, SCORE_RULE)
        if not 0.0 <= score <= 1.0:
            raise BadInput("score", SCORE_RULE, score)
        return self._look_up.of_row(row, score)

    def _group_values(self, fields: Fields, count: int) -> TextColumn:
        """What n scores say of the field that names groups, if one does."""
        of = self._groups and self._groups.field
        given = fields.get(of, "") if of else ""
        return [given] * count if isinstance(given, str) else given

    def __call__(
        self, campaigns: Campaigns, scores: ArrayLike, fields: Fields = _NO_FIELDS
    ) -> Floats:
        """Probabilities, shape (n,), of n scores with a campaign each or one for all, and so with
        values of fields; raises BadInput on a score outside [0, 1] or on unequal lengths."""
        column = checked_scores(scores)
        check_fields(fields, len(column))
        found = self._of_maps(campaigns, column, fields)
        if self._effects is None:
            return found
        return self._effects.applied(found, _without_versions(campaigns), fields)

    def _of_maps(self, campaigns: Campaigns, column: Floats, fields: Fields) -> Floats:
        if not isinstance(campaigns, str) and length_of("campaigns", campaigns) != len(column):
            raise BadInput("campaigns", f"has {len(campaigns)} items beside {len(column)} scores")
        found, rows = np.empty(len(column)), self._rows(campaigns, len(column), fields)
        self._look_up.look_up(rows, np.ascontiguousarray(column), found)
        return found

    def quantiles(
        self,
        campaigns: Campaigns,
        scores: Floats,
        probabilities: Floats,
        levels: Sequence[float],
        fields: Fields = _NO_FIELDS,
        on_trial: bool = False,
    ) -> list[Floats]:
        """Of each level in (0, 1) a column, (n,), of what the true probabilities are below with
        this chance, given what the look-up named. What is served raw has no width. Raises BadInput
        of maps without spreads, unless they are on trial: these have no width then."""
        if self._spreads is None:
            if on_trial or not (self._has_target_map or len(self)):
                return [probabilities] * len(levels)
            raise BadInput("interval", "the maps have none: their calibrator is not pooled")
        rows, of_effects = self._rows(campaigns, len(scores), fields), None
        if fields and self._effects is not None:
            names = _without_versions(campaigns)
            of_effects = self._effects.variances(names, fields, len(scores))
        return self._spreads.quantiles(rows, scores, probabilities, levels, of_effects)

    def level(self, campaign: str) -> str:
        """Which map serves the campaign: `campaign`, `group`, `target` or `identity`."""
        row, version = self._row(campaign), without_version(campaign)[1]
        of_new = self._names.rows.get(version, 0) if version else 0
        if row > len(self):
            return "group"
        if row and row != of_new:
            return "campaign"
        return "target" if self._has_target_map else "identity"

    def _row(self, campaign: str, named: str = "") -> int:
        return self._names.rows.get(campaign, 0) or self._row_above(campaign, named)

    def _row_above(self, campaign: str, named: str) -> int:
        """Of a campaign without a map: that of its version for new ones; of a version that is not
        known here what serves the campaign. Raises BadInput on one without a name, or that is no
        string."""
        if not isinstance(campaign, str):
            raise BadInput("campaign", "must be a string", campaign)
        known, version = without_version(campaign)
        if not known:
            raise BadInput("campaign", "must have at least 1 byte of UTF-8", known)
        if version:
            return self._names.rows.get(version, 0) or self._row(known, named)
        return 0 if self._groups is None else self._groups.row(campaign, named)

    def _rows(self, campaigns: Campaigns, count: int, fields: Fields) -> Integers:
        if self._groups is None and isinstance(campaigns, str):
            return np.full(count, self._row(campaigns))
        names = [campaigns] * count if isinstance(campaigns, str) else list(campaigns)
        rows = np.empty(count, np.int64)
        if not self._names.rows.fill(names, rows):
            named, unknown = self._group_values(fields, count), np.flatnonzero(rows == 0).tolist()
            rows[unknown] = [self._row_above(names[place], named[place]) for place in unknown]
        return rows


def _without_versions(campaigns: Campaigns) -> Campaigns:
    if isinstance(campaigns, str):
        return without_version(campaigns)[0]
    return [without_version(name)[0] for name in campaigns]


def _header(data: bytes) -> tuple[int, int, bool]:
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise BadAtlas("these are not the bytes of an atlas")
    _, version, has_target_map, count = _HEADER.unpack_from(data)
    if not _SCHEMA_VERSION <= version <= _WITH_SETS or has_target_map > 1:
        raise BadAtlas(f"atlas: schema_version {version}, this reads up to {_WITH_SETS}")
    return version, count, bool(has_target_map)


def _groups(data: memoryview, offset: int, first: int, version: int) -> tuple[_Groups | None, int]:
    """The groups whose number stands at offset and whose rows begin at `first`, if there are any,
    and the offset behind their names."""
    if version == _SCHEMA_VERSION:
        return None, offset
    groups, offset = read_column(data, offset, 1, "<u4")
    count = int(groups[0])
    if version >= _WITH_SECTIONS and not count:
        return None, offset
    (expression, *names), end = _texts(data, offset, count + 1)
    try:
        search = re.compile(expression).search
    except re.error:
        raise BadAtlas("atlas: no expression of groups, or names that are no UTF-8") from None
    # So an expression begins that is none, but names a field.
    of = expression[1:] if expression.startswith("=") and "(" not in expression else None
    return _Groups(search, {name: row for row, name in enumerate(names, first)}, of), end


def _texts(data: memoryview, offset: int, count: int) -> tuple[list[str], int]:
    lengths, start = unpack_lengths(data, offset, count)
    end = start + int(lengths.sum())
    if end > len(data):
        raise BadAtlas("names: the bytes end early")
    try:
        return list(_names(bytes(data[start:end]), lengths)), end
    except UnicodeDecodeError:
        raise BadAtlas("atlas: names that are no UTF-8") from None


def _sections(
    data: memoryview, offset: int, maps: int, version: int
) -> tuple[EdgeEffects | None, EdgeSpreads | None]:
    """What stands behind the maps, and nothing behind that; raises BadAtlas."""
    if version < _WITH_SECTIONS:
        _check_end(data, offset)
        return None, None
    effects, offset = _section(data, offset)
    spreads, offset = _section(data, offset)
    _check_end(data, offset)
    return (
        EdgeEffects.read(effects, _texts) if len(effects) else None,
        EdgeSpreads(bytes(spreads), maps) if len(spreads) else None,
    )


def _section(data: memoryview, offset: int) -> tuple[memoryview, int]:
    size, start = read_column(data, offset, 1, "<u8")
    content, end = read_column(data, start, int(size[0]), "u1")
    return content.data, end


def _check_end(data: memoryview, offset: int) -> None:
    if offset != len(data):
        raise BadAtlas(f"atlas: ends at byte {offset}, there are {len(data)}")
