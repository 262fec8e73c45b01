"""What the routes of the cockpit answer, for the OpenAPI document."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.access.keys import Scope
from app.events.schema import Score

Number = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]
Level = Literal["campaign", "group", "target", "identity"]


class VersionList(Struct):
    """The versions kept, newest first."""

    serving: str
    calibrators: dict[str, str | None]
    versions: list[dict[str, Any]]
    rolled_back: dict[str, Any] | None
    held: dict[str, Any] | None
    frozen: dict[str, float]


class MovedMap(Struct):
    """The score at which the odds move most, and the probabilities there."""

    score: Score
    before: Score
    after: Score


class MovedCampaign(MovedMap):
    """The same of a campaign."""

    campaign: str


class TargetDifference(Struct):
    """How many campaigns move, and the shared map, which serves all others."""

    campaigns: Number
    moved: Number
    everybody_else: MovedMap
    largest: list[MovedCampaign]


class VersionDifference(Struct):
    """What would move if `version` served in place of `against`."""

    version: str
    against: str
    targets: dict[str, TargetDifference]


class RolledBack(Struct):
    """Which version serves; `changed` is false where its maps served already."""

    rolled_back_to: str
    targets: list[str]
    frozen: bool
    dry_run: bool
    changed: bool
    version: str


class Frozen(Struct):
    """The targets that were changed, and all whose maps no refit replaces."""

    changed: list[str]
    frozen: list[str]
    dry_run: bool


class ExperimentList(Struct):
    """The experiments of the version that serves, by target."""

    version: str
    experiments: dict[str, dict[str, Any]]


class ExperimentChanged(Struct):
    """The experiment of a target after a change, if it has one; `changed` is false where it was so
    already."""

    target: str
    experiment: dict[str, Any] | None
    changed: bool
    dry_run: bool
    version: str


class StoreStatus(Struct):
    """Whether Redis answers and takes writes, and how long the oldest whole hour waits there."""

    up: bool
    takes_writes: bool
    oldest_unfolded_seconds: float | None


class ServiceStatus(Struct):
    """What is amiss, who works, and what the last refit reported of each target."""

    now: float
    status: Literal["ready", "degraded", "starting", "not-ready", "draining"]
    reasons: list[str]
    version: str
    before: str | None
    as_of: float | None
    published_at: float | None
    refit_seconds: float | None
    scopes: list[Scope]
    worker: dict[str, Any] | None
    store: StoreStatus
    calibrators: list[str]
    targets: dict[str, dict[str, Any]]


class ReliabilityPoint(Struct):
    """The mean of a bin, and the 95 % interval of its observed rate."""

    predicted: Score
    observed: Score
    lower: Score
    upper: Score
    n: Amount


class EvaluatedHour(Struct):
    """Impressions and positives of an hour that began `at`, and what was predicted of them."""

    at: float
    n: Amount
    positives: Amount
    raw: Amount
    calibrated: Amount


class MapPoints(Struct):
    """The map of a version."""

    version: str
    level: Level
    knots: list[Score]
    values: list[Score]


class Reliability(Struct):
    """A campaign before and after calibration, and its map."""

    target: str
    campaign: str
    raw: list[ReliabilityPoint]
    calibrated: list[ReliabilityPoint]
    hours: list[EvaluatedHour]
    map: MapPoints
    map_before: MapPoints | None
