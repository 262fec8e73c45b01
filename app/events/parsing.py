"""From a request's bytes to events and the reasons of those that are none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from app.events.schema import RULES, TYPE_NAMES, Event
from app.strict_json import BrokenRule, MalformedJson, convert, loads

INVALID: Final = "invalid"
UNKNOWN_TYPE: Final = "unknown"

_ARRAY: Final = msgspec.json.Decoder(list[Event])
_LINES: Final = msgspec.json.Decoder(Event)


class TooManyEvents(ValueError):
    """The request holds more events than one request may."""


@dataclass(frozen=True, slots=True)
class Rejection:
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
    rejections: list[Rejection] = field(default_factory=list)

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

    Raises MalformedJson if an array is no JSON, BrokenRule if it is no array, and TooManyEvents
    before more than `most` are read.
    """
    if lines:
        return _sorted_out([line for line in body.splitlines() if line.strip()], loads, most)
    raw = loads(body)
    if not isinstance(raw, list):
        raise BrokenRule("events", "must be a JSON array or one JSON object per line", raw)
    return _sorted_out(raw, _as_it_is, most)


def _check_number(number: int, most: int) -> None:
    if number > most:
        raise TooManyEvents(f"events = {number}: one request takes at most {most}")


def _sorted_out(items: Sequence[Any], plain: Callable[[Any], object], most: int) -> Parsed:
    _check_number(len(items), most)
    indices: list[int] = []
    events: list[Event] = []
    rejections: list[Rejection] = []
    for index, item in enumerate(items):
        raw = None
        try:
            raw = plain(item)
            events.append(_of_object(raw))
            indices.append(index)
        except (BrokenRule, MalformedJson) as error:
            rejections.append(Rejection(index, str(error), _type_of(raw)))
    return Parsed(indices, events, rejections)


def _as_it_is(raw: object) -> object:
    return raw


def _of_object(raw: object) -> Event:
    event: Event = convert(raw, Event, RULES, whole="event")
    return event


def _type_of(item: object) -> str:
    name = item.get("type") if isinstance(item, dict) else None
    return str(name) if name in TYPE_NAMES.values() else UNKNOWN_TYPE
