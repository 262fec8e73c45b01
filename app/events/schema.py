"""The events of the contract, as strict types; also the source of their JSON schema in /docs."""

import sys
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from app.strict_json import Rule

_TIME = "RFC 3339 with a time zone, or epoch seconds"

Score = Annotated[float, Meta(ge=0, le=1, description="A probability in [0, 1].")]
Outcome = Annotated[float, Meta(ge=0, le=1, description="0 or 1, or an expectation in between.")]
Time = Annotated[datetime, Meta(tz=True, description=_TIME)] | float
Money = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="Seconds, a count, ...")]
Feature = float | str
Scores = Annotated[dict[str, Score], Meta(description="The upstream model's score by target.")]


class _Event(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, gc=False):
    """What all events share: strict, immutable, told apart by `type`."""


class Impression(_Event, tag="impression", frozen=True):
    """An ad was shown; a trial of the target `click`."""

    campaign: str
    occurred_at: Time
    scores: Scores
    id: Annotated[str, Meta(description="Makes a repeat of this event a duplicate.")] | None = None
    bid: Money | None = None
    cost: Money | None = None


class Click(_Event, tag="click", frozen=True):
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
    """A click converted; `target` may be left out where there is only one delayed target."""

    click_id: str
    occurred_at: Time
    target: str | None = None
    value: Money | None = None


class TargetOutcome(_Event, tag="outcome", frozen=True):
    """A score and what came of it, for platforms that join the two upstream."""

    campaign: str
    target: str
    occurred_at: Time
    score: Score
    outcome: Outcome


Event = Impression | Click | Behaviour | Conversion | TargetOutcome

TYPE_NAMES: Final[dict[type, str]] = {
    Impression: "impression",
    Click: "click",
    Behaviour: "behaviour",
    Conversion: "conversion",
    TargetOutcome: "outcome",
}

_SCORE_RULE = Rule("must be a number in [0, 1]", Score)
_TEXT_RULE = Rule("must be a string")
_TIME_RULE = Rule(f"must be a time: {_TIME}")
_MONEY_RULE = Rule("must be a finite number of at least 0")

RULES: Final = {
    "type": Rule("must be impression, click, behaviour, conversion or outcome"),
    "campaign": _TEXT_RULE,
    "id": _TEXT_RULE,
    "click_id": _TEXT_RULE,
    "name": _TEXT_RULE,
    "target": _TEXT_RULE,
    "occurred_at": _TIME_RULE,
    "impression_at": _TIME_RULE,
    "scores": Rule("must be an object of target names and scores"),
    "scores[]": _SCORE_RULE,
    "score": _SCORE_RULE,
    "outcome": _SCORE_RULE,
    "bid": _MONEY_RULE,
    "cost": _MONEY_RULE,
    "value": _MONEY_RULE,
    "features": Rule("must be an object of names, and numbers or strings"),
    "features[]": Rule("must be a number or a string", Feature),
}
