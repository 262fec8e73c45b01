"""Which maps serve the scores of which unit: the champion's, the challenger's, or none.

Scores that came with units are cut by arm, looked up part by part, and put together again at their
places. Those without units never come here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from app.api.authorization import Caller
from app.api.scoring.requests import CalibrateRequest
from app.api.snapshot import Snapshot
from app.columns.campaigns import Ids
from app.columns.layout import INTERNED, Header
from app.columns.scores import LEVEL_NUMBERS, Scores, ScoresRequest
from app.events.schema import LONGEST_UNIT, check_each
from app.strict_json import ValidationError
from calibrators import Atlas
from calibrators.arms import ARMS, CHALLENGER, CHAMPION, RAW, buckets_of, unit_numbers
from calibrators.fields.columns import Given, chosen
from calibrators.fields.sums import FieldColumn
from calibrators.maps.atlas import CAMPAIGN, GROUP

_IDENTITY: Final = Atlas.empty()
Places = NDArray[np.int64]
_NOWHERE: Final = np.empty(0, np.int64)


class TargetScores(NamedTuple):
    """Scores of one target; `campaigns` has a name for each, or one for all of them."""

    target: str
    campaigns: Sequence[str]
    scores: Sequence[float]
    places: Sequence[int] = ()
    """Where each score stands in the request, if not all of them are here, in that order."""
    units: Sequence[str] = ()
    """One for each score, or one for all, where arms are asked for."""
    arm: str = ""
    """Whose maps serve them, where arms are asked for."""
    factors: Mapping[str, Sequence[float]] = MappingProxyType({})
    """Of a product, which has no scores of its own: those of each factor."""
    values: Sequence[float | None] | None = None
    fields: Mapping[str, Given] = MappingProxyType({})
    """By field the value of each score, or the one of all."""


class CalibratedScores(NamedTuple):
    """Probabilities of n scores of a target, and the atlas and its rows, n too, behind them."""

    target: str
    probabilities: Sequence[float] | NDArray[np.float64]
    atlas: Atlas
    rows: list[int] | NDArray[np.int64]
    scores: Sequence[float] | Scores
    arm: str = ""
    campaigns: Sequence[str] | str = ""
    fields: Mapping[str, Given] = MappingProxyType({})
    """With the campaigns what the effects of fields were applied to, where the atlas has any."""

    @property
    def levels(self) -> list[str]:
        """The level of map behind each probability; the word "raw" where no map is."""
        if self.arm == RAW:
            return [RAW] * len(self.rows)
        return self.atlas.levels(np.asarray(self.rows))

    @property
    def model_versions(self) -> list[str | None]:
        """The version of the model whose maps each is by, None by those of none."""
        return self.atlas.versions(np.asarray(self.rows))

    @property
    def arms(self) -> list[str]:
        """The arm of each probability."""
        return [self.arm] * len(self.rows)

    @property
    def effects(self) -> list[dict[str, float]]:
        """By term, in log-odds, what the fields of each score did to it."""
        if self.atlas.effects is None:
            return [{}] * len(self.rows)
        return self.atlas.effects.explained(self.campaigns, self.fields, len(self.rows))

    @property
    def arm_numbers(self) -> NDArray[np.uint8]:
        """The number of the arm of each."""
        return np.full(len(self.rows), ARMS.index(self.arm), np.uint8)

    @property
    def level_numbers(self) -> NDArray[np.uint8]:
        """The number of the level behind each."""
        if self.arm == RAW:
            return np.full(len(self.rows), LEVEL_NUMBERS[RAW], np.uint8)
        shared, rows = LEVEL_NUMBERS[self.atlas.shared_level], np.asarray(self.rows)
        levels = np.where(rows, LEVEL_NUMBERS[CAMPAIGN], shared).astype(np.uint8)
        levels[rows > len(self.atlas)] = LEVEL_NUMBERS[GROUP]
        first, behind = self.atlas.rows_of_new
        levels[(rows >= first) & (rows < behind)] = shared
        return levels


def units_of(unit: str | UnsetType, units: list[str] | UnsetType, scores: int) -> Sequence[str]:
    """The units of so many scores: none, one for all, or one each; raises ValidationError."""
    if unit is not UNSET and units is not UNSET:
        raise ValidationError("unit", "stands beside units; give one of the two")
    if unit is not UNSET:
        check_each("unit", [unit], LONGEST_UNIT)
        return [unit]
    if units is UNSET:
        return ()
    if len(units) != scores:
        found = f"has {len(units)} items beside {scores} scores"
        raise ValidationError("units", f"{found}; the columns must be equally long")
    check_each("units[{}]", units, LONGEST_UNIT)
    return units


def units_of_rows(units: Sequence[str | UnsetType]) -> Sequence[str]:
    """The same of rows: all have a unit, or none has."""
    given = [unit for unit in units if unit is not UNSET]
    if given and len(given) < len(units):
        rule = "is required, because other rows have one"
        raise ValidationError(f"rows[{units.index(UNSET)}].unit", rule)
    check_each("rows[{}].unit", given, LONGEST_UNIT)
    return given


def by_arm(given: TargetScores, snapshot: Snapshot) -> Iterator[TargetScores]:
    """The scores of each arm that has any."""
    split = snapshot.splits.get(given.target)
    if split is None:
        yield given._replace(arm=CHAMPION)
        return
    numbers = unit_numbers(given.units)
    for arm, found in _places(split.arms[buckets_of(numbers)], len(given.scores)):
        places = found.tolist()
        each = len(given.campaigns) > 1
        yield given._replace(
            campaigns=[given.campaigns[i] for i in places] if each else given.campaigns,
            scores=[given.scores[i] for i in places],
            places=[given.places[i] for i in places] if given.places else places,
            arm=arm,
            fields=_chosen(given.fields, places),
        )


def _chosen(fields: Mapping[str, Given], places: list[int]) -> Mapping[str, Given]:
    """Of the scores at these places."""
    return {
        name: given if isinstance(given, str) else [given[i] for i in places]
        for name, given in fields.items()
    }


def _places(arms: NDArray[np.uint8], number: int) -> Iterator[tuple[str, Places]]:
    """Which of so many scores each arm has, of those that have any."""
    of_each = np.broadcast_to(arms, number)
    for place, arm in enumerate(ARMS):
        found = np.flatnonzero(of_each == place)
        if len(found):
            yield arm, found


def atlas_of(arm: str, target: str, snapshot: Snapshot) -> Atlas:
    """What serves an arm: the identity those that are served raw, the champion who has none."""
    if arm == RAW:
        return _IDENTITY
    return (snapshot.challengers if arm == CHALLENGER else snapshot.atlases)[target]


class ColumnsOfArm(NamedTuple):
    """Those scores of a request in columns that one arm serves; see `ScoresRequest`."""

    target: str
    arm: str
    places: Places
    names: Sequence[str]
    numbers: Ids
    scores: Scores
    fields: Mapping[str, FieldColumn] | None = None


def columns_by_arm(request: ScoresRequest, snapshot: Snapshot) -> list[ColumnsOfArm]:
    """The same of a request in columns; without units all are of no arm."""
    target, names, split = request.target, request.names, snapshot.splits.get(request.target)
    if request.units is None or split is None:
        arm = "" if request.units is None else CHAMPION
        given = (names, request.numbers, request.scores, request.fields)
        return [ColumnsOfArm(target, arm, _NOWHERE, *given)]
    each = len(request.numbers) > 1
    return [
        ColumnsOfArm(
            target,
            arm,
            places,
            names,
            request.numbers[places] if each else request.numbers,
            request.scores[places],
            chosen(request.fields or {}, places),
        )
        for arm, places in _places(split.arms[buckets_of(request.units)], len(request.scores))
    ]


def named(request: ScoresRequest, snapshot: Snapshot) -> Sequence[str]:
    """The campaigns that a request in columns names; not id 0, which is whoever has no map."""
    if not request.header.flags & INTERNED:
        return request.names
    names, _ = snapshot.ids[request.target].names(request.header.dictionary, request.numbers)
    return [name for name in names if name]


def check_sees(given: Sequence[TargetScores], request: CalibrateRequest, caller: Caller) -> None:
    """Raises a 404 problem of a campaign that is not the caller's, by its place in the request."""
    name = "rows[{}].campaign" if request.campaigns is UNSET else "campaigns[{}]"
    name = name if request.campaign is UNSET else "campaign"
    for one in given:
        for at, campaign in enumerate(one.campaigns):
            caller.check_sees(name.format(one.places[at] if one.places else at), campaign)


def rows_of(given: ColumnsOfArm, header: Header, atlas: Atlas, snapshot: Snapshot) -> Places:
    """The rows of the scores in the atlas, n or one for all; raises as `CampaignIds.rows`."""
    if not header.flags & INTERNED:
        return atlas.rows(given.names)[given.numbers]
    ids = snapshot.ids[given.target]
    if atlas is snapshot.atlases[given.target]:
        return ids.rows(header.dictionary, given.numbers)
    # Ids are rows of the champion's atlas.
    names, places = ids.names(header.dictionary, given.numbers)
    return np.where([name == "" for name in names], 0, atlas.rows(names))[places]


def by_name(given: ColumnsOfArm, header: Header, atlas: Atlas, snapshot: Snapshot) -> ColumnsOfArm:
    """The same with names, where campaigns deviate in a field and an id may name one that has no
    map in this atlas."""
    if not header.flags & INTERNED or atlas.effects is None or not atlas.effects.tables[2]:
        return given
    ids = snapshot.ids[given.target]
    if header.dictionary == ids.dictionary and atlas is snapshot.atlases[given.target]:
        return given
    names, places = ids.names(header.dictionary, given.numbers)
    return given._replace(names=names, numbers=places.astype(np.uint32))


def merged(
    given: Sequence[Any], parts: Sequence[Any], column: Callable[[Any], Sequence[Any]]
) -> Any:
    """The column of several parts as one, each value at its place in the request; `given` has the
    places of each part."""
    if len(parts) == 1:
        return column(parts[0])
    found = [None] * sum(len(one.places) for one in given)
    for one, part in zip(given, parts, strict=True):
        for place, value in zip(one.places, column(part), strict=True):
            found[place] = value
    return found
