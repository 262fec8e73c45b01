"""Open-loop load: requests are sent when their time has come, whether or not answers are back.

Latency is the server's: from the moment a request was sent, or was due where it found every
connection waiting for an answer, until the kernel had its answer. So a server that stalls is
charged with everything that had to wait, and with nothing else: how late this process was, which
has a core to share, is kept apart, for sending and for reading. One thread, plain sockets and
`select`, whose timeout is exact to microseconds.
"""

import ctypes
import re
import select
import socket
import struct
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from time import monotonic, time_ns
from typing import NamedTuple

import numpy as np

from benchmarks.http import HOST, TIMEOUT_SECONDS

_CHUNK = 500
_READ_BYTES = 1 << 18
_PR_SET_TIMERSLACK = 29
_SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@qq")
_NS = 1e-9
_KEPT_ERRORS = 10
_ABOUT_BYTES = socket.CMSG_SPACE(_STAMP.size)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_VERSION = re.compile(rb"\r\nsirocco-version: *([^\r]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """One kind of request, its share of all, and the messages that it is drawn from."""

    name: str
    share: float
    messages: Sequence[bytes]
    varied: Callable[[bytes, int], bytes] | None = None
    """Makes the request of that number out of a message, where no two may be the same."""


class Response(NamedTuple):
    """What came back: to which message of which kind, the version in the head, the body."""

    kind: int
    message: int
    version: bytes
    body: bytes


@dataclass
class Record:
    """What happened to the requests of one kind: scheduled moments and latencies, in seconds."""

    scheduled: "array[float]" = field(default_factory=lambda: array("d"))
    latencies: "array[float]" = field(default_factory=lambda: array("d"))


class Load:
    """Requests over some connections, of kinds in their shares, each at a random time."""

    def __init__(self, port: int, kinds: Sequence[Kind], connections: int, seed: int) -> None:
        self.records = [Record() for _ in kinds]
        self.answers: Counter[Response] = Counter()
        self.lateness = array("d")
        self.read_lateness = array("d")
        self.waited = 0
        """Requests that found no free connection when their time came."""
        self.errors = self.saturated_errors = 0
        self.first_errors: list[str] = []
        self._kinds = kinds
        self._rng = np.random.default_rng(seed)
        self._port = port
        self._sent = 0
        self._free_since = 0.0
        # When the last connection was taken, since requests were last sent in time.
        self._full_since = inf
        # Taken in turns: one that lies idle for long is closed, as any server does.
        self._idle = deque(_Connection(port) for _ in range(connections))
        self._busy: dict[socket.socket, _Connection] = {}
        # Linux delays a sleeping thread by 50 us otherwise.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)

    def saturate(self, seconds: float) -> float:
        """Answers per second with all connections always busy; nothing of it is recorded."""
        plan, end, answered = self._drawn(None, 0.0), monotonic() + seconds, 0
        while monotonic() < end:
            while self._idle:
                _, kind, place = next(plan)
                self._send(self._message(kind, place), 0.0, kind, place)
            answered += len(self._receive(None))
        while self._busy:
            answered += len(self._receive(None))
        return answered / seconds

    def run(self, rate: float, seconds: float) -> None:
        """Send `rate` requests per second on average, and record what becomes of them."""
        plan = self._drawn(rate, monotonic())
        end = monotonic() + seconds
        request = next(plan)
        while (due := request[0]) < end:
            now = monotonic()
            if now >= due and self._idle:
                message = self._message(*request[1:])
                self._send(message, self._begin(monotonic(), due), *request[1:])
                request = next(plan)
                continue
            if self._idle:
                self._full_since = inf
            self._record(self._receive(max(0.0, due - now) if self._idle else None))
        while self._busy:
            self._record(self._receive(None))

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._idle, *self._busy.values()):
            connection.socket.close()

    def _drawn(self, rate: float | None, start: float) -> Iterator[tuple[float, int, int]]:
        """Moments, kinds and messages of requests without end."""
        shares = [kind.share for kind in self._kinds]
        at = start
        while True:
            gaps = self._rng.exponential(1 / rate, _CHUNK) if rate else np.zeros(_CHUNK)
            moments = at + np.cumsum(gaps)
            kinds = self._rng.choice(len(shares), _CHUNK, p=shares).tolist()
            places = self._rng.random(_CHUNK).tolist()
            for moment, kind, place in zip(moments.tolist(), kinds, places, strict=True):
                yield moment, kind, int(place * len(self._kinds[kind].messages))
            at = moments[-1]

    def _begin(self, now: float, due: float) -> float:
        """From when on a request that was due is the server's.

        Where every connection waits because we were late and sent much at once, what was due until
        then had to wait for us, and not for the server.
        """
        if due < self._free_since and self._full_since < inf:
            self.waited += 1
            return max(due, self._full_since)
        self.lateness.append(now - due)
        return now

    def _message(self, kind: int, place: int) -> bytes:
        about, number = self._kinds[kind], self._sent
        self._sent += 1
        message = about.messages[place]
        return message if about.varied is None else about.varied(message, number)

    def _send(self, message: bytes, begun: float, kind: int, place: int) -> None:
        connection = self._idle.popleft()
        self._busy[connection.socket] = connection
        if not self._idle:
            self._full_since = min(self._full_since, monotonic())
        connection.send(message, (begun, kind, place))

    def _receive(self, timeout: float | None) -> list["_Connection"]:
        """The connections whose answer is whole now."""
        patience = TIMEOUT_SECONDS if timeout is None else timeout
        readable, _, _ = select.select(list(self._busy), (), (), patience)
        if not readable and timeout is None:
            raise RuntimeError(f"no answer within {TIMEOUT_SECONDS:g} s")
        done = []
        for ready in readable:
            connection = self._busy[ready]
            if connection.receive():
                del self._busy[ready]
                done.append(connection)
                self._put_back(connection)
        return done

    def _put_back(self, connection: "_Connection") -> None:
        if connection.error:
            self._note(connection)
        if connection.is_broken:
            connection.socket.close()
            connection = _Connection(self._port)
        if not self._idle:
            self._free_since = connection.arrived
        self._idle.append(connection)

    def _note(self, failed: "_Connection") -> None:
        begun = failed.sent[0]
        waited = f"after {failed.arrived - begun:.2f} s" if begun else "saturated"
        self.errors += bool(begun)
        self.saturated_errors += not begun
        if len(self.first_errors) < _KEPT_ERRORS:
            at = datetime.now(UTC).strftime("%H:%M:%S")
            self.first_errors.append(f"{at} UTC, {waited}: {failed.error}")

    def _record(self, done: Sequence["_Connection"]) -> None:
        for connection in done:
            begun, kind, place = connection.sent
            record = self.records[kind]
            record.scheduled.append(begun)
            record.latencies.append(connection.arrived - begun)
            self.read_lateness.append(connection.read - connection.arrived)
            if not connection.error:
                self.answers[Response(kind, place, connection.version, connection.body)] += 1


class _Connection:
    """One request at a time, and its answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.sent = (0.0, 0, 0)
        self.body = self.version = b""
        self.error = ""
        self.is_broken = False
        self.arrived = self.read = monotonic()
        self._data = b""

    def send(self, message: bytes, sent: tuple[float, int, int]) -> None:
        self.sent, self.error, self._data = sent, "", b""
        try:
            self.socket.sendall(message)
        except OSError as error:
            self._break(f"not sent: {error}")

    def receive(self) -> bool:
        """Whether there is nothing more to come."""
        if self.is_broken:
            return True
        try:
            data, about, _, _ = self.socket.recvmsg(_READ_BYTES, _ABOUT_BYTES)
        except OSError as error:
            return self._break(f"not received: {error}")
        self.read = monotonic()
        self.arrived = self.read - _age(about)
        if not data:
            return self._break("the server closed the connection")
        self._data += data
        return self._is_whole()

    def _is_whole(self) -> bool:
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length and len(body) < int(length[1])):
            return False
        if not head.startswith(b"HTTP/1.1 200") or length is None:
            self.error = f"{head[:40]!r}: {body[:200]!r}"
        version = _VERSION.search(head)
        self.body, self.version = body, version[1] if version else b""
        return True

    def _break(self, error: str) -> bool:
        self.error, self.is_broken = error, True
        self.read = self.arrived = monotonic()
        return True


def _age(about: Sequence[tuple[int, int, bytes]]) -> float:
    """Seconds since the kernel received what was read; 0 where it does not say."""
    for _, kind, stamp in about:
        if kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _STAMP.unpack(stamp)
            age: float = (time_ns() - seconds * 1_000_000_000 - nanoseconds) * _NS
            return max(0.0, age)
    return 0.0
