"""A server at its peak, and at three times that: how much it still does, and how soon.

The peak is what 16 connections get that send one request after the other. The overload comes over
600 connections: requests at random times, three times as many as at the peak, whether or not
answers are back; one that finds no free connection is not sent. Four of five are calibrations of
50 scores, the others 50 impressions, or all are calibrations. Goodput counts what was answered with
200, each kind by the server's processor time for it: 100 % is all that the server does at its peak;
by CPU, what it does in a second of its processor time, which says the same on a machine with other
work. (By requests alone the mix would count: events cost several calibrations, and are refused
first.) Latency is that of answers with 200, from the moment of sending.

    python -m benchmarks overload [--json]
"""

import re
import select
import socket
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
import orjson

from benchmarks.core.traffic import campaign_names, random_maps
from benchmarks.figures import Cell, Table
from benchmarks.http import HOST, TIMEOUT_SECONDS
from benchmarks.http.load import post
from benchmarks.http.servers import MAPS_SEED, Server, started
from benchmarks.machine import on_core
from benchmarks.parts import Part
from benchmarks.store import private_store
from calibrators import Atlas

SEED = 23
CALIBRATE, EVENTS = "/v1/calibrate", "/v1/events"
CAMPAIGNS, BATCH = 1_000, 50
AT = 1_767_225_600
_READ_BYTES = 1 << 16
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Sizes:
    """How much to measure; the share of events by the name of the row."""

    shares: Mapping[str, float] = field(
        default_factory=lambda: {"calibrations and events": 0.2, "calibrations": 0.0}
    )
    seconds: float = 5.0
    connections: int = 600
    times: float = 3.0


class Callers:
    """Connections with one request at a time, and what came of them."""

    def __init__(self, port: int, count: int, share: float) -> None:
        self.answered: Counter[tuple[str, int]] = Counter()
        self.latencies: dict[str, list[float]] = {CALIBRATE: [], EVENTS: []}
        self._rng = np.random.default_rng(SEED)
        self._share = share
        self._poll = select.epoll()
        self._idle = deque(socket.create_connection((HOST, port)) for _ in range(count))
        self._sockets = {one.fileno(): one for one in self._idle}
        self._received: dict[int, bytes] = {}
        self._sent: dict[int, tuple[str, float]] = {}
        for one in self._idle:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(one, select.EPOLLIN)
        self._messages = {path: _messages(path, self._rng) for path in (CALIBRATE, EVENTS)}

    def run(self, rate: float, seconds: float) -> float:
        """Seconds until all was answered; 0 for `rate` keeps all connections busy instead."""
        begun = monotonic()
        moments = iter(_moments(self._rng, rate, seconds) + begun)
        due = next(moments)
        while (now := monotonic()) < begun + seconds:
            while self._idle if rate == 0 else due <= now:
                if self._idle:
                    self._send()
                due = next(moments) if rate else due
            self._receive(max(0.0, due - now) if rate else TIMEOUT_SECONDS)
        while self._sent:
            self._receive(TIMEOUT_SECONDS)
        return monotonic() - begun

    def close(self) -> None:
        """Close all connections."""
        for one in self._sockets.values():
            one.close()

    def _send(self) -> None:
        path = EVENTS if self._rng.random() < self._share else CALIBRATE
        messages = self._messages[path]
        one = self._idle.popleft()
        self._sent[one.fileno()] = path, monotonic()
        one.sendall(messages[self.answered.total() % len(messages)])

    def _receive(self, timeout: float) -> None:
        for number, _ in self._poll.poll(timeout):
            data = self._received.pop(number, b"") + self._sockets[number].recv(_READ_BYTES)
            if not _is_whole(data):
                self._received[number] = data
                continue
            path, begun = self._sent.pop(number)
            status = int(data[9:12])
            self.answered[path, status] += 1
            if status == 200:
                self.latencies[path].append(monotonic() - begun)
            self._idle.append(self._sockets[number])


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def _moments(
    rng: np.random.Generator, rate: float, seconds: float
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    if not rate:
        return np.full(1, np.inf)
    gaps = rng.exponential(1 / rate, int(2 * rate * seconds) + 100)
    return np.append(np.cumsum(gaps), np.inf)


def _messages(path: str, rng: np.random.Generator) -> Sequence[bytes]:
    return [post(path, orjson.dumps(_content(path, rng))) for _ in range(64)]


def _content(path: str, rng: np.random.Generator) -> object:
    campaigns = rng.choice(campaign_names(CAMPAIGNS), BATCH).tolist()
    scores = rng.random(BATCH).tolist()
    if path == CALIBRATE:
        return {"target": "click", "campaigns": campaigns, "scores": scores}
    event = {"type": "impression", "occurred_at": AT}
    return [
        {**event, "campaign": name, "scores": {"click": score}}
        for name, score in zip(campaigns, scores, strict=True)
    ]


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each mix."""
    sizes = sizes or Sizes()
    with ExitStack() as opened, on_core(1):
        store = opened.enter_context(private_store())
        store.publish(Atlas.build(random_maps(CAMPAIGNS, MAPS_SEED)))
        server = opened.enter_context(started("sirocco", store.url))
        _run(server, 16, 0.5, 0.0, 1.0)
        return {name: _row(server, share, sizes) for name, share in sizes.shares.items()}


def _row(server: Server, share: float, sizes: Sizes) -> dict[str, Cell]:
    costs = {path: _cost(server, path) for path in (CALIBRATE, EVENTS)}
    before = server.cpu_seconds
    peak_run = _run(server, 16, share, 0.0, sizes.seconds)
    peak, begun = _rates(peak_run), server.cpu_seconds
    rate = sizes.times * sum(peak.values())
    callers, seconds = _run(server, sizes.connections, share, rate, sizes.seconds)
    kept, ended = _rates((callers, seconds)), server.cpu_seconds
    cpu_of_peak = (begun - before) / peak_run[1]
    cpu_of_kept = (ended - begun) / seconds
    shed = sum(number for (_, status), number in callers.answered.items() if status == 503)
    return {
        "peak, requests/s": sum(peak.values()),
        "answered, requests/s": sum(kept.values()),
        "calibrations of the peak, %": 100 * kept[CALIBRATE] / peak[CALIBRATE],
        "goodput, %": 100 * _work(kept, costs) / _work(peak, costs),
        "goodput by CPU, %": 100
        * (_work(kept, costs) / cpu_of_kept)
        / (_work(peak, costs) / cpu_of_peak),
        "refused, requests/s": shed / seconds,
        "p99 of calibrations, ms": _p99(callers.latencies[CALIBRATE]),
        "p99 of events, ms": _p99(callers.latencies[EVENTS]),
        "p99, ms": _p99([one for some in callers.latencies.values() for one in some]),
    }


def _cost(server: Server, path: str) -> float:
    """Seconds of the server's processor for an answer with 200."""
    before = server.cpu_seconds
    callers, _ = _run(server, 16, float(path == EVENTS), 0.0, 1.0)
    return (server.cpu_seconds - before) / callers.answered[path, 200]


def _p99(latencies: Sequence[float]) -> Cell:
    return 1e3 * float(np.percentile(latencies, 99)) if latencies else "none"


def _run(
    server: Server, connections: int, share: float, rate: float, seconds: float
) -> tuple[Callers, float]:
    callers = Callers(server.port, connections, share)
    took = callers.run(rate, seconds)
    callers.close()
    return callers, took


def _rates(run: tuple[Callers, float]) -> dict[str, float]:
    """Answers with 200 a second, by path."""
    callers, seconds = run
    return {path: callers.answered[path, 200] / seconds for path in (CALIBRATE, EVENTS)}


def _work(rates: Mapping[str, float], costs: Mapping[str, float]) -> float:
    return sum(rates[path] * costs[path] for path in rates)


PART = Part(
    name="overload",
    title="Three times more than a server can do",
    about=__doc__ or "",
    measure=measure,
)
