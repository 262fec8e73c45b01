"""How the bytes of a request become events, a piece at a time: whoever reads a large body on an
event loop lets others have a turn between any two pieces.

A JSON array is cut where an object seems to end. A cut is right if the piece before it is an array
by itself: then it is in no string and in no deeper array, because those would not be closed. A
piece that is none is taken together with what follows, up to the length that an event may have.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any, Final, NamedTuple

import msgspec

from app.events.rejections import UNKNOWN_TYPE, EventRejection, Rejections
from app.events.schema import RULES, TYPE_NAMES, Event, TooManyEvents
from app.strict_json import MalformedJson, ValidationError, convert, loads

PIECE_BYTES: Final = 16 * 1024
"""A hundred events or so: a tenth of a millisecond where all are in order."""
MOST_EVENT_BYTES: Final = 128 * 1024
_LONGEST_PIECE: Final = PIECE_BYTES + MOST_EVENT_BYTES
_TOO_LONG: Final = f"not JSON, or an event of more than {MOST_EVENT_BYTES} bytes"
_BROKEN_LINES: Final = 512
"""Of a piece at once: it may have thousands that are short."""
SLICE_SECONDS: Final = 0.001
"""Work on broken events is laid down for others after so long."""

_EVENT: Final = msgspec.json.Decoder(Event)
_EVENTS: Final = msgspec.json.Decoder(list[Event])
_OBJECTS: Final = msgspec.json.Decoder(msgspec.Raw)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ARRAY: Final = re.compile(rb"\s*\[")
_END_OF_OBJECT: Final = re.compile(rb"\}\s*,\s*\{")
_NO_END_OF_LINE: Final = re.compile(rb"\}\s*\{|\r.")
"""A carriage return amid a line may end an event, or stand in one."""


@dataclass(slots=True)
class Parsed:
    """Events with their places in the request."""

    indices: Sequence[int] = field(default_factory=list)
    events: Sequence[Event] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.events)

    def with_all(self, other: "Parsed") -> "Parsed":
        """These events and then those of the other."""
        if not len(self):
            return other
        return Parsed([*self.indices, *other.indices], [*self.events, *other.events])


def is_array(body: bytes) -> bool:
    """Whether the body looks like a JSON array, and not like one JSON object per line."""
    return _ARRAY.match(body) is not None


def read_few(body: bytes, most: int) -> Sequence[Event] | None:
    """The events of a small JSON array; None if it is none, or not all are in order, which
    `read_events` tells apart."""
    try:
        events = _EVENTS.decode(body) if len(body) <= PIECE_BYTES else None
    except _BROKEN:
        return None
    return events if events and len(events) <= most else None


def read_events(body: bytes, most: int, rejections: Rejections, *, lines: bool) -> Iterator[Parsed]:
    """The good events of a JSON array or of JSON lines, a piece at a time; the broken are added to
    the rejections.

    Raises MalformedJson if an array is no JSON, ValidationError if it is no array or if there is
    nothing at all, TooManyEvents as soon as `most` are exceeded.
    """
    number = 0
    for piece in _lines(body) if lines else _arrays(body):
        if number + len(piece.items) > most:
            raise TooManyEvents(f"over {most}", most)
        if piece.are_events:
            yield Parsed(range(number, number + len(piece.items)), piece.items)
        else:
            yield from _sorted_out(piece, number, rejections)
        number += len(piece.items)
    if not number:
        raise ValidationError("events", "must be at least one")


class _Piece(NamedTuple):
    """Events, or JSON texts or plain objects of which some are no events."""

    items: Sequence[Any]
    array: bytes | None = None
    """The whole array, if they are items of one; None for lines."""
    are_events: bool = False


def _lines(body: bytes) -> Iterator[_Piece]:
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + PIECE_BYTES) + 1 or len(body)
        text, start = body[start:end], end
        try:
            events = _EVENT.decode_lines(text) if len(text) <= _LONGEST_PIECE else None
        except _BROKEN:
            events = None
        if events is not None:
            yield _Piece(events, are_events=True)
        else:
            held = [line for line in text.split(b"\n") if line.strip()]
            for first in range(0, max(len(held), 1), _BROKEN_LINES):
                some = held[first : first + _BROKEN_LINES]
                yield _Piece([*chain.from_iterable(map(_objects, some))])


def _objects(line: bytes) -> Sequence[bytes | msgspec.Raw]:
    """What stands in a line: one text, but where an end of line is missing between objects each of
    these, as where all lines are in order. A broken one may end with a carriage return."""
    try:
        if len(line) <= MOST_EVENT_BYTES and _NO_END_OF_LINE.search(line):
            return _OBJECTS.decode_lines(line)
    except _BROKEN:
        pass
    return [part for part in line.splitlines() if part.strip()]


def _arrays(body: bytes) -> Iterator[_Piece]:
    if not is_array(body):
        raise ValidationError("events", "must be a JSON array or one JSON object per line")
    start, opening, end = 0, b"", -1
    while end < len(body):
        piece, end = _next_array(body, start, opening)
        if opening and not piece.items:
            raise MalformedJson(f"not JSON: nothing stands between comma and end at byte {end}")
        yield piece
        start, opening = end + 1, b"["


def _next_array(body: bytes, start: int, opening: bytes) -> tuple[_Piece, int]:
    """The array from `start` on to a comma, or to the end of the body, and where that is."""
    size = PIECE_BYTES
    while True:
        end = _cut(body, start + size)
        text = opening + body[start:end] + (b"]" if end < len(body) else b"")
        try:
            return _array(text), end
        except MalformedJson:
            if end == len(body) or end - start > MOST_EVENT_BYTES:
                raise
        size *= 2


def _cut(body: bytes, start: int) -> int:
    """The next comma that may stand between two events; the end of the body if there is none."""
    found = _END_OF_OBJECT.search(body, start, start + PIECE_BYTES)
    comma = body.find(b",", found.start() if found else start)
    return comma if comma >= 0 else len(body)


def _array(text: bytes) -> _Piece:
    """Raises MalformedJson if the text is no array."""
    try:
        if len(text) <= _LONGEST_PIECE:
            return _Piece(_EVENTS.decode(text), are_events=True)
    except _BROKEN:
        pass
    try:
        items = _ITEMS.decode(text[:_LONGEST_PIECE])
        if len(text) <= _LONGEST_PIECE:
            return _Piece(items, text)
    except RecursionError:
        raise MalformedJson("the JSON is nested too deeply") from None
    except _BROKEN:
        pass
    if len(text) > 2 * PIECE_BYTES:
        raise MalformedJson(_TOO_LONG)
    # For the words of the error, and for NaN, which makes only its own event a broken one.
    return _Piece(loads(text), text)


def _sorted_out(piece: _Piece, first: int, rejections: Rejections) -> Iterator[Parsed]:
    """Event by event, so that the good survive the broken."""
    indices: list[int] = []
    events: list[Event] = []
    until = perf_counter() + SLICE_SECONDS
    for index, item in enumerate(piece.items, start=first):
        event = _event(item, index, rejections, piece.array)
        if event is not None:
            indices.append(index)
            events.append(event)
        if perf_counter() > until:
            yield Parsed(indices, events)
            indices, events, until = [], [], perf_counter() + SLICE_SECONDS
    yield Parsed(indices, events)


def _event(item: Any, index: int, rejections: Rejections, array: bytes | None) -> Event | None:
    """The event of a JSON text or a plain object; None if it is none, which is counted.

    Raises MalformedJson if the text is no JSON and one of an array.
    """
    raw: Any = None
    try:
        if isinstance(item, bytes | msgspec.Raw):
            text = bytes(item)
            if not (text.lstrip()[:1] == b"{" or rejections.wants(index)):
                rejections.count(UNKNOWN_TYPE)
                return None
            event, raw = _read(text)
            if event is not None:
                return event
        else:
            raw = item
        return _converted(raw, explained=rejections.wants(index))
    except MalformedJson as error:
        if array is not None:
            # Read from its beginning, for the place.
            loads(array)
            raise
        rejections.add(EventRejection(index, str(error)))
    except ValidationError as error:
        rejections.add(EventRejection(index, str(error), _type_of(raw)))
    except msgspec.ValidationError:
        rejections.count(_type_of(raw))
    return None


def _read(text: bytes) -> tuple[Event | None, Any]:
    """The event, or else a plain object, which the slow reader takes for an event or not."""
    if len(text) > MOST_EVENT_BYTES:
        rule = f"has {len(text)} bytes; must have at most {MOST_EVENT_BYTES}"
        raise ValidationError("event", rule)
    try:
        return _EVENT.decode(text), None
    except _BROKEN:
        return None, loads(text)


def _converted(raw: Any, *, explained: bool) -> Event:
    event: Event = convert(raw, Event, RULES, "event") if explained else msgspec.convert(raw, Event)
    return event


def _type_of(item: object) -> str:
    name = item.get("type") if isinstance(item, dict) else None
    return str(name) if name in TYPE_NAMES.values() else UNKNOWN_TYPE
