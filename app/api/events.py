"""`POST /v1/events`: events of JSON, NDJSON or binary columns, checked, packed and stored in one
round trip; the response means stored.
"""

import time
from asyncio import sleep
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

import numpy as np
import orjson
from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from app.api.hot_path import (
    JSON,
    JSON_TYPE,
    LARGE,
    LARGE_DENSE,
    NDJSON,
    SLICED,
    PlainResponse,
    declare,
    media_type,
    read_body,
    request_body,
)
from app.api.metrics.counters import Metrics
from app.api.problems import Problem
from app.api.resources import Resources
from app.columns.events import EventAdmission, EventsRequest, read_events
from app.columns.layout import INTERNED
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.events.admission import Admission, OpenTimes
from app.events.schema import (
    INVALID,
    Event,
    EventRejection,
    Parsed,
    is_array,
    parse_all,
    parse_each,
)
from app.storage.errors import StorageUnavailable
from app.storage.event_log import LONGEST_IDEMPOTENCY_KEY
from app.strict_json import ValidationError

_Admitted = tuple[Admission, list[EventRejection]]


def listed(rejections: Sequence[EventRejection]) -> list[dict[str, Any]]:
    """Index and error of each, by index."""
    in_order = sorted(rejections, key=lambda rejection: rejection.index)
    return [{"index": rejection.index, "error": rejection.error} for rejection in in_order]


def refuse_if_all_are_broken(number: int, rejections: Sequence[EventRejection]) -> None:
    """Problem if every event of the `number` of a request breaks the schema."""
    broken = sum(rejection.reason == INVALID for rejection in rejections)
    if broken == number:
        detail = f"none of the {broken} events is valid; the first: {rejections[0].error}"
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        raise Problem(status, "broken-events", detail, rejected=listed(rejections))


def open_times(resources: Resources) -> OpenTimes:
    """Open by the wall clock, or since the last refit where events tell the time."""
    if resources.settings.clock == "event":
        return OpenTimes.since(resources.refresher.current.as_of, resources.settings)
    return OpenTimes.at(time.time(), resources.settings)


def _admit_columns(body: bytes, resources: Resources) -> _Admitted:
    """What a request in columns stores, and the rejections of events that do not count."""
    request = read_events(body, resources.settings.max_events)
    names, places = _campaigns(request, resources)
    times = open_times(resources)
    admitted = EventAdmission(request, names, places, resources.settings, times)
    rejections = admitted.admit_all()
    refuse_if_all_are_broken(request.header.rows, rejections)
    return admitted.admission, rejections


def _campaigns(
    request: EventsRequest, resources: Resources
) -> tuple[Sequence[str], NDArray[np.intp]]:
    """Distinct names, and the place in them of each event's campaign, (n,)."""
    if request.header.flags & INTERNED:
        ids = resources.refresher.current.ids.get(request.target)
        if ids is None:
            known = ", ".join(resources.settings.known_targets)
            raise ValidationError("target", f"unknown target; known are {known}", request.target)
        names, places = ids.names(request.header.dictionary, request.numbers)
    else:
        distinct = {name: place for place, name in enumerate(dict.fromkeys(request.names))}
        each = np.fromiter(map(distinct.__getitem__, request.names), np.intp, len(request.names))
        names, places = list(distinct), each[request.numbers]
    rows = request.header.rows
    return names, np.repeat(places, rows) if len(places) < rows else places


router = APIRouter(tags=["events"])

PATH: Final = "/v1/events"
KEY_HEADER: Final = "Idempotency-Key"
_TYPES: Final = (JSON, NDJSON, COLUMNS)
_EXAMPLE: Final = [
    {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.01}}
]


async def post_events(scope: Scope, receive: Receive, resources: Resources) -> PlainResponse:
    """Store impressions, clicks, behaviours, conversions and outcomes.

    A JSON array, one JSON object per line, or binary columns.

    Good events are stored even beside bad ones, whose index and error the answer names. An
    `Idempotency-Key` header makes a retry safe.
    """
    headers = dict(scope["headers"])
    key = _idempotency_key(headers)
    body = await read_body(headers, receive, resources.settings.max_body_bytes, _TYPES)
    kind = media_type(headers.get(b"content-type", b""))
    admission, rejections = await _admitted(body, kind, resources)
    await _give_way(body)
    fingerprint = "" if key is None else blake2b(body, digest_size=16).hexdigest()
    try:
        appended = await resources.event_log.append(admission.batch, key, fingerprint)
    except StorageUnavailable as error:
        resources.watch.write_failed(error)
        raise
    rejections += admission.reject_refused(appended.refused)
    _count(resources.metrics, admission, rejections, appended.duplicates)
    return _answer(appended.accepted, appended.duplicates, rejections)


declare(
    router, PATH, post_events, request_body({JSON: list[Event], NDJSON: Event}, _EXAMPLE, [COLUMNS])
)


def _idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    given = headers.get(KEY_HEADER.lower().encode())
    if given is None:
        return None
    key = given.decode("latin-1")
    if not 0 < len(key) <= LONGEST_IDEMPOTENCY_KEY:
        raise ValidationError(
            KEY_HEADER, f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters", key
        )
    return key


async def _admitted(body: bytes, kind: str, resources: Resources) -> _Admitted:
    if kind == COLUMNS:
        work = partial(_admit_columns, body, resources)
        return await run_in_threadpool(work) if len(body) >= LARGE_DENSE else work()
    lines = kind == NDJSON or not is_array(body)
    if len(body) >= LARGE:
        return await run_in_threadpool(lambda: _admit(_parse(body, lines, resources), resources))
    parsed = _parse(body, lines, resources)
    await _give_way(body)
    return _admit(parsed, resources)


async def _give_way(body: bytes) -> None:
    """Lets other requests have a turn, unless there is too little to do for them to notice."""
    if len(body) >= SLICED:
        await sleep(0)


def _parse(body: bytes, lines: bool, resources: Resources) -> Parsed:
    most = resources.settings.max_events
    parsed = parse_all(body, most, lines=lines) or parse_each(body, most, lines=lines)
    if not len(parsed):
        raise ValidationError("events", "must be at least one")
    return parsed


def _admit(parsed: Parsed, resources: Resources) -> _Admitted:
    admission = Admission(resources.settings, open_times(resources))
    rejections = admission.admit_all(parsed)
    refuse_if_all_are_broken(len(parsed), rejections)
    return admission, rejections


def _count(
    metrics: Metrics, admission: Admission, rejections: list[EventRejection], duplicates: int
) -> None:
    for name, number in admission.admitted.items():
        metrics.count_events(name, "accepted", number)
    for (name, reason), number in Counter((r.event_type, r.reason) for r in rejections).items():
        metrics.count_events(name, reason, number)
    metrics.count_duplicates(duplicates)


def _answer(accepted: int, duplicates: int, rejections: list[EventRejection]) -> PlainResponse:
    content = {"accepted": accepted, "duplicates": duplicates, "rejected": listed(rejections)}
    return PlainResponse(200, [JSON_TYPE], orjson.dumps(content))
