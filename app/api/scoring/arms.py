"""Which maps serve the scores of which unit: the champion's, the challenger's, or none.

Scores that came with units are cut by arm, looked up part by part, and put together again at their
places. Those without units never come here.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from app.api.snapshot import Snapshot
from app.columns.campaigns import Ids
from app.columns.scores import Scores, ScoresRequest
from app.events.schema import LONGEST_UNIT, are_campaigns, check_campaign
from app.strict_json import ValidationError
from calibrators import Atlas
from calibrators.arms import (
    ARMS,
    CHALLENGER,
    CHAMPION,
    RAW,
    buckets_of,
    unit_numbers,
)

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


class CalibratedScores(NamedTuple):
    """Probabilities of n scores of a target, and the atlas and its rows, n too, behind them."""

    target: str
    probabilities: Sequence[float] | NDArray[np.float64]
    atlas: Atlas
    rows: list[int] | NDArray[np.int64]
    arm: str = ""

    @property
    def levels(self) -> list[str]:
        """The level of map behind each probability; the word "raw" where no map is."""
        if self.arm == RAW:
            return [RAW] * len(self.rows)
        return self.atlas.levels(np.asarray(self.rows))

    @property
    def arms(self) -> list[str]:
        """The arm of each probability."""
        return [self.arm] * len(self.rows)


def units_of(unit: str | UnsetType, units: list[str] | UnsetType, scores: int) -> Sequence[str]:
    """The units of so many scores: none, one for all, or one each; raises ValidationError."""
    if unit is not UNSET and units is not UNSET:
        raise ValidationError("unit", "stands beside units; give one of the two")
    if unit is not UNSET:
        check_units([unit], "unit")
        return [unit]
    if units is UNSET:
        return ()
    if len(units) != scores:
        found = f"has {len(units)} items beside {scores} scores"
        raise ValidationError("units", f"{found}; the columns must be equally long")
    check_units(units, "units[{}]")
    return units


def units_of_rows(units: Sequence[str | UnsetType]) -> Sequence[str]:
    """The same of rows: all have a unit, or none has."""
    given = [unit for unit in units if unit is not UNSET]
    if given and len(given) < len(units):
        rule = "is required, because other rows have one"
        raise ValidationError(f"rows[{units.index(UNSET)}].unit", rule)
    check_units(given, "rows[{}].unit")
    return given


def check_units(units: Sequence[str], field: str) -> None:
    """ValidationError unless each has 1 to 256 bytes; `field` has `{}` for their place."""
    if not are_campaigns(units, LONGEST_UNIT):
        for place, unit in enumerate(units):
            check_campaign(field.format(place), unit, LONGEST_UNIT)


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
        )


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
    names: list[str]
    numbers: Ids
    scores: Scores


def columns_by_arm(request: ScoresRequest, snapshot: Snapshot) -> list[ColumnsOfArm]:
    """The same of a request in columns; without units all are of no arm."""
    target, names, split = request.target, request.names, snapshot.splits.get(request.target)
    if request.units is None or split is None:
        arm = "" if request.units is None else CHAMPION
        return [ColumnsOfArm(target, arm, _NOWHERE, names, request.numbers, request.scores)]
    each = len(request.numbers) > 1
    return [
        ColumnsOfArm(
            target,
            arm,
            places,
            names,
            request.numbers[places] if each else request.numbers,
            request.scores[places],
        )
        for arm, places in _places(split.arms[buckets_of(request.units)], len(request.scores))
    ]
