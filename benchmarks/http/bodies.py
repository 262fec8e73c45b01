"""Bodies of requests, as JSON and as binary columns: of calibrations, with their responses read,
and of events.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.core.traffic import campaign_names
from calibrators.samples import Floats

JSON, COLUMNS = "application/json", "application/vnd.sirocco.columns"
PATH = "/v1/calibrate"
TARGET = "click"
_HEADER = struct.Struct("<4sHBBIIIIQ")
_VERSION, _ASKED = 1, 1
_FLOAT32, _INTERNED = 1, 2


@dataclass(frozen=True)
class Ids:
    """The integers that stand for campaigns, and the dictionary that says so."""

    dictionary: int
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Ids":
        """As `GET /v1/atlas/{target}/ids` tells them."""
        numbers = {name: place + 1 for place, name in enumerate(answer["campaigns"])}
        return cls(int(answer["dictionary"], 16), numbers)


@dataclass(frozen=True)
class ScoresRequest:
    """Scores (n,) of as many campaigns."""

    campaigns: Sequence[str]
    scores: Floats
    ids: Ids


@dataclass(frozen=True)
class Form:
    """A way to ask, and to read the answer."""

    content_type: str
    body: Callable[[ScoresRequest], bytes]
    probabilities: Callable[[bytes], Floats]
    exact: bool = True
    """Whether scores and probabilities are doubles."""


def columns_of(question: ScoresRequest) -> dict[str, Any]:
    """As JSON has it."""
    campaigns, scores = list(question.campaigns), question.scores.tolist()
    return {"target": TARGET, "campaigns": campaigns, "scores": scores}


def _columns(question: ScoresRequest) -> bytes:
    return orjson.dumps(columns_of(question))


def _one_campaign(question: ScoresRequest) -> bytes:
    scores = question.scores.tolist()
    return orjson.dumps({"target": TARGET, "campaign": question.campaigns[0], "scores": scores})


def _rows(question: ScoresRequest) -> bytes:
    pairs = zip(question.campaigns, question.scores.tolist(), strict=True)
    rows = [{"target": TARGET, "campaign": name, "score": score} for name, score in pairs]
    return orjson.dumps({"rows": rows})


def _binary_ids(question: ScoresRequest) -> bytes:
    numbers = [question.ids.numbers[name] for name in question.campaigns]
    head = (_FLOAT32 | _INTERNED, len(numbers), 0, 0, len(TARGET), question.ids.dictionary)
    return _binary(head, TARGET.encode(), _u4(numbers), question.scores.astype("<f4").tobytes())


def _binary_names(question: ScoresRequest) -> bytes:
    places = {name: place for place, name in enumerate(dict.fromkeys(question.campaigns))}
    names = [name.encode() for name in places]
    text = b"".join(names)
    head = (0, len(question.campaigns), len(names), len(text), len(TARGET), 0)
    numbers = _u4([places[name] for name in question.campaigns])
    scores = question.scores.astype("<f8").tobytes()
    return _binary(head, TARGET.encode(), _u4([len(name) for name in names]), text, numbers, scores)


def _binary(head: tuple[int, ...], *sections: bytes) -> bytes:
    flags, *counts = head
    padded = (section + bytes(-len(section) % 8) for section in sections)
    return _HEADER.pack(b"SCOL", _VERSION, _ASKED, flags, *counts) + b"".join(padded)


def _u4(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def of_json(answer: bytes) -> Floats:
    """The probabilities, (n,), of an answer in JSON."""
    return np.array(orjson.loads(answer)["probabilities"], float)


def _of_columns(answer: bytes) -> Floats:
    _, _, _, flags, count, *_ = _HEADER.unpack_from(answer)
    kind = "<f4" if flags & _FLOAT32 else "<f8"
    found: NDArray[Any] = np.frombuffer(answer, kind, count, _HEADER.size)
    return found.astype(float)


FORMS = {
    "columns": Form(JSON, _columns, of_json),
    "one campaign": Form(JSON, _one_campaign, of_json),
    "rows": Form(JSON, _rows, of_json),
    "binary, ids": Form(COLUMNS, _binary_ids, _of_columns, exact=False),
    "binary, names": Form(COLUMNS, _binary_names, _of_columns),
}


PLAIN, IDS_AND_CLICKS, IDS, FIELDS = "impressions", "ids and clicks", "ids", "3 fields"
FIELD_VALUES = {"device": 3, "placement": 50, "site": 5_000}
"""How many values the fields of events have."""

SEED = 23
FIRST_SECOND = 1_767_225_600.0
HOUR_SECONDS = 3600
CLICKS = 0.02
_IMPRESSIONS, _EVENT_IDS, _FIELDS = 3, 8, 64

Event = dict[str, Any]


@dataclass(frozen=True)
class Requests:
    """Some requests, each with as many events."""

    all: Sequence[Sequence[Event]]

    @classmethod
    def of(
        cls, campaigns: int, kind: str, run: tuple[int, ...], batch: int, count: int
    ) -> "Requests":
        """`count` requests of `batch` events of one kind; ids differ from those of other runs."""
        rng = np.random.default_rng((SEED, *run))
        prefix = None if kind in (PLAIN, FIELDS) else "-".join(map(str, run))
        share = CLICKS if kind == IDS_AND_CLICKS else 0.0
        events = random_events(rng, campaigns, batch * count, share, prefix)
        if kind == FIELDS:
            add_fields(rng, events)
        return cls([events[start : start + batch] for start in range(0, len(events), batch)])


def random_events(
    rng: np.random.Generator,
    campaigns: int,
    count: int,
    clicks: float,
    ids: str | None,
    first_second: float = FIRST_SECOND,
) -> list[Event]:
    """Events of one hour; with ids that begin with `ids`, some of them are clicks."""
    names = campaign_names(campaigns)
    columns = zip(
        rng.integers(0, campaigns, count).tolist(),
        rng.beta(1.0, 40.0, count).round(6).tolist(),
        (first_second + rng.uniform(0, HOUR_SECONDS, count)).round(3).tolist(),
        (rng.random(count) < clicks).tolist(),
        strict=True,
    )
    return [
        _event(names[campaign], score, seconds, clicked, ids and f"{ids}-{place}")
        for place, (campaign, score, seconds, clicked) in enumerate(columns)
    ]


def add_fields(rng: np.random.Generator, events: Sequence[Event]) -> None:
    """Give every event a value of each field; a few values are most of the traffic."""
    for event in events:
        event["fields"] = {}
    for name, count in FIELD_VALUES.items():
        drawn = (count * rng.random(len(events)) ** 3).astype(int).tolist()
        for event, value in zip(events, drawn, strict=True):
            event["fields"][name] = f"{name}-{value}"


def _event(
    campaign: str, score: float, seconds: float, clicked: bool, event_id: str | None
) -> Event:
    event = {"campaign": campaign, "occurred_at": seconds, "scores": {"click": score}}
    if event_id is None:
        return {"type": "impression", **event}
    if clicked:
        return {"type": "click", "click_id": event_id, "impression_at": seconds, **event}
    return {"type": "impression", "id": event_id, **event}


def json_body(events: Sequence[Event]) -> bytes:
    """A JSON array."""
    return orjson.dumps(events)


def columns_body(events: Sequence[Event]) -> bytes:
    """Binary columns of impressions, campaigns by their names."""
    places = {event["campaign"]: 0 for event in events}
    places = {name: place for place, name in enumerate(places)}
    names = [name.encode() for name in places]
    ids = [event["id"].encode() for event in events if "id" in event]
    flags = _EVENT_IDS if ids else 0
    counts = (len(events), len(names), sum(map(len, names)), len(TARGET), 0)
    sections = [
        TARGET.encode(),
        _u4([len(name) for name in names]),
        b"".join(names),
        _u4([places[event["campaign"]] for event in events]),
        _f8([event["scores"]["click"] for event in events]),
        _f8([event["occurred_at"] for event in events]),
    ]
    if ids:
        sections += (_u4([len(name) for name in ids]), b"".join(ids))
    if "fields" in events[0]:
        flags |= _FIELDS
        sections += _field_sections(events)
    head = _HEADER.pack(b"SCOL", _VERSION, _IMPRESSIONS, flags, *counts)
    return head + b"".join(section + bytes(-len(section) % 8) for section in sections)


def _field_sections(events: Sequence[Event]) -> list[bytes]:
    sections = [_u4([len(FIELD_VALUES)])]
    for name in FIELD_VALUES:
        given = [event["fields"][name] for event in events]
        places = {value: place for place, value in enumerate(dict.fromkeys(given))}
        values = [value.encode() for value in places]
        sections += (_u4([len(name)]), name.encode(), _u4([len(values), sum(map(len, values))]))
        sections += (_u4([len(value) for value in values]), b"".join(values))
        sections.append(_u4([places[value] for value in given]))
    return sections


def _f8(numbers: Sequence[float]) -> bytes:
    return np.array(numbers, "<f8").tobytes()
