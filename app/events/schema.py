"""The events of the contract as strict types, and the rules of their names and features.

The types are also the source of the JSON schema in /docs.
"""

import sys
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from app.storage.blocks import LARGEST_WEIGHT
from app.strict_json import ValidationError, all_fit, fits
from calibrators.arms import ARMS
from calibrators.bins.model_versions import VERSION_RULE, is_version
from calibrators.fields.columns import LONGEST_VALUE
from calibrators.fields.sums import SEPARATOR

_TIME = "RFC 3339 with a time zone, or epoch seconds"

Score = Annotated[float, Meta(ge=0, le=1, description="A probability in [0, 1].")]
Outcome = Annotated[float, Meta(ge=0, le=1, description="0 or 1, or an expectation in between.")]
Time = Annotated[datetime, Meta(tz=True, description=_TIME)] | float
Money = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Price = Annotated[float, Meta(ge=0, le=LARGEST_WEIGHT)]
Arm = Literal["champion", "challenger", "raw"]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="Seconds, a count, ...")]
Feature = float | str
Scores = Annotated[dict[str, Score], Meta(description="The upstream model's score by target.")]


class _Event(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, gc=False):
    """What all events share: strict, immutable, distinguished by `type`."""


class _WithTerms(_Event, frozen=True, kw_only=True):
    """What counts in the bins of an immediate target, for whom and for how much."""

    unit: Annotated[str, Meta(description="The user or the request, 1 to 256 bytes.")] | None = None
    arm: Annotated[Arm, Meta(description="What the answer to this unit said.")] | None = None
    bid: Annotated[Price, Meta(description="What a positive is paid for.")] | None = None
    cost: Annotated[Price, Meta(description="What the event itself was paid for.")] | None = None
    value: Annotated[Price, Meta(description="What it was worth to the advertiser.")] | None = None
    fields: Annotated[dict[str, str], Meta(description="Values of declared fields.")] | None = None
    model_version: Annotated[str, Meta(description="Of the model of the score.")] | None = None


class Impression(_WithTerms, tag="impression", frozen=True):
    """An ad was shown; a trial of the target `click`."""

    campaign: str
    occurred_at: Time
    scores: Scores
    id: Annotated[str, Meta(description="Makes a repeat of this event a duplicate.")] | None = None


class Click(_WithTerms, tag="click", frozen=True):
    """An impression was clicked.

    With a score for `click` it is counted in its impression's hour, in the cell of that score. With
    a score for a delayed target it gathers behaviours, and waits for its conversion.
    """

    click_id: Annotated[str, Meta(description="Makes a repeat of this event a duplicate.")]
    campaign: str
    occurred_at: Time
    impression_at: Time
    scores: Scores
    features: dict[str, Feature] | None = None


class Behaviour(_Event, tag="behaviour", frozen=True):
    """What somebody did after a click; a repeat of the same name and time is a duplicate."""

    click_id: str
    occurred_at: Time
    name: str
    value: Amount


class Conversion(_Event, tag="conversion", frozen=True):
    """A click converted; without `target`, for the first delayed target."""

    click_id: str
    occurred_at: Time
    target: str | None = None
    value: Money | None = None


class TargetOutcome(_WithTerms, tag="outcome", frozen=True):
    """A score and what came of it, for platforms that join the two upstream; of a product the
    scores of its factors, and whether all of them came."""

    campaign: str
    target: str
    occurred_at: Time
    outcome: Outcome
    score: Score | UnsetType = UNSET
    scores: Annotated[dict[str, Score], Meta(description="Of a product.")] | UnsetType = UNSET


Event = Impression | Click | Behaviour | Conversion | TargetOutcome

TYPE_NAMES: Final[dict[type, str]] = {
    Impression: "impression",
    Click: "click",
    Behaviour: "behaviour",
    Conversion: "conversion",
    TargetOutcome: "outcome",
}

_SCORE_RULE = "must be a number in [0, 1]"
_TEXT_RULE = "must be a string"
_TIME_RULE = f"must be a time: {_TIME}"
_PRICE_RULE = f"must be a number from 0 to {LARGEST_WEIGHT:.0f}"
_VALUE_RULE = "must be a finite number of at least 0; of an event with a score at most 1000000"

RULES: Final = {
    "type": "must be impression, click, behaviour, conversion or outcome",
    "campaign": _TEXT_RULE,
    "id": _TEXT_RULE,
    "click_id": _TEXT_RULE,
    "name": _TEXT_RULE,
    "target": _TEXT_RULE,
    "occurred_at": _TIME_RULE,
    "impression_at": _TIME_RULE,
    "scores": "must be an object of target names and scores",
    "scores[]": _SCORE_RULE,
    "score": _SCORE_RULE,
    "outcome": _SCORE_RULE,
    "unit": _TEXT_RULE,
    "arm": f"must be {', '.join(ARMS[:-1])} or {ARMS[-1]}",
    "bid": _PRICE_RULE,
    "cost": _PRICE_RULE,
    "value": _VALUE_RULE,
    "fields": "must be an object of declared fields and strings",
    "fields[]": _TEXT_RULE,
    "model_version": _TEXT_RULE,
    "features": "must be an object of names, and numbers or strings",
    "features[]": "must be a number or a string",
}


def check_campaign(field: str, campaign: str, longest: int) -> None:
    """ValidationError unless the campaign has 1 to `longest` bytes of UTF-8."""
    if not campaign or not fits(campaign, longest):
        raise ValidationError(field, f"must have 1 to {longest} bytes of UTF-8", campaign)


def check_each(field: str, names: Collection[str], longest: int) -> None:
    """The same of many campaigns, or units; `field` has `{}` for their place."""
    if not all_fit(names, longest):
        for place, name in enumerate(names):
            check_campaign(field.format(place), name, longest)


def check_version(field: str, version: str) -> None:
    """ValidationError unless a version of the model may have this name."""
    if not is_version(version):
        raise ValidationError(field, VERSION_RULE, version)


VALUE_OF_FIELD: Final = f"must have 1 to {LONGEST_VALUE} bytes of UTF-8, none of them U+001F"


def check_fields(
    fields: Mapping[str, str], declared: Collection[str], where: str = "fields"
) -> None:
    """ValidationError unless all names are declared, and all values within the limits."""
    for name, value in fields.items():
        if name not in declared:
            raise ValidationError(f"{where}.{name}", unknown_field(declared))
        if not are_field_values((value,)):
            raise ValidationError(f"{where}.{name}", VALUE_OF_FIELD, value)


def unknown_field(declared: Collection[str]) -> str:
    """The rule that a field breaks which nobody has declared."""
    known = f"declared are {', '.join(declared)}" if declared else "none is declared"
    return f"unknown field; {known}"


def are_field_values(values: Collection[str]) -> bool:
    """Whether all of them have 1 to 256 bytes, and none the separator of pairs; true of none."""
    return all_fit(values, LONGEST_VALUE) and SEPARATOR not in "".join(values)


MOST_FEATURES: Final = 64
LONGEST_NAME: Final = 64
LONGEST_TEXT: Final = 256
LONGEST_UNIT: Final = 256
"""Bytes of a unit, in events and in requests for probabilities."""


def check_features(features: Mapping[str, Feature]) -> None:
    """ValidationError unless all names, values and their number are within the limits."""
    if len(features) > MOST_FEATURES:
        rule = f"a click has at most {MOST_FEATURES} features"
        raise ValidationError("features", rule, dict(features))
    for name, value in features.items():
        if not 0 < len(name) <= LONGEST_NAME:
            rule = f"the name of a feature must have 1 to {LONGEST_NAME} characters"
            raise ValidationError("features", rule, name)
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            rule = f"must have at most {LONGEST_TEXT} characters"
            raise ValidationError(f"features.{name}", rule, value)


class TooManyEvents(ValueError):
    """The request holds more events than the `most` that one request may."""

    def __init__(self, number: int | str, most: int) -> None:
        super().__init__(f"events = {number}: one request takes at most {most}")
        self.most = most
