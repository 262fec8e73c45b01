"""Puts load on a server: a few connections, one request at a time on each, all answers checked."""

import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CONNECTIONS = 16
TIMEOUT_SECONDS = 60.0
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def post(path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """An HTTP request with a body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {content_type}\r\n"
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
