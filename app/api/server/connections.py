"""Open connections: how many may be open and are, how many were closed for what, the reaper of
those whose clients are too slow, and the heads that they send again and again.

Who asks for scores sends the same head each time, but for the length of the body and maybe ids. The
first such head is read by the server's parser, which is strict. A later one is compared with its
bytes: where only those values differ it says the same, and nobody parses it again.
"""

import logging
import re
import resource
from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Iterator
from enum import IntEnum
from itertools import islice
from math import ceil
from typing import Any, Final, Protocol, Self

from starlette.types import Scope

from app.api.authorization import CALLER
from app.settings import variable_of

# Redis, the log, the listening socket, the loop's own, and files that are open for a moment.
OTHER_FILES: Final = 128

_log = logging.getLogger(__name__)


def connections_that_fit(wanted: int) -> int:
    """How many connections of those wanted the process may open, at its highest limit of files.

    Raises the soft limit to the hard one, and logs a warning where that does not do.
    """
    files = _raised_limit()
    room = max(1, files - OTHER_FILES)
    if room >= wanted:
        return wanted
    _log.warning(
        "%s = %d: only %d connections fit, because this process may have %d open files at most; "
        "raise the hard limit (ulimit -Hn, LimitNOFILE) or lower the setting",
        variable_of("max_connections"),
        wanted,
        room,
        files,
    )
    return room


def _raised_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems say that there is no limit and then do not grant it.
            hard = soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30


_LOOKS: Final = 8
_LONGEST_PAUSE: Final = 5.0
# So few at a time that nobody waits for the reaper: some fifty microseconds.
_SLICE: Final = 100


class Phase(IntEnum):
    """What a connection is waiting for."""

    ANSWER = 0
    """For us: there is no bound on that."""
    IDLE = 1
    """For a request to begin."""
    REQUEST = 2
    """For the rest of a request."""
    READER = 3
    """For the caller to read what is written."""


class Watched(Protocol):
    """A connection as the reaper sees it; the attributes are the reaper's own."""

    phase: Phase
    progress: object
    age: int

    def state(self) -> tuple[Phase, object]:
        """The phase, and an object that is another one as soon as there is progress in it."""

    def expire(self, phase: Phase) -> None:
        """End the connection, which was too long in this phase."""


class SlowClientReaper:
    """Ends connections that were in one phase, without progress, for more than its seconds.

    Counts looks, not time: a process that was held up does not take it for a caller's silence.
    A connection is ended after its seconds and at most a quarter of the shortest more.
    """

    def __init__(self, receive_seconds: float, keep_alive_seconds: float) -> None:
        self._pause = min(receive_seconds / _LOOKS, keep_alive_seconds / _LOOKS, _LONGEST_PAUSE)
        receive = ceil(receive_seconds / self._pause)
        self._most = {
            Phase.IDLE: ceil(keep_alive_seconds / self._pause),
            Phase.REQUEST: receive,
            Phase.READER: receive,
        }
        self._running = False

    def start(self, loop: AbstractEventLoop, connections: Collection[Watched]) -> None:
        """Look after these connections until none is left; called with every new one."""
        if not self._running:
            self._running = True
            loop.call_later(self._pause, self._begin, loop, connections)

    def _begin(self, loop: AbstractEventLoop, connections: Collection[Watched]) -> None:
        self._running = bool(connections)
        if connections:
            self._go_on(loop, connections, iter(list(connections)))

    def _go_on(
        self, loop: AbstractEventLoop, connections: Collection[Watched], rest: Iterator[Watched]
    ) -> None:
        some = list(islice(rest, _SLICE))
        # First of all, so that no fault of one connection ends the looks.
        if some:
            loop.call_soon(self._go_on, loop, connections, rest)
        else:
            loop.call_later(self._pause, self._begin, loop, connections)
        for connection in some:
            if connection in connections:
                self._look(connection)

    def _look(self, connection: Watched) -> None:
        phase, progress = connection.state()
        if phase is not connection.phase or progress is not connection.progress:
            connection.phase, connection.progress, connection.age = phase, progress, 0
        elif phase is not Phase.ANSWER:
            connection.age += 1
            if connection.age >= self._most[phase]:
                connection.expire(phase)


Fits = Callable[[bytes], object]

_LENGTH: Final = b"content-length"
# Of a request by itself, of proxies, and of who traces.
_IDS: Final = b"""x-request-id traceparent tracestate b3 x-b3-traceid x-b3-spanid x-b3-parentspanid
    x-amzn-trace-id x-cloud-trace-context x-datadog-trace-id x-datadog-parent-id x-forwarded-for
    x-real-ip""".split()
_VISIBLE: Final = re.compile(rb"[\x21-\x7e]{1,128}(?: [\x21-\x7e]{1,128}){0,7}").fullmatch
_VARYING: Final[dict[bytes, Fits]] = {
    _LENGTH: re.compile(rb"[1-9][0-9]{0,6}").fullmatch,
    **dict.fromkeys(_IDS, _VISIBLE),
}
"""What may differ, and what it must be; anything else is for the parser."""
# They say how the message is framed, or what becomes of the connection.
_OF_THE_CONNECTION: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"connection"})
_KEPT: Final = (b"connection", b"keep-alive")


class RepeatedHead:
    """A head that was read; `request_in` finds it again in front of another body."""

    __slots__ = ("_end", "_headers", "_length", "_parts", "_scope")

    def __init__(self, scope: Scope, parts: list[tuple[bytes, int, Fits]], end: bytes) -> None:
        """Use `of`. Bytes in front of each value that varies, its place among the headers, and what
        it must be; and the bytes behind the last of them."""
        # Who was let in with one request is not let in with the next.
        self._scope = {name: value for name, value in scope.items() if name != CALLER}
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]
        self._length = [name for name, _ in self._headers].index(_LENGTH)
        self._parts, self._end = parts, end

    @classmethod
    def of(cls, data: bytes, scope: Scope, body: bytes) -> Self | None:
        """The head in `data`, which the parser has read as this scope and body.

        None unless these bytes alone, from the first to the last, say line by line what was read:
        what came before them must have no part in it.
        """
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        query, headers = scope["query_string"], scope["headers"]
        url = scope["raw_path"] + (b"?" + query if query else b"")
        if rest != body or first != b"POST " + url + b" HTTP/1.1" or headers != _read(lines):
            return None
        names = [name for name, value in headers if (name, value.lower()) != _KEPT]
        if names.count(_LENGTH) != 1 or not _OF_THE_CONNECTION.isdisjoint(names):
            return None
        return cls(scope, *_cut(first, lines, headers))

    def request_in(self, data: bytes) -> tuple[dict[str, Any], bytes] | None:
        """The scope and the body of the request if it is whole, alone, and has this head."""
        at, varying = 0, []
        for before, place, fits in self._parts:
            if not data.startswith(before, at):
                return None
            start = at + len(before)
            at = data.find(b"\r\n", start)
            value = data[start:at]
            if not fits(value):
                return None
            varying.append((place, value))
        headers = self._headers.copy()
        for place, value in varying:
            headers[place] = (headers[place][0], value)
        body = data[at + len(self._end) :]
        if not data.startswith(self._end, at) or int(headers[self._length][1]) != len(body):
            return None
        return {**self._scope, "headers": headers}, body


def _read(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    parts = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip(b" \t")) for name, _, value in parts]


def _cut(
    first: bytes, lines: list[bytes], headers: list[tuple[bytes, bytes]]
) -> tuple[list[tuple[bytes, int, Fits]], bytes]:
    parts, before = [], first
    for place, (line, (name, value)) in enumerate(zip(lines, headers, strict=True)):
        before += b"\r\n" + line
        if name in _VARYING:
            parts.append((before.removesuffix(value), place, _VARYING[name]))
            before = b""
    return parts, before + b"\r\n\r\n"
