"""`POST /v1/events`: checked, packed and stored in one round trip; the answer means stored."""

import time
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.types import Receive, Scope

from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON, NDJSON, media_type, read_body
from app.api.hot_path import declare
from app.api.large_bodies import work_on
from app.api.metrics import Metrics
from app.api.openapi import request_body
from app.api.problems import Problem
from app.api.resources import Resources
from app.events.admission import Admission
from app.events.open_times import OpenTimes
from app.events.parsing import (
    INVALID,
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
_EXAMPLE: Final = [
    {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.01}}
]


async def post_events(scope: Scope, receive: Receive, resources: Resources) -> Answer:
    """Store impressions, clicks, behaviours, conversions and outcomes.

    A JSON array or one JSON object per line.

    Good events are stored even beside bad ones, whose index and error the answer names. An
    `Idempotency-Key` header makes a retry safe.
    """
    headers = dict(scope["headers"])
    key = _idempotency_key(headers)
    body = await read_body(headers, receive, resources.settings.max_body_bytes, (JSON, NDJSON))
    lines = media_type(headers.get(b"content-type", b"")) == NDJSON or not is_array(body)
    admission, rejections = await work_on(body, _admit, body, lines, resources)
    fingerprint = "" if key is None else blake2b(body, digest_size=16).hexdigest()
    appended = await resources.event_log.append(admission.batch, key, fingerprint)
    rejections += admission.reject_refused(appended.refused)
    _count(resources.metrics, admission, rejections, appended.duplicates)
    return _answer(appended.accepted, appended.duplicates, rejections)


declare(router, PATH, post_events, request_body({JSON: list[Event], NDJSON: Event}, _EXAMPLE))


def _idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    given = headers.get(KEY_HEADER.lower().encode())
    if given is None:
        return None
    key = given.decode("latin-1")
    if not 0 < len(key) <= LONGEST_IDEMPOTENCY_KEY:
        raise BrokenRule(KEY_HEADER, f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters", key)
    return key


def _admit(body: bytes, lines: bool, resources: Resources) -> tuple[Admission, list[Rejection]]:
    parsed = _parse(body, resources.settings.max_events, lines)
    admission = Admission(resources.settings, _open_times(resources))
    rejections = admission.admit_all(parsed)
    _refuse_if_all_are_broken(parsed, rejections)
    return admission, rejections


def _parse(body: bytes, most: int, lines: bool) -> Parsed:
    try:
        parsed = parse_all(body, most, lines=lines)
        if parsed is None:
            parsed = parse_each(body, most, lines=lines)
    except TooManyEvents as error:
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        raise Problem(status, "too-many-events", str(error), limit=most) from None
    if not len(parsed):
        raise BrokenRule("events", "must be at least one")
    return parsed


def _open_times(resources: Resources) -> OpenTimes:
    if resources.settings.clock == "event":
        return OpenTimes.since(resources.refresher.current.as_of, resources.settings)
    return OpenTimes.at(time.time(), resources.settings)


def _refuse_if_all_are_broken(parsed: Parsed, rejections: list[Rejection]) -> None:
    broken = sum(rejection.reason == INVALID for rejection in rejections)
    if broken == len(parsed):
        detail = f"none of the {broken} events is valid; the first: {rejections[0].error}"
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        raise Problem(status, "broken-events", detail, rejected=_listed(rejections))


def _listed(rejections: list[Rejection]) -> list[dict[str, Any]]:
    in_order = sorted(rejections, key=lambda rejection: rejection.index)
    return [{"index": rejection.index, "error": rejection.error} for rejection in in_order]


def _count(
    metrics: Metrics, admission: Admission, rejections: list[Rejection], duplicates: int
) -> None:
    for name, number in admission.admitted.items():
        metrics.count_events(name, "accepted", number)
    for (name, reason), number in Counter((r.event_type, r.reason) for r in rejections).items():
        metrics.count_events(name, reason, number)
    metrics.count_duplicates(duplicates)


def _answer(accepted: int, duplicates: int, rejections: list[Rejection]) -> Answer:
    content = {"accepted": accepted, "duplicates": duplicates, "rejected": _listed(rejections)}
    return Answer(200, [JSON_TYPE], orjson.dumps(content))
