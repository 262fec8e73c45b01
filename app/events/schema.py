"""The events of the contract as strict types, the rules of their names and features, and how the
bytes of a request become events and the rejections of what is none.

The types are also the source of the JSON schema in /docs.
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from app.strict_json import MalformedJson, ValidationError, convert, loads

_TIME = "RFC 3339 with a time zone, or epoch seconds"

Score = Annotated[float, Meta(ge=0, le=1, description="A probability in [0, 1].")]
Outcome = Annotated[float, Meta(ge=0, le=1, description="0 or 1, or an expectation in between.")]
Time = Annotated[datetime, Meta(tz=True, description=_TIME)] | float
Money = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="Seconds, a count, ...")]
Feature = float | str
Scores = Annotated[dict[str, Score], Meta(description="The upstream model's score by target.")]


class _Event(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, gc=False):
    """What all events share: strict, immutable, distinguished by `type`."""


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

_SCORE_RULE = "must be a number in [0, 1]"
_TEXT_RULE = "must be a string"
_TIME_RULE = f"must be a time: {_TIME}"
_MONEY_RULE = "must be a finite number of at least 0"

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
    "bid": _MONEY_RULE,
    "cost": _MONEY_RULE,
    "value": _MONEY_RULE,
    "features": "must be an object of names, and numbers or strings",
    "features[]": "must be a number or a string",
}


# Short names need no encoding to be checked.
_MOST_BYTES_OF_A_CHARACTER: Final = 4


def check_campaign(field: str, campaign: str, longest: int) -> None:
    """ValidationError unless the campaign has 1 to `longest` bytes of UTF-8."""
    if not campaign or not _fits(campaign, longest):
        raise ValidationError(field, f"must have 1 to {longest} bytes of UTF-8", campaign)


def are_campaigns(names: Collection[str], longest: int) -> bool:
    """Whether all of them have 1 to `longest` bytes; true of none at all."""
    lengths = set(map(len, names))
    if 0 in lengths:
        return False
    if _MOST_BYTES_OF_A_CHARACTER * max(lengths, default=0) <= longest:
        return True
    return all(_fits(name, longest) for name in names)


def _fits(name: str, longest: int) -> bool:
    return _MOST_BYTES_OF_A_CHARACTER * len(name) <= longest or len(name.encode()) <= longest


MOST_FEATURES: Final = 64
LONGEST_NAME: Final = 64
LONGEST_TEXT: Final = 256


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


INVALID: Final = "invalid"
UNKNOWN_TYPE: Final = "unknown"

_ARRAY: Final = msgspec.json.Decoder(list[Event])
_LINES: Final = msgspec.json.Decoder(Event)


class TooManyEvents(ValueError):
    """The request holds more events than the `most` that one request may."""

    def __init__(self, number: int, most: int) -> None:
        super().__init__(f"events = {number}: one request takes at most {most}")
        self.most = most


@dataclass(frozen=True, slots=True)
class EventRejection:
    """One event that is not stored; `reason` is invalid, late, future or full."""

    index: int
    error: str
    event_type: str = UNKNOWN_TYPE
    reason: str = INVALID


@dataclass(frozen=True, slots=True)
class Parsed:
    """Events with their places in the request, and the rejections of the other places."""

    indices: Sequence[int]
    events: Sequence[Event]
    rejections: list[EventRejection] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.events) + len(self.rejections)


def is_array(body: bytes) -> bool:
    """Whether the body looks like a JSON array, and not like one JSON object per line."""
    return body.lstrip()[:1] == b"["


def parse_all(body: bytes, most: int, *, lines: bool) -> Parsed | None:
    """All events of a JSON array or of JSON lines in one pass; None if any of them is broken.

    Raises TooManyEvents if there are more than `most`.
    """
    try:
        events = _LINES.decode_lines(body) if lines else _ARRAY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    _check_number(len(events), most)
    return Parsed(range(len(events)), events)


def parse_each(body: bytes, most: int, *, lines: bool) -> Parsed:
    """Event by event, so that the good survive the broken.

    Raises MalformedJson if an array is no JSON, ValidationError if it is no array, TooManyEvents
    before more than `most` are read.
    """
    if lines:
        return _sorted_out([line for line in body.splitlines() if line.strip()], loads, most)
    raw = loads(body)
    if not isinstance(raw, list):
        raise ValidationError("events", "must be a JSON array or one JSON object per line", raw)
    return _sorted_out(raw, _as_it_is, most)


def _check_number(number: int, most: int) -> None:
    if number > most:
        raise TooManyEvents(number, most)


def _sorted_out(items: Sequence[Any], plain: Callable[[Any], object], most: int) -> Parsed:
    _check_number(len(items), most)
    indices: list[int] = []
    events: list[Event] = []
    rejections: list[EventRejection] = []
    for index, item in enumerate(items):
        raw = None
        try:
            raw = plain(item)
            events.append(_of_object(raw))
            indices.append(index)
        except (ValidationError, MalformedJson) as error:
            rejections.append(EventRejection(index, str(error), _type_of(raw)))
    return Parsed(indices, events, rejections)


def _as_it_is(raw: object) -> object:
    return raw


def _of_object(raw: object) -> Event:
    event: Event = convert(raw, Event, RULES, whole="event")
    return event


def _type_of(item: object) -> str:
    name = item.get("type") if isinstance(item, dict) else None
    return str(name) if name in TYPE_NAMES.values() else UNKNOWN_TYPE
