"""`sirocco serve --workers N` in processes of its own, and what its callers see of it."""

import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread
from time import monotonic

import httpx
from prometheus_client.parser import text_string_to_metric_families

from app.api.server.server import _IDLE_SECONDS
from tests.command_line.conftest import SECONDS, Started
from tests.command_line.test_up import wait_until
from tests.loopback import LOOPBACK
from tests.reserved_ports import reserved_port

CALIBRATE = "/v1/calibrate"
# Each request on a connection of its own; quicker than a client of its own.
NEW_CONNECTIONS = httpx.Limits(max_keepalive_connections=0)
PAUSE_SECONDS = 0.01
QUESTION = {"target": "click", "campaign": "a", "scores": [0.25]}


@dataclass
class ApiWorkers:
    """A running parent and its address."""

    process: Popen[str]
    port: int
    http: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers that run."""
        parent = self.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [int(child) for child in children if b"--as-worker" in command_line(child)]

    def metric(self, name: str, **labels: str) -> float | None:
        """What a worker says, on a connection of its own; None if it says nothing of that name."""
        lines = self.http.get(f"{self.url}/metrics").text.splitlines(keepends=True)
        text = "".join(line for line in lines if line.startswith(name))
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if (sample.name, sample.labels) == (name, labels):
                    return float(sample.value)
        return None

    def readiness(self) -> httpx.Response:
        """What a worker says to a balancer."""
        return self.http.get(f"{self.url}/readyz")

    @property
    def counted(self) -> float:
        """Requests for probabilities that the service says it has answered."""
        return self.metric("sirocco_requests_total", route=CALIBRATE, code="200") or 0.0

    @property
    def serving(self) -> float:
        """How many workers the service says are serving; 0 while it says nothing."""
        try:
            return self.metric("sirocco_workers") or 0.0
        except httpx.TransportError:
            return 0.0

    def ask(self, times: int) -> None:
        """So many questions, each on a connection of its own."""
        for _ in range(times):
            answer = self.http.post(f"{self.url}{CALIBRATE}", json=QUESTION)
            assert answer.status_code == 200, answer.text


def client(limits: httpx.Limits) -> httpx.Client:
    """A patient one."""
    return httpx.Client(limits=limits, **LOOPBACK)


def command_line(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def serve(started: Started, folder: Path, command: str = "serve") -> ApiWorkers:
    """Two workers on an embedded Redis, once both serve."""
    port = reserved_port()
    given = ("--workers", 2, "--port", port, "--data-dir", folder)
    running = ApiWorkers(started(command, *given), port, client(NEW_CONNECTIONS))
    wait_until(lambda: running.serving == 2, "both workers serve")
    return running


@dataclass
class Caller:
    """Asks one question after the other, and remembers what went wrong."""

    url: str
    keeps_alive: bool
    stop: Event
    answered: int = 0
    failures: list[str] = field(default_factory=list)
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        limits = httpx.Limits() if self.keeps_alive else NEW_CONNECTIONS
        with client(limits) as http:
            # Without a pause callers would take the processor from those that are to start.
            while not self.stop.wait(PAUSE_SECONDS):
                self._ask(http)

    def _ask(self, http: httpx.Client) -> None:
        try:
            code = self._answer(http).status_code
        except httpx.HTTPError as error:
            self.failures.append(repr(error))
            return
        self.answered += code == 200
        if code != 200:
            self.failures.append(str(code))

    def _answer(self, http: httpx.Client) -> httpx.Response:
        begun = monotonic()
        try:
            return http.post(f"{self.url}{CALIBRATE}", json=QUESTION)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            # An idle connection may be closed at any time; one just made for this may not, unless
            # we were held up before we could use it.
            if not self.keeps_alive and monotonic() - begun < _IDLE_SECONDS:
                raise
            return http.post(f"{self.url}{CALIBRATE}", json=QUESTION)


def half_a_request(port: int) -> tuple[socket.socket, bytes]:
    """A connection on which a request has begun, and the rest of it."""
    body = b'{"target": "click", "campaign": "a", "scores": [0.25]}'
    head = b"POST /v1/calibrate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:20])
    return connection, body[20:]


def end(process: Popen[str]) -> str:
    """Tell the parent to end; what it said on stderr."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=SECONDS)[1]
