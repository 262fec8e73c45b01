"""Plain ASGI under the framework: bodies read within bounds, and the hot path.

The hot path is an ASGI application in front of the framework that owns the two routes which take
all the traffic. It finds them by one look-up, reads the body itself and sends one response;
requests, responses, routing and middleware of the framework cost more than the work
(docs/decisions/0010-hot-path.md). Every other request goes on to the framework.
"""

import logging
import zlib
from asyncio import CancelledError, Future, Lock, sleep
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import islice
from time import perf_counter, time
from typing import Any, Final, NamedTuple

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.types import Receive, Scope, Send

from app.access.keys import Scope as KeyScope
from app.api.authorization import ANYBODY, CALLER, Caller, scope_of
from app.api.problems import ENDED, HANDLED, Problem, problem_of, query_of
from app.api.resources import Resources
from app.api.shedding import NEVER_SHED, OVERLOADED
from app.api.snapshot import Snapshot
from app.log_lines import set_log_fields
from app.strict_json import TakesLong, ValidationError, show
from app.tracing import REQUEST_ID_HEADER, RequestAbout, log_fields_of, sane_id

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"

_GZIP: Final = frozenset({b"gzip", b"x-gzip"})
_IDENTITY: Final = b"identity"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_MOST_MEMBERS: Final = 100
# A step of unpacking takes in and gives out at most so much: a tenth of a millisecond.
_PACKED_PIECE: Final = 16 * 1024
_UNPACKED_PIECE: Final = 64 * 1024
# A megabyte or so, by the pieces in which bodies come and are unpacked.
_MANY_PIECES: Final = 16


async def read_body(
    headers: Mapping[bytes, bytes],
    receive: Receive,
    resources: Resources,
    media_types: Collection[str] = (JSON,),
) -> bytes:
    """The body, unpacked if it is gzip; of either form it is at most SIROCCO_MAX_BODY_BYTES.

    Raises as `check_head` does, and Problem: 400 for bad gzip or a body that is cut short.
    """
    most = resources.settings.max_body_bytes
    is_packed = check_head(headers, most, media_types)
    body = await _read(receive, most)
    return await _unpacked(gunzip(body, most), resources.large_bodies) if is_packed else body


def check_head(
    headers: Mapping[bytes, bytes], most: int, media_types: Collection[str] = (JSON,)
) -> bool:
    """Whether a body with these headers, their names in lower case, is gzip.

    Raises Problem: 413 if it is larger than `most` bytes, 415 for another media type or encoding.
    """
    given = headers.get(b"content-type")
    if given is not None and media_type(given) not in media_types:
        known = " or ".join(media_types)
        detail = f"Content-Type = {show(given.decode('latin-1'))}: must be {known}"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
    encoding = headers.get(b"content-encoding")
    if encoding is not None:
        _check_encoding(encoding.lower())
    length = headers.get(b"content-length")
    if length is not None and int(length) > most:
        raise _too_large(most)
    return encoding is not None and encoding.lower() in _GZIP


@lru_cache(64)
def media_type(content_type: bytes) -> str:
    """The media type without its parameters."""
    return content_type.decode("latin-1").partition(";")[0].strip().lower()


async def _unpacked(steps: Iterator[bytes], one_at_a_time: Lock) -> bytes:
    pieces = list(islice(steps, 2))
    if len(pieces) == 2:
        async with one_at_a_time:
            for piece in steps:
                pieces.append(piece)
                await sleep(0)
    return await _joined(pieces)


async def _joined(pieces: list[bytes]) -> bytes:
    if len(pieces) < _MANY_PIECES:
        return b"".join(pieces)
    # Fresh memory costs more than the copying.
    return await run_in_threadpool(b"".join, pieces)


def gunzip(packed: bytes, most: int) -> Iterator[bytes]:
    """The unpacked bytes of one or more gzip members, in steps that none has to wait long for.

    Raises Problem, 413 as soon as there are more than `most` of them.
    """
    size = place = 0
    for _ in range(_MOST_MEMBERS):
        if place == len(packed):
            return
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            given = member.unconsumed_tail or packed[place : place + _PACKED_PIECE]
            place += 0 if member.unconsumed_tail else len(given)
            piece = _step(member, given)
            size += len(piece)
            if size > most:
                raise _too_large(most)
            yield piece
        place -= len(member.unused_data)
    raise _bad_gzip(f"more than {_MOST_MEMBERS - 1} members")


def _step(member: Any, given: bytes) -> bytes:
    try:
        piece: bytes = member.decompress(given, _UNPACKED_PIECE)
    except zlib.error as error:
        raise _bad_gzip(str(error)) from None
    if not (piece or given or member.eof):
        raise _bad_gzip("the stream is cut short")
    return piece


def _check_encoding(encoding: bytes) -> None:
    if encoding not in _GZIP and encoding != _IDENTITY:
        detail = f"Content-Encoding = {show(encoding.decode('latin-1'))}: must be gzip or identity"
        headers = {"Accept-Encoding": "gzip"}
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-encoding", detail, headers)


async def _read(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            # Answered to nobody, but neither stored nor a fault of ours.
            raise Problem(HTTPStatus.BAD_REQUEST, "body-cut-short", "body: ended before its end")
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return await _joined(chunks)


def _too_large(most: int) -> Problem:
    detail = f"body: must have at most {most} bytes, packed and unpacked"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body-too-large", detail, limit=most)


def _bad_gzip(reason: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "bad-gzip", f"body: not gzip: {reason}")


_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


def asks_to_explain(query: bytes) -> bool:
    """What the parameter `explain` says; raises ValidationError."""
    if not query:
        return False
    given = query_of(query, ("explain",)).get("explain", "false")
    if given not in _TRUTHS:
        raise ValidationError("explain", "must be true or false", given)
    return _TRUTHS[given]


def wants_json(accept: bytes, other: str) -> bool:
    """Whether the `Accept` header names JSON, and not the other media type."""
    named = {kind.partition(";")[0].strip() for kind in accept.decode("latin-1").lower().split(",")}
    return JSON in named and other not in named


LARGE: Final = 256 * 1024
"""From so many bytes on the work on a body is done in a thread, not on the event loop: that is some
ten milliseconds of work. With less, handing it over costs others more than it saves them."""
LARGE_DENSE: Final = 32 * 1024
"""For events in binary columns: thirty milliseconds at the worst, each refused with its error."""

SLOW: Final = 16 * 1024
"""JSON that the fast reader refuses is read for its error: of so many bytes on in a thread."""

SLICED: Final = 4 * 1024
"""From so many bytes on, other requests have a turn between the steps of the work on a body."""


_REFERENCE: Final = "#/components/schemas/{name}"


def request_body(
    kinds: dict[str, Any], example: Any, binary: Collection[str] = (), *, required: bool = True
) -> dict[str, Any]:
    """`openapi_extra` of a route: a type of body per media type, and media types of bytes."""
    content: dict[str, Any] = {
        media_type: {"schema": _inlined(kind), "example": example}
        for media_type, kind in kinds.items()
    }
    # Bytes have no schema: OpenAPI 3.1 wants none.
    content |= {media_type: {} for media_type in binary}
    return {"requestBody": {"required": required, "content": content}}


def _inlined(kind: Any) -> Any:
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return _resolve(schema, components)


def _resolve(schema: Any, components: dict[str, Any]) -> Any:
    """The schema with every reference replaced: FastAPI keeps the components to itself."""
    if isinstance(schema, list):
        return [_resolve(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolve(components[schema["$ref"].rpartition("/")[2]], components)
    # A discriminator maps to references: without them it has nothing to say.
    kept = {key: value for key, value in schema.items() if key != "discriminator"}
    return {key: _resolve(value, components) for key, value in kept.items()}


JSON_TYPE = (b"content-type", b"application/json")
_AGE: Final = b"sirocco-map-age"


def age_headers(snapshot: Snapshot) -> list[tuple[bytes, bytes]]:
    """The header that says the age in whole seconds of what serves; none before the first
    version."""
    if snapshot.published_at is None:
        return []
    return [(_AGE, b"%d" % max(0.0, time() - snapshot.published_at))]


class PlainResponse(NamedTuple):
    """Status, headers in lower case without the length, and the whole body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    scored: Sequence[Any] = ()
    """What was looked up for it, to be counted: `CalibratedScores`."""

    @classmethod
    def of(cls, response: Response) -> "PlainResponse":
        """The framework's response as an answer."""
        headers = [pair for pair in response.raw_headers if pair[0] != b"content-length"]
        return cls(response.status_code, headers, bytes(response.body))


_REFUSAL: Final = PlainResponse.of(OVERLOADED.response())

Endpoint = Callable[[Scope, Receive, Resources], Awaitable[PlainResponse]]


class PendingAnswer(NamedTuple):
    """An answer that waits for something: what `answer` makes of it once it is there. It may have
    failed, and what that raises are any of `HANDLED`."""

    awaited: Future[Any]
    answer: Callable[[Future[Any]], PlainResponse]


class PromptEndpoint(NamedTuple):
    """Answers whole requests without a wait, or once it is over. `read` says what a head asks
    for, None where that takes time; a head that is repeated is not read again. Both raise any of
    `HANDLED`, and `answer` raises TakesLong. Bodies are shorter than `below` bytes. `patience` is
    by how much more than others its requests bear before they are shed.
    """

    read: Callable[[Scope, Resources], Any]
    answer: Callable[[Any, bytes, Caller, Resources], PlainResponse | PendingAnswer]
    below: int = LARGE
    patience: int = 1


class _Head(NamedTuple):
    """What the head of a request says: to its endpoint, and whether it has an id."""

    request: Any
    has_id: bool


_HEAD: Final = "sirocco.head"
_log = logging.getLogger(__name__)


class HotPath:
    """Answers POST requests for the paths of `endpoints`; `framework` answers all others.

    Those of `prompt` are answered before, and what is refused for overload, on a server whose
    protocol calls for it.
    """

    def __init__(
        self,
        framework: FastAPI,
        endpoints: Mapping[str, Endpoint],
        resources: Resources,
        prompt: Mapping[str, PromptEndpoint],
    ) -> None:
        self.framework = framework
        # With bodies of fewer than so many bytes.
        self.prompt_paths = {path: endpoint.below for path, endpoint in prompt.items()}
        # Requests of at most so many bytes, head and body, never have to wait.
        self.prompt_bytes = min(SLOW, resources.settings.max_body_bytes)
        self._endpoints, self._prompt = endpoints, prompt
        self._resources, self._metrics = resources, resources.metrics
        self._authorization = resources.authorization
        self._scopes = {path: scope_of(path) or KeyScope.ADMIN for path in endpoints}
        self._shedder, self._traces = resources.shedder, resources.traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._run(scope, receive, send)
        except CancelledError:
            if scope["type"] != "http":
                raise
            # The server ends, and has waited for as long as it does.
            await ENDED.response()(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in NEVER_SHED:
            await self.framework(scope, receive, send)
            return
        started, path = perf_counter(), scope["path"]
        endpoint = self._endpoints.get(path) if scope["method"] == "POST" else None
        fault = None
        if self._is_shed(path, started):
            answer = _REFUSAL
        elif endpoint is None:
            self._shedder.in_flight += 1
            try:
                await self.framework(scope, receive, send)
            finally:
                self._shedder.in_flight -= 1
            return
        else:
            answer, fault = await self._answer(endpoint, scope, receive, started)
        headers = [
            *answer.headers,
            *_of_request(scope),
            (b"content-length", b"%d" % len(answer.body)),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        about = RequestAbout(path, answer.status, perf_counter() - started)
        self._metrics.count_answer(about, answer.scored)
        if self._traces is not None:
            self._traces.add(scope, about)
        if fault is not None:
            set_log_fields(**log_fields_of(scope))
            # The server logs it, and drops the connection.
            raise fault

    async def _answer(
        self, endpoint: Endpoint, scope: Scope, receive: Receive, started: float
    ) -> tuple[PlainResponse, Exception | None]:
        """The answer, and the fault of ours behind it if there is one."""
        try:
            if CALLER not in scope:
                needed = self._scopes[scope["path"]]
                scope[CALLER] = self._authorization.admitted(scope["headers"], needed, started)
            return await endpoint(scope, receive, self._resources), None
        except Exception as error:
            answer = PlainResponse.of(problem_of(error).response())
            return answer, None if isinstance(error, HANDLED) else error

    def prompt_answer(self, scope: Scope, body: bytes) -> PlainResponse | PendingAnswer | None:
        """The answer to a whole request for one of `prompt_paths`, now or later; None to be called
        instead."""
        if scope["method"] != "POST":
            return None
        started = perf_counter()
        try:
            answer = self._prompt_answer(scope, body, started)
        except HANDLED as error:
            answer = PlainResponse.of(problem_of(error).response())
        except TakesLong:
            return None
        except Exception:
            # A fault of ours: met once more on the way where the server logs it.
            return None
        if isinstance(answer, PendingAnswer):
            self._shedder.in_flight += 1
            return answer._replace(answer=partial(self._finished, answer, scope, started))
        return None if answer is None else self._counted(answer, scope, started)

    def _finished(
        self, pending: PendingAnswer, scope: Scope, started: float, awaited: Future[Any]
    ) -> PlainResponse:
        self._shedder.in_flight -= 1
        try:
            answer = pending.answer(awaited)
        except Exception as error:
            if not isinstance(error, HANDLED):
                set_log_fields(**log_fields_of(scope))
                _log.exception("a fault of ours")
            answer = PlainResponse.of(problem_of(error).response())
        return self._counted(answer, scope, started)

    def _counted(self, answer: PlainResponse, scope: Scope, started: float) -> PlainResponse:
        """The answer with what its head says of the request, once it is counted."""
        about = RequestAbout(scope["path"], answer.status, perf_counter() - started)
        self._metrics.count_answer(about, answer.scored)
        if self._traces is not None:
            self._traces.add(scope, about)
        head = scope.get(_HEAD)
        if head is None or head.has_id or scope.get(CALLER, ANYBODY).limit is not None:
            return PlainResponse(answer.status, [*answer.headers, *_of_request(scope)], answer.body)
        return answer

    def _prompt_answer(
        self, scope: Scope, body: bytes, now: float
    ) -> PlainResponse | PendingAnswer | None:
        path, shedder = scope["path"], self._shedder
        # Most need not ask: that is a call less.
        is_calm = shedder.calm and shedder.in_flight < shedder.most_requests
        if not is_calm and self._is_shed(path, now):
            return _REFUSAL
        endpoint = self._prompt.get(path)
        if endpoint is None or len(body) >= endpoint.below:
            return None
        # What could not be answered at once comes a second time, and counts once.
        if CALLER not in scope:
            scope[CALLER] = self._authorization.admitted(scope["headers"], self._scopes[path], now)
        head = scope.get(_HEAD)
        if head is None:
            has_id = any(name == REQUEST_ID_HEADER for name, _ in scope["headers"])
            request = endpoint.read(scope, self._resources)
            if request is None:
                return None
            head = scope[_HEAD] = _Head(request, has_id)
        return endpoint.answer(head.request, body, scope[CALLER], self._resources)

    def may_refuse(self, path: str) -> bool:
        """Whether a request for that path may be answered at once with a refusal, which must be
        cheap."""
        shedder = self._shedder
        is_calm = shedder.calm and shedder.in_flight < shedder.most_requests
        return not is_calm and path in self._endpoints

    def _is_shed(self, path: str, now: float) -> bool:
        endpoint = self._prompt.get(path)
        return self._shedder.refuses(path, now, 1 if endpoint is None else endpoint.patience)

    @property
    def state(self) -> State:
        """The framework's state, which holds the resources."""
        return self.framework.state


def _of_request(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The header fields that tell what is left of the caller's limit, and the caller's own id of
    the request; most callers have neither."""
    caller: Caller | None = scope.get(CALLER)
    headers = [] if caller is None or caller.limit is None else caller.headers()
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER:
            return [*headers, (name, sane_id(value))]
    return headers


def declare(router: APIRouter, path: str, endpoint: Endpoint, extra: dict[str, Any]) -> None:
    """Tells the framework of a hot route: for its documentation, and to refuse other methods."""
    router.add_api_route(
        path,
        _answered_before,
        methods=["POST"],
        name=endpoint.__name__,
        description=endpoint.__doc__,
        response_class=Response,
        openapi_extra=extra,
    )


async def _answered_before() -> Response:
    # No request gets here: the hot path stands in front of the framework.
    raise NotImplementedError
