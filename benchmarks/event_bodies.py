"""Requests of events, and their bodies as JSON and as binary columns."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from benchmarks.maps import campaign_names

JSON, COLUMNS = "application/json", "application/vnd.sirocco.columns"
PLAIN, IDS_AND_CLICKS, IDS = "impressions", "ids and clicks", "ids"

SEED = 23
FIRST_SECOND = 1_767_225_600.0
HOUR_SECONDS = 3600
CLICKS = 0.02
_TARGET_NAME = b"click"
_HEADER = struct.Struct("<4sHBBIIIIQ")
_IMPRESSIONS, _EVENT_IDS = 3, 8

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
        prefix = None if kind == PLAIN else "-".join(map(str, run))
        share = CLICKS if kind == IDS_AND_CLICKS else 0.0
        events = random_events(rng, campaigns, batch * count, share, prefix)
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
    counts = (len(events), len(names), sum(map(len, names)), len(_TARGET_NAME), 0)
    sections = [
        _TARGET_NAME,
        _u4([len(name) for name in names]),
        b"".join(names),
        _u4([places[event["campaign"]] for event in events]),
        _f8([event["scores"]["click"] for event in events]),
        _f8([event["occurred_at"] for event in events]),
    ]
    if ids:
        sections += (_u4([len(name) for name in ids]), b"".join(ids))
    head = _HEADER.pack(b"SCOL", _VERSION, _IMPRESSIONS, flags, *counts)
    return head + b"".join(section + bytes(-len(section) % 8) for section in sections)


def _u4(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def _f8(numbers: Sequence[float]) -> bytes:
    return np.array(numbers, "<f8").tobytes()
