"""What the routes of versions and experiments answer, for the OpenAPI document."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.events.schema import Score

Number = Annotated[int, Meta(ge=0)]


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
    campaigns: list[str] | None
    frozen: bool
    dry_run: bool
    changed: bool
    version: str


class Frozen(Struct):
    """What was changed, and all whose maps no refit replaces: targets, and `target:campaign`."""

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
