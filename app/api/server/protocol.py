"""Uvicorn's HTTP protocol with bounds on open connections, heads, pipelines and patience, and with
no task for requests that can be answered as they stand.

Uvicorn waits for ever for the rest of a request, and for a caller to read its response. This
subclass sets no timer of its own: `SlowClientReaper` looks from time to time at what uvicorn leaves
behind. An ASGI task with its events, messages and checks costs two thirds of what the work on a
score does: an application with `prompt_paths` and `prompt_answer` gets a request for one of these
paths as soon as it is whole, and its response is written in one piece, before the protocol returns
to the event loop. What it leaves, and every other request, is run as uvicorn runs it. Of requests
with a head that the connection had before not even that head is parsed (`RepeatedHead`).

Of `HttpToolsProtocol` this relies on

* `parser`, `transport`, `flow`, `connections`, `url` and `headers`, by name;
* `scope`: a new object for every message, made when its first byte comes; None before the first;
* `cycle`: that of the newest whole head, with `scope`, `more_body`, `response_started`,
  `response_complete` (once set, nothing more of the request is kept), `body`, `default_headers`,
  `keep_alive` and `waiting_for_100_continue`; `pipeline`: those that wait for the responses before;
* `shutdown()`, which makes the newest request the last, or closes if there is none to answer;
* `on_response_complete()`, which starts the next of the pipeline, resumes reading and sets a timer;
* `_start_asgi_task(cycle, app)`: called once per request, when its head is whole and all responses
  before its own are sent;
* `STATUS_LINE`, and the order of what `send` writes.

A test holds the source of all this to a digest: read it again when that changes.
"""

import re
from asyncio import Future, Transport
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fcntl import ioctl
from functools import partial
from http import HTTPStatus
from struct import unpack
from termios import TIOCOUTQ
from typing import Any, ClassVar, Final, cast

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from app.api.hot_path import HotPath, PendingAnswer, PlainResponse
from app.api.metrics.counters import Metrics, Reason
from app.api.problems import Problem
from app.api.server.connections import Phase, RepeatedHead, SlowClientReaper, connections_that_fit
from app.settings import Settings

_NO_PATHS: Final[Mapping[str, int]] = {}
_CLOSE: Final = (b"connection", b"close")


_TIMEOUT: Final = Problem(
    HTTPStatus.REQUEST_TIMEOUT,
    "request-timeout",
    "the request did not arrive whole in SIROCCO_RECEIVE_SECONDS",
)
_LARGE_HEAD: Final = Problem(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head-too-large",
    "the head must have at most 65536 bytes and 100 fields",
)
_MALFORMED: Final = Problem(
    HTTPStatus.BAD_REQUEST, "malformed-request", "this is no HTTP/1.1 request with a known method"
)
_TOO_MANY: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too-many-connections",
    "SIROCCO_MAX_CONNECTIONS are open already",
    {"Retry-After": "1"},
)


def _message(problem: Problem) -> bytes:
    response = problem.response()
    headers = [*response.raw_headers, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {problem.status.value} {problem.status.phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


ANSWERS: Final = {
    Reason.SLOW_REQUEST: _message(_TIMEOUT),
    Reason.LARGE_HEAD: _message(_LARGE_HEAD),
    Reason.MALFORMED: _message(_MALFORMED),
    Reason.TOO_MANY: _message(_TOO_MANY),
}
"""What a caller gets before the connection is closed; of other reasons nothing."""


def _malformed(detail: str) -> bytes:
    return _message(Problem(HTTPStatus.BAD_REQUEST, "malformed-request", detail))


_VERSIONS: Final = frozenset({"1.1", "1.0"})
_VERSION: Final = _malformed("the version of HTTP must be 1.1 or 1.0")
_HOST: Final = _malformed("Host: must be given once, as a name or an address and maybe a port")
_ENCODING: Final = _malformed("Transfer-Encoding: must be chunked and nothing else, in HTTP/1.1")
_NAMED_HOST: Final = re.compile(
    rb"(?:\[[0-9a-fA-F:.]+\]|[\w.~%!$&'()*+;=-]+)(?::\d{0,5})?"
).fullmatch
# Who reads these in another way than a proxy before us takes one request for two.
_DECIDING: Final = frozenset({b"host", b"transfer-encoding"})


def malformed_head(version: str, deciding: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """The answer to a head that is to be refused for its Host or its Transfer-Encoding.

    `deciding` are these headers, names in lower case. What else is wrong the parser finds: lengths
    beside chunks, other numbers than 64 bits hold, folded lines, bare line feeds.
    """
    if version not in _VERSIONS:
        return _VERSION
    hosts = [value for name, value in deciding if name == b"host"]
    if len(hosts) > 1 or (not hosts and version != "1.0") or not all(map(_NAMED_HOST, hosts)):
        return _HOST
    if len(hosts) == len(deciding):
        return None
    chunked = [value.lower() for name, value in deciding if name != b"host"] == [b"chunked"]
    return None if chunked and version == "1.1" else _ENCODING


def unread_bytes(transport: Transport) -> int:
    """Bytes of a connection that its caller's machine has not acknowledged.

    The transport's own buffer alone moves in steps of a megabyte: only when the kernel's has room.
    """
    return transport.get_write_buffer_size() + _in_kernel(transport)


def _in_kernel(transport: Transport) -> int:
    socket = transport.get_extra_info("socket")
    if socket is None:
        # So says uvloop of a closed one whose socket was never looked up.
        return 0
    try:
        return int(unpack("i", ioctl(socket.fileno(), TIOCOUTQ, bytes(4)))[0])
    except (OSError, ValueError):
        # Closed meanwhile, or no socket of the kind that tells.
        return 0


def _announced(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of the body, as far as the head says: 0 of one in chunks."""
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0


MOST_HEAD_BYTES: Final = 64 * 1024
MOST_HEADERS: Final = 100
MOST_PIPELINED: Final = 64
_MOST_READ: Final = 16
"""Heads of a connection that are read to be remembered: who never repeats one costs no more."""
_MOST_REPEATED: Final = 4
"""Of them those that are remembered: who asks for scores of several kinds in turns and sends events
on the same connection needs no more."""
_REASONS: Final = {
    Phase.IDLE: Reason.IDLE,
    Phase.REQUEST: Reason.SLOW_REQUEST,
    Phase.READER: Reason.SLOW_READER,
}


class _Refused(Exception):
    """A head breaks a bound; the parser is to stop at once."""

    def __init__(self, reason: Reason, answer: bytes | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = ANSWERS.get(reason) if answer is None else answer


class BoundedProtocol(HttpToolsProtocol):
    """One connection; `protocol_of` makes the class of a server."""

    reaper: ClassVar[SlowClientReaper]
    metrics: ClassVar[Metrics]
    most_connections: ClassVar[int]

    # The reaper's notes: not yet seen waiting for anything.
    phase = Phase.ANSWER
    progress: object = None
    age = 0

    # The request whose head is whole and whose body is still to come.
    _held: RequestResponseCycle | None = None
    # Bytes since the last whole head or piece of a body: of a head, or of trailers.
    _unread = 0
    # What the newest head was found sound by; most callers send the same again and again.
    _sound: tuple[str, list[tuple[bytes, bytes]]] | None = None
    # Heads that the next request may have too, and how many more may still be read.
    _repeated: tuple[RepeatedHead, ...] = ()
    _heads_left = _MOST_READ
    _counted = False
    _ended = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._prompt_paths: Mapping[str, int] = getattr(self.app, "prompt_paths", _NO_PATHS)
        self._prompt = cast(HotPath, self.app)
        self._may_refuse = getattr(self.app, "may_refuse", lambda path: False)

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Look after the connection, or refuse it if there are too many."""
        if len(self.connections) >= self.most_connections:
            self.transport = transport
            self._end(Reason.TOO_MANY)
            return
        super().connection_made(transport)
        self._counted = True
        self.metrics.count_connections(1)
        self.reaper.start(self.loop, cast("Collection[BoundedProtocol]", self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, by whoever's will; what waits for a body goes on without."""
        super().connection_lost(exc)
        if self._held is not None:
            self._run_held()
        if self._counted:
            self.metrics.count_connections(-1)

    def data_received(self, data: bytes) -> None:
        """Parse what came; no byte is kept that is part of neither a bounded head nor a body."""
        if self._repeated and self._answers_repeated(data):
            return
        self._unread += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            cause = error.__context__
            refused = cause if isinstance(cause, _Refused) else _Refused(Reason.MALFORMED)
            self._end(refused.reason, refused.answer)
        except HttpParserUpgrade as upgrade:
            # The request was answered without the upgrade; the parser forgets what came after.
            if upgrade.args[0] < len(data):
                self.shutdown()
        else:
            if self._unread > MOST_HEAD_BYTES:
                self._end(Reason.LARGE_HEAD)
        self.answer_held(data)

    def on_headers_complete(self) -> None:
        """Take the head, if it is within bounds."""
        if self._unread > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            self._check_head()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _Refused(Reason.PIPELINED)
        version = self.parser.get_http_version()
        deciding = [header for header in self.headers if header[0] in _DECIDING]
        if self._sound != (version, deciding):
            malformed = malformed_head(version, deciding)
            if malformed is not None:
                raise _Refused(Reason.MALFORMED, malformed)
            self._sound = (version, deciding)
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, whose size is the application's to bound."""
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Go on with what waited for this.

        Uvicorn also sets a timer, which is the reaper's work, and counts for a limit not used here.
        """
        if self.pipeline or self.flow.read_paused:
            super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Leave idle connections to the reaper."""

    def state(self) -> tuple[Phase, object]:
        """What the connection waits for, and a token that is another one with every progress."""
        if self.flow.write_paused or self.transport.is_closing():
            left = unread_bytes(self.transport)
            return Phase.READER, self.progress if left == self.progress else left
        # While we do not read, it is not the caller who is slow.
        if self._owes_answer or self.flow.read_paused:
            return Phase.ANSWER, None
        return (Phase.REQUEST if self._is_receiving else Phase.IDLE), self.scope

    def expire(self, phase: Phase) -> None:
        """End the connection, which was too long in this phase."""
        self._end(_REASONS[phase])

    def answer_held(self, data: bytes = b"") -> None:
        """Once all that came, `data` last, is parsed: answers the request that is held, if it is
        whole."""
        cycle = self._held
        if cycle is None or self.transport.is_closing():
            return
        if cycle.more_body:
            if self.flow.read_paused:
                self._run_held()
            return
        scope, body = cast(Any, cycle.scope), bytes(cycle.body)
        # A task can wait until the caller has read the answers before.
        answer = None if self.flow.write_paused else self._prompt.prompt_answer(scope, body)
        if answer is None:
            self._run_held()
            return
        self._held = None
        if isinstance(answer, PendingAnswer):
            self._answer_later(answer, cycle, partial(self._answer_first, cycle, data, body))
        else:
            self._answer_first(cycle, data, body, answer)

    def _answer_first(
        self, cycle: RequestResponseCycle, data: bytes, body: bytes, answer: PlainResponse
    ) -> None:
        """Answers a request whose head may come again."""
        self._write(cycle, answer)
        if answer.status == HTTPStatus.OK and cycle.keep_alive and self._heads_left:
            self._heads_left -= 1
            read = RepeatedHead.of(data, cast(Any, cycle.scope), body)
            if read is not None:
                self._repeated = (*self._repeated[: _MOST_REPEATED - 1], read)
        self.on_response_complete()

    def _answers_repeated(self, data: bytes) -> bool:
        """Answers a request with a head that is known, if that is all that came; the parser, which
        sees nothing of it, stands between two requests before and after."""
        cycle = self.cycle
        if not self._is_idle or len(data) > self._prompt.prompt_bytes:
            return False
        request = None
        for head in self._repeated:
            if (request := head.request_in(data)) is not None:
                break
        answer = None if request is None else self._prompt.prompt_answer(*request)
        if request is None or answer is None:
            return False
        # The reaper takes another scope for progress.
        self.scope = cycle.scope = cast(Any, request[0])
        if isinstance(answer, PendingAnswer):
            cycle.response_started = cycle.response_complete = False
            self._answer_later(answer, cycle, partial(self._answer_again, cycle))
        else:
            self._write(cycle, answer)
        return True

    def _answer_again(self, cycle: RequestResponseCycle, answer: PlainResponse) -> None:
        self._write(cycle, answer)
        self.on_response_complete()

    def _answer_later(
        self,
        pending: PendingAnswer,
        cycle: RequestResponseCycle,
        answer_with: Callable[[PlainResponse], None],
    ) -> None:
        """Has the request of the cycle answered once the answer is there."""

        def finish(awaited: Future[Any]) -> None:
            self.tasks.discard(cast(Any, pending.awaited))
            if awaited.cancelled():
                return
            answer = pending.answer(awaited)
            if not (cycle.disconnected or self.transport.is_closing()):
                answer_with(answer)

        # The server waits for these before it ends.
        self.tasks.add(cast(Any, pending.awaited))
        pending.awaited.add_done_callback(finish)

    @property
    def _is_idle(self) -> bool:
        """Whether the last request is answered, the next has not begun, and nothing is amiss."""
        cycle, flow = self.cycle, self.flow
        is_over = cycle.scope is self.scope and cycle.response_complete and not cycle.more_body
        if not is_over or self._unread or flow.write_paused or self.transport.is_closing():
            return False
        # They are others once the server ends.
        return cycle.keep_alive and cycle.default_headers is self.server_state.default_headers

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        path = cycle.scope["path"]
        below = self._prompt_paths.get(path, 0)
        if self._may_refuse(path):
            below = max(below, MOST_HEAD_BYTES)
        is_awaited = cycle.more_body and not cycle.waiting_for_100_continue
        if is_awaited and _announced(cycle.scope["headers"]) < below:
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _run_held(self) -> None:
        cycle, self._held = self._held, None
        super()._start_asgi_task(cycle, self.app)  # type: ignore[arg-type]

    def _write(self, cycle: RequestResponseCycle, answer: PlainResponse) -> None:
        """All that `RequestResponseCycle.send` does for a whole answer."""
        length = (b"content-length", b"%d" % len(answer.body))
        headers = [*cycle.default_headers, *answer.headers, length]
        if _CLOSE in headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            headers.append(_CLOSE)
        pieces = [STATUS_LINE[answer.status]]
        for name, value in headers:
            pieces += (name, b": ", value, b"\r\n")
        pieces += (b"\r\n", answer.body)
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join(pieces))
        if not cycle.keep_alive:
            self.transport.close()

    @property
    def _is_receiving(self) -> bool:
        """Whether a message has begun and is not whole.

        Also true after an answer that came before the whole body: uvicorn does not tell whether
        that has come since.
        """
        cycle = self.cycle
        is_whole = cycle is not None and cycle.scope is self.scope and not cycle.more_body
        return bool(self.scope) and not is_whole

    @property
    def _owes_answer(self) -> bool:
        """Whether a whole request is still to be answered."""
        cycle = self.cycle
        if self.pipeline:
            return True
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _check_head(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            raise _Refused(Reason.LARGE_HEAD)

    def _end(self, reason: Reason, answer: bytes | None = None) -> None:
        """Say why if it is this message's turn to be answered, then close."""
        if not self._ended:
            self._ended = True
            self.metrics.count_closed(reason)
        if reason is Reason.SLOW_READER:
            self.transport.abort()
        elif self._owes_answer:
            self.shutdown()
            self.flow.pause_reading()
        else:
            self._answer(ANSWERS.get(reason) if answer is None else answer)
            self.transport.close()

    def _answer(self, answer: bytes | None) -> None:
        cycle = self.cycle
        is_begun = cycle is not None and cycle.scope is self.scope and cycle.response_started
        if answer is not None and not is_begun:
            self.transport.write(answer)


def protocol_of(settings: Settings, metrics: Metrics) -> type[BoundedProtocol]:
    """The class of the connections of one server: uvicorn makes an object of it for each.

    Raises the process's limit of open files as far as it goes.
    """
    metrics.begin_connections()
    bounds = {
        "reaper": SlowClientReaper(settings.receive_seconds, settings.keep_alive_seconds),
        "metrics": metrics,
        "most_connections": connections_that_fit(settings.max_connections),
    }
    return type("Connection", (BoundedProtocol,), bounds)
