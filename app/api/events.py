"""`POST /v1/events`: events of JSON, NDJSON or binary columns, checked, packed and stored in one
round trip; the response means stored.
"""

import time
from asyncio import Future, get_running_loop, sleep
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Final, NamedTuple, Self

import numpy as np
import orjson
from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from app.api.authorization import Caller, caller_of
from app.api.hot_path import (
    JSON,
    JSON_TYPE,
    LARGE,
    LARGE_DENSE,
    NDJSON,
    SLICED,
    PendingAnswer,
    PlainResponse,
    PromptEndpoint,
    check_head,
    declare,
    media_type,
    read_body,
    request_body,
)
from app.api.metrics.counters import Metrics
from app.api.problems import Problem, query_of
from app.api.resources import Resources
from app.columns.events import EventAdmission, EventsRequest
from app.columns.events import read_events as read_columns
from app.columns.layout import INTERNED
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.events.admission import Admission
from app.events.products import ProductTrials
from app.events.reading import PIECE_BYTES, Parsed, is_array, read_events, read_few
from app.events.rejections import INVALID, OpenTimes
from app.events.schema import Behaviour, Click, Conversion, Event
from app.storage.errors import StorageUnavailable
from app.storage.event_log import LONGEST_IDEMPOTENCY_KEY, Appended
from app.strict_json import TakesLong, ValidationError


def refuse_if_all_are_broken(admission: Admission) -> None:
    """Problem if every event of a request breaks the schema."""
    rejections = admission.rejections
    if not rejections.counts:
        return
    broken = sum(number for (_, reason), number in rejections.counts.items() if reason == INVALID)
    if broken == len(rejections) + sum(admission.admitted.values()):
        detail = f"none of the {broken} events is valid; the first: {rejections.shown[0].error}"
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        raise Problem(status, "broken-events", detail, **rejections.content())


def open_times(resources: Resources) -> OpenTimes:
    """Open by the wall clock, or since the last refit where events tell the time."""
    if resources.settings.clock == "event":
        return OpenTimes.since(resources.refresher.current.as_of, resources.settings)
    return OpenTimes.at(time.time(), resources.settings)


def _column_admission(body: bytes, resources: Resources, caller: Caller) -> EventAdmission:
    """What admits the events of a request in columns."""
    request = read_columns(body, resources.settings.max_events)
    names, places = _campaigns(request, resources)
    if caller.campaigns:
        # An event without a name, as id 0 is one, is rejected by itself.
        for campaign in filter(None, names):
            caller.check_sees("campaigns", campaign)
        if request.ids is not None and request.impression_at is not None:
            for place, click_id in enumerate(request.ids):
                caller.check_sees(f"ids[{place}]", click_id)
    times = open_times(resources)
    return EventAdmission(request, names, places, resources.settings, times)


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
_KEY_HEADER: Final = KEY_HEADER.lower().encode()
_TYPES: Final = (JSON, NDJSON, COLUMNS)
# Impressions are sooner admitted together, and make fewer blocks then; this many take some two
# milliseconds.
_ADMITTED_TOGETHER: Final = 1000
_REFUSED_SLICE: Final = 500
_EXAMPLE: Final = [
    {"type": "impression", "campaign": "a", "occurred_at": 1767225600, "scores": {"click": 0.01}}
]


async def post_events(scope: Scope, receive: Receive, resources: Resources) -> PlainResponse:
    """Store impressions, clicks, behaviours, conversions and outcomes.

    A JSON array, one JSON object per line, or binary columns.

    Good events are stored even beside bad ones, whose index and error the answer names. An
    `Idempotency-Key` header makes a retry safe.
    """
    head = _Head.of(scope)
    body = await read_body(dict(scope["headers"]), receive, resources, _TYPES)
    resources.shedder.in_flight += 1
    try:
        return await _stored(head, body, caller_of(scope), resources)
    finally:
        resources.shedder.in_flight -= 1


class _Head(NamedTuple):
    """What the head of a request says."""

    media_type: str
    key: str | None

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Raises ValidationError."""
        if scope["query_string"]:
            query_of(scope["query_string"], ())
        headers = dict(scope["headers"])
        key = _idempotency_key(scope["headers"]) if _KEY_HEADER in headers else None
        return cls(media_type(headers.get(b"content-type", b"")), key)

    @classmethod
    def prompt(cls, scope: Scope, resources: Resources) -> Self | None:
        """The same; None of a body that is to be unpacked. Raises as `check_head`, too."""
        head = cls.of(scope)
        is_packed = check_head(dict(scope["headers"]), resources.settings.max_body_bytes, _TYPES)
        return None if is_packed else head

    def own_key(self, caller: Caller) -> str | None:
        """Whoever sees other campaigns must neither meet nor guess it."""
        if self.key is None or not caller.campaigns:
            return self.key
        own = " ".join(("\x1f".join(sorted(caller.campaigns)), self.key))
        is_long = len(own) > LONGEST_IDEMPOTENCY_KEY
        return blake2b(own.encode(), digest_size=32).hexdigest() if is_long else own


def _stored_soon(head: _Head, body: bytes, caller: Caller, resources: Resources) -> PendingAnswer:
    """A small body is admitted before anybody else has a turn."""
    if len(body) > resources.settings.max_body_bytes:
        raise TakesLong
    admission = _admitted_at_once(head, body, caller, resources)
    refuse_if_all_are_broken(admission)
    key, log = head.own_key(caller), resources.event_log
    if key is None and log.is_joined(admission.batch):
        return PendingAnswer(log.join(admission.batch), partial(_joined, admission, resources))
    appended = _appended(admission, key, "" if key is None else _digest(body), body, resources)
    return PendingAnswer(get_running_loop().create_task(appended), Future.result)


def _admitted_at_once(head: _Head, body: bytes, caller: Caller, resources: Resources) -> Admission:
    if head.media_type == COLUMNS:
        return _all_admitted(body, resources, caller)
    admission, most = _admission(resources), resources.settings.max_events
    few = None if head.media_type == NDJSON or caller.campaigns else read_few(body, most)
    if few is None:
        steps = _admitting(admission, head.media_type, body, caller, most)
    else:
        steps = admission.admit_all(Parsed(range(len(few)), few))
    deque(steps, 0)
    return admission


def _joined(admission: Admission, resources: Resources, stored: Future[Appended]) -> PlainResponse:
    try:
        appended = stored.result()
    except StorageUnavailable as error:
        resources.watch.write_failed(error)
        raise
    return _answered(admission, appended, resources)


def _answered(admission: Admission, appended: Appended, resources: Resources) -> PlainResponse:
    _count(resources.metrics, admission, appended.duplicates)
    counts = {"accepted": appended.accepted, "duplicates": appended.duplicates}
    content = orjson.dumps({**counts, **admission.rejections.content()})
    return PlainResponse(200, [JSON_TYPE], content)


PROMPT: Final = PromptEndpoint(_Head.prompt, _stored_soon, SLICED)


async def _stored(head: _Head, body: bytes, caller: Caller, resources: Resources) -> PlainResponse:
    key = head.own_key(caller)
    async with resources.large_bodies if len(body) > PIECE_BYTES else nullcontext():
        admission = await _admitted(body, head.media_type, resources, caller)
        refuse_if_all_are_broken(admission)
        fingerprint = "" if key is None else await _fingerprint(body)
    return await _appended(admission, key, fingerprint, body, resources)


async def _appended(
    admission: Admission, key: str | None, fingerprint: str, body: bytes, resources: Resources
) -> PlainResponse:
    try:
        appended = await resources.event_log.append(admission.batch, key, fingerprint)
    except StorageUnavailable as error:
        resources.watch.write_failed(error)
        raise
    for start in range(0, len(appended.refused), _REFUSED_SLICE):
        admission.reject_refused(appended.refused[start : start + _REFUSED_SLICE])
        await _give_way(body)
    return _answered(admission, appended, resources)


declare(
    router, PATH, post_events, request_body({JSON: list[Event], NDJSON: Event}, _EXAMPLE, [COLUMNS])
)


def _idempotency_key(headers: Iterable[tuple[bytes, bytes]]) -> str:
    key, *others = {value.decode("latin-1") for name, value in headers if name == _KEY_HEADER}
    if others:
        raise ValidationError(KEY_HEADER, "must be one key, not several")
    if not 0 < len(key) <= LONGEST_IDEMPOTENCY_KEY:
        rule = f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} characters"
        raise ValidationError(KEY_HEADER, rule, key)
    return key


async def _admitted(body: bytes, kind: str, resources: Resources, caller: Caller) -> Admission:
    """Everything that counts, and the rejections of what does not."""
    if kind == COLUMNS:
        return await _admitted_columns(body, resources, caller)
    admission = _admission(resources)
    for _ in _admitting(admission, kind, body, caller, resources.settings.max_events):
        await _give_way(body)
    return admission


def _admission(resources: Resources) -> Admission:
    settings, trials = resources.settings, None
    if settings.products:
        trials = ProductTrials.of(settings, resources.refresher.current.atlases)
    return Admission(settings, open_times(resources), trials)


def _admitting(
    admission: Admission, kind: str, body: bytes, caller: Caller, most: int
) -> Iterator[None]:
    """Reads and admits the events of a body in steps, each followed by the turn of others."""
    lines, waiting = kind == NDJSON or not is_array(body), Parsed()
    for parsed in read_events(body, most, admission.rejections, lines=lines):
        yield
        if caller.campaigns:
            _check_events(parsed, caller)
        waiting = waiting.with_all(parsed)
        if len(waiting) >= _ADMITTED_TOGETHER:
            yield from admission.admit_all(waiting)
            yield
            waiting = Parsed()
    yield from admission.admit_all(waiting)
    yield


async def _admitted_columns(body: bytes, resources: Resources, caller: Caller) -> Admission:
    if len(body) >= LARGE_DENSE:
        return await run_in_threadpool(_all_admitted, body, resources, caller)
    columns = _column_admission(body, resources, caller)
    for _ in columns.admit_all():
        await _give_way(body)
    await _give_way(body)
    return columns.admission


def _all_admitted(body: bytes, resources: Resources, caller: Caller) -> Admission:
    """Those of a request in columns, in one go."""
    columns = _column_admission(body, resources, caller)
    deque(columns.admit_all(), 0)
    return columns.admission


async def _give_way(body: bytes) -> None:
    """Lets other requests have a turn, unless there is too little to do for them to notice."""
    if len(body) >= SLICED:
        await sleep(0)


async def _fingerprint(body: bytes) -> str:
    return await run_in_threadpool(_digest, body) if len(body) >= LARGE else _digest(body)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def _check_events(parsed: Parsed, caller: Caller) -> None:
    """A 404 problem unless every event is of the caller's campaigns. What names a click and no
    campaign is known by its id, which must begin as the campaigns do."""
    for index, event in zip(parsed.indices, parsed.events, strict=True):
        if not isinstance(event, Behaviour | Conversion):
            caller.check_sees(f"events[{index}].campaign", event.campaign)
        if isinstance(event, Behaviour | Conversion | Click):
            caller.check_sees(f"events[{index}].click_id", event.click_id)


def _count(metrics: Metrics, admission: Admission, duplicates: int) -> None:
    for name, number in admission.admitted.items():
        metrics.count_events(name, "accepted", number)
    for (name, reason), number in admission.rejections.counts.items():
        metrics.count_events(name, reason, number)
    metrics.count_duplicates(duplicates)
