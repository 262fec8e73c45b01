"""Closed-loop load over HTTP: connections with one request at a time, every response checked; and
ways to send requests to servers, a round of each in turn, timed on the server and on the wire.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Self

from benchmarks.figures import Cell, Figure
from benchmarks.http import HOST, TIMEOUT_SECONDS
from benchmarks.http.bodies import ScoresRequest
from benchmarks.http.servers import CORE, Server
from benchmarks.noise_gate import NoiseGate, piece_seconds
from calibrators.samples import Floats

CONNECTIONS = 16
_READ_BYTES = 1 << 20
_LAST_CHUNK = b"0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Connections:
    """`with Connections(port)`: kept alive between requests."""

    def __init__(self, port: int, count: int = CONNECTIONS) -> None:
        self._opened = ExitStack()
        self._sockets = [
            self._opened.enter_context(socket.create_connection((HOST, port), TIMEOUT_SECONDS))
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def send(self, requests: Sequence[bytes]) -> bytes:
        """Send every request once, in order; the body of the last answer.

        Raises RuntimeError on an answer other than 200.
        """
        body = b""
        for start in range(0, len(requests), len(self._sockets)):
            sent = requests[start : start + len(self._sockets)]
            for connection, message in zip(self._sockets, sent, strict=False):
                connection.sendall(message)
            for connection, _ in zip(self._sockets, sent, strict=False):
                body = _answer(connection)
        return body


def post(
    path: str,
    body: bytes,
    content_type: str = "application/json",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """An HTTP request with a body."""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {content_type}\r\n{more}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get(path: str) -> bytes:
    """An HTTP request without one."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def _answer(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server answered {head[:40]!r}: {body[:200]!r}")
    found = _LENGTH.search(head)
    if found is None:
        return _unchunked(connection, body)
    while len(body) < int(found[1]):
        body += _more(connection)
    return body


def _unchunked(connection: socket.socket, data: bytes) -> bytes:
    """The body that comes in chunks, each after its length."""
    while not data.endswith(_LAST_CHUNK):
        data += _more(connection)
    body = b""
    while data != _LAST_CHUNK:
        length, _, data = data.partition(b"\r\n")
        end = int(length, 16)
        body, data = body + data[:end], data[end + 2 :]
    return body


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(_READ_BYTES)
    if not data:
        raise RuntimeError("the server closed the connection")
    return data


@dataclass(frozen=True)
class Rounds:
    """How long each way has its turn."""

    seconds: float
    """Of the server's CPU, about."""
    most_requests: int
    patience_seconds: float = 0.0
    """For repeating those during which the server's core was slowed."""


@dataclass
class Way:
    """One server asked in one way, and what a request took in each round, in seconds."""

    server: Server
    message: Callable[[ScoresRequest], bytes]
    probabilities: Callable[[bytes], Floats] | None
    """Reads an answer; None: it is the body of the request."""
    rounds: int
    connections: int = CONNECTIONS
    exact: bool = True
    """Whether scores and probabilities are doubles."""
    one_campaign: bool = False
    """Whether all scores are of the first campaign."""
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def send(self, messages: Sequence[bytes], repeats: int) -> tuple[float, float]:
        """Seconds of CPU and of wall time per request, on connections that are open and warm."""
        count = len(messages) * repeats
        with self.server.awake(), Connections(self.server.port, self.connections) as connections:
            connections.send(messages[: self.connections])
            cpu, wall = self.server.cpu_seconds, perf_counter()
            connections.send(list(messages) * repeats)
            wall = perf_counter() - wall
            return (self.server.cpu_seconds - cpu) / count, wall / count

    def ask(self, message: bytes) -> bytes:
        """The answer to one request."""
        with self.server.awake(), Connections(self.server.port, 1) as connection:
            return connection.send([message])

    def cells(self, column: str) -> dict[str, Cell]:
        """Microseconds of CPU in the column, and of wall time in the one beside it."""
        return {
            column: Figure.of(self.cpu).times(1e6),
            f"{column}, wall": Figure.of(self.wall).times(1e6),
        }


def take_turns(
    ways: Mapping[str, Way], messages: Mapping[str, Sequence[bytes]], rounds: Rounds
) -> None:
    """Fill `cpu` and `wall` of all ways anew."""
    repeats = {name: _repeats(way, messages[name], rounds) for name, way in ways.items()}
    for way in ways.values():
        way.cpu, way.wall = [], []
    gate = NoiseGate(rounds.patience_seconds, partial(piece_seconds, CORE))
    for turn in gate.turns(max(way.rounds for way in ways.values())):
        for name, way in ways.items():
            if turn < way.rounds:
                cpu, wall = gate.round(partial(way.send, messages[name], repeats[name]))
                way.cpu.append(cpu)
                way.wall.append(wall)


def _repeats(way: Way, messages: Sequence[bytes], rounds: Rounds) -> int:
    """How often to send the messages in a round."""
    once = max(way.send(messages, 1)[0] * len(messages), 1e-6)
    return max(1, min(round(rounds.seconds / once), rounds.most_requests // len(messages)))
