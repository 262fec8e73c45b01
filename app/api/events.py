"""`POST /v1/events`: checked, packed and stored in one round trip; the answer means stored."""

from asyncio import sleep
from collections import Counter
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from typing import Final

import orjson
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from app.api.admission_times import open_times
from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON, NDJSON, media_type, read_body
from app.api.columns_events import admit
from app.api.hot_path import declare
from app.api.large_bodies import LARGE, LARGE_DENSE, SLICED
from app.api.metrics import Metrics
from app.api.openapi import request_body
from app.api.rejections import listed, refuse_if_all_are_broken, too_many_events
from app.api.resources import Resources
from app.columns.header import MEDIA_TYPE as COLUMNS
from app.events.admission import Admission
from app.events.parsing import (
    Parsed,
    Rejection,
    TooManyEvents,
    is_array,
    parse_all,
    parse_each,
)
from app.events.schema import Event
from app.storage.event_log import LONGEST_IDEMPOTENCY_KEY
from app.strict_json import BrokenRule

router = APIRouter(tags=["events"])

PATH: Final = "/v1/events"
KEY_HEADER: Final = "Idempotency-Key"
_Admitted = tuple[Admission, list[Rejection]]
_TYPES: Final = (JSON, NDJSON, COLUMNS)
_EXAMPLE: Final = [
    {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.01}}
]


async def post_events(scope: Scope, receive: Receive, resources: Resources) -> Answer:
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
    appended = await resources.event_log.append(admission.batch, key, fingerprint)
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
        raise BrokenRule(KEY_HEADER, f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters", key)
    return key


async def _admitted(body: bytes, kind: str, resources: Resources) -> _Admitted:
    if kind == COLUMNS:
        work = partial(admit, body, resources)
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
    try:
        parsed = parse_all(body, most, lines=lines)
        if parsed is None:
            parsed = parse_each(body, most, lines=lines)
    except TooManyEvents as error:
        raise too_many_events(error, most) from None
    if not len(parsed):
        raise BrokenRule("events", "must be at least one")
    return parsed


def _admit(parsed: Parsed, resources: Resources) -> _Admitted:
    admission = Admission(resources.settings, open_times(resources))
    rejections = admission.admit_all(parsed)
    refuse_if_all_are_broken(len(parsed), rejections)
    return admission, rejections


def _count(
    metrics: Metrics, admission: Admission, rejections: list[Rejection], duplicates: int
) -> None:
    for name, number in admission.admitted.items():
        metrics.count_events(name, "accepted", number)
    for (name, reason), number in Counter((r.event_type, r.reason) for r in rejections).items():
        metrics.count_events(name, reason, number)
    metrics.count_duplicates(duplicates)


def _answer(accepted: int, duplicates: int, rejections: list[Rejection]) -> Answer:
    content = {"accepted": accepted, "duplicates": duplicates, "rejected": listed(rejections)}
    return Answer(200, [JSON_TYPE], orjson.dumps(content))
