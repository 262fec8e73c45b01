"""A connection on which a test may do what no HTTP client would."""

import json
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import httpx

from app.api.server.protocol import BoundedProtocol
from tests.api.problems import MEDIA_TYPE
from tests.api.running_service import RunningService, eventually

PATIENCE_SECONDS = 120
QUESTION = b'{"target": "click", "campaign": "a", "scores": [0.5]}'


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    def problem(self, status: int, slug: str) -> dict[str, Any]:
        """The problem that it carries, which must be of that kind and the connection's last."""
        assert self.status == status, self
        assert self.headers["content-type"] == MEDIA_TYPE
        assert self.headers["connection"] == "close"
        content: dict[str, Any] = json.loads(self.body)
        assert (content["status"], content["type"]) == (status, f"urn:sirocco:problem:{slug}")
        return content


class RawConnection:
    """Bytes out, answers in; anything that does not come in a long while is an error."""

    def __init__(self, service: RunningService, receive_buffer: int | None = None) -> None:
        url = httpx.URL(service.url)
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.connect((url.host, url.port))
        self._received = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_until_answered(self, data: bytes, seconds: float = 0.01) -> None:
        """The same bytes again and again, with pauses, until the service says or does something."""
        try:
            while not select.select([self._socket], [], [], seconds)[0]:
                self._socket.sendall(data)
        except ConnectionError:
            return

    def answer(self) -> RawAnswer:
        """The next answer."""
        head = self._until(b"\r\n\r\n").decode()
        first, *lines = head.splitlines()
        pairs = (line.split(": ", 1) for line in lines if line)
        headers = {name.lower(): value for name, value in pairs}
        length = int(headers.get("content-length", 0))
        while len(self._received) < length:
            self._received += self._more()
        body, self._received = self._received[:length], self._received[length:]
        return RawAnswer(int(first.split()[1]), headers, body)

    def read(self, most: int) -> bytes:
        """Some bytes; none at the end."""
        return self._socket.recv(most)

    def rest(self) -> bytes:
        """All that comes before the service closes, which it must."""
        rest = self._received
        try:
            while data := self._socket.recv(65536):
                rest += data
        except ConnectionResetError:
            pass
        return rest

    def is_alive(self) -> bool:
        """Whether the service still answers here."""
        self.send(get("/healthz"))
        return self.answer().status == 200

    def drop(self) -> None:
        """Gone without a goodbye."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def send_no_more(self) -> None:
        """Half closed: the service reads an end."""
        self._socket.shutdown(socket.SHUT_WR)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._received += self._more()
        found, _, self._received = self._received.partition(mark)
        return found

    def _more(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, f"closed after {self._received[:200]!r}"
        return data


@contextmanager
def raw(service: RunningService, receive_buffer: int | None = None) -> Iterator[RawConnection]:
    connection = RawConnection(service, receive_buffer)
    try:
        yield connection
    finally:
        connection.close()


def closed(service: RunningService, reason: str) -> float:
    """How many connections the service says it has ended for that reason."""
    return service.metric("sirocco_connections_closed_total", reason=reason) or 0.0


@contextmanager
def ends_one(service: RunningService, reason: str) -> Iterator[RawConnection]:
    """A connection that the service is to end for that reason."""
    before = closed(service, reason)
    with raw(service) as connection:
        yield connection
    eventually(lambda: closed(service, reason) == before + 1)


def get(path: str, *headers: str) -> bytes:
    """A request without a body."""
    lines = [f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""]
    return "\r\n".join(lines).encode()


def post(path: str, body: bytes = QUESTION, *headers: str, length: int | None = None) -> bytes:
    """A request with a body, and another length than that if one is given."""
    size = len(body) if length is None else length
    head = [f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def chunked(path: str, *pieces: bytes) -> bytes:
    """The head of a request in chunks, and bytes that follow it as they are."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(pieces)


@contextmanager
def parsed_heads() -> Iterator[list[bytes]]:
    """Paths of the heads that connections made meanwhile parse: a parser keeps what it calls."""
    parsed: list[bytes] = []
    parse = BoundedProtocol.on_headers_complete

    def noted(connection: BoundedProtocol) -> None:
        parsed.append(connection.url)
        parse(connection)

    with patch.object(BoundedProtocol, "on_headers_complete", noted):
        yield parsed
