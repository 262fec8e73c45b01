"""A proxy on loopback that passes requests on, except for those that it was told to spoil."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

import httpx

_HOP_BY_HOP: Final = {"content-length", "connection", "transfer-encoding", "host"}
TRICKLES: Final = 400
TRICKLE_SECONDS: Final = 0.01


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class FaultyProxy:
    """`with FaultyProxy(url) as proxy`: `proxy.url` leads to the service at `url`.

    `faults` says what happens to the next requests, one each; `always` to all others.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.faults: deque[Fault] = deque()
        self.always: Fault = passes
        self.seen: list[Seen] = []
        self.released = threading.Event()
        self._http = httpx.Client(timeout=60)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The proxy's own address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def forward(self, seen: Seen) -> Answer:
        """What the service answers."""
        headers = {k: v for k, v in seen.headers.items() if k.lower() not in _HOP_BY_HOP}
        found = self._http.request(
            seen.method, self.upstream + seen.path, headers=headers, content=seen.body
        )
        kept = {k: v for k, v in found.headers.items() if k.lower() not in _HOP_BY_HOP}
        return Answer(found.status_code, found.content, kept)

    def handle(self, handler: "_Handler", seen: Seen) -> None:
        """One request."""
        self.seen.append(seen)
        fault = self.faults.popleft() if self.faults else self.always
        fault(self, handler, seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._http.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: FaultyProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        seen = Seen(self.command, self.path, dict(self.headers.items()), body)
        self.server.proxy.handle(self, seen)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def answer(self, answer: Answer, sent: int | None = None) -> None:
        """Send it, or only so many bytes of its body."""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[:sent])
        self.close_connection = sent is not None


Fault = Callable[[FaultyProxy, _Handler, Seen], None]


def passes(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """No fault."""
    handler.answer(proxy.forward(seen))


def loses_the_answer(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """The service does its work, and nobody hears of it."""
    proxy.forward(seen)
    handler.close_connection = True


def drops(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """The connection ends before the service has heard anything."""
    handler.close_connection = True


def cuts_short(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """Half of the answer comes."""
    answer = proxy.forward(seen)
    handler.answer(answer, len(answer.body) // 2)


def stalls(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """Nothing comes until the end of the test."""
    proxy.released.wait()
    handler.close_connection = True


def trickles(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
    """The answer comes byte by byte: no single read waits long."""
    handler.send_response(200)
    handler.send_header("content-length", str(TRICKLES))
    handler.end_headers()
    for _ in range(TRICKLES):
        handler.wfile.write(b" ")
        time.sleep(TRICKLE_SECONDS)


def answers(status: int, body: bytes = b"{}", **headers: str) -> Fault:
    """This, whatever was asked."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
        handler.answer(Answer(status, body, named))

    return answer


def spoils(change: Callable[[bytes], bytes]) -> Fault:
    """The service's answer with another body."""

    def spoil(proxy: FaultyProxy, handler: _Handler, seen: Seen) -> None:
        found = proxy.forward(seen)
        handler.answer(Answer(found.status, change(found.body), found.headers))

    return spoil
