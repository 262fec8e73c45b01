"""Rows of counts in one piece of memory: each process adds to its own row, anyone sums them all.

No two processes add to the same number, which would lose counts. A row outlives its process: the
successor goes on from there, so that no sum ever falls.

Where in a row of counts each series has its place: fixed at start, alike in every process.

Labels come from short lists, so that no stranger can make a series; what is on no list counts as
`other`.
Why a connection was closed that its caller had not agreed to close.

What the process counts, at the cost of an addition, in memory that all API processes share.

The families of what API processes count, from the sum of their rows.
Counts and times every request, by route; pure ASGI.
"""

import fcntl
import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import count, product
from time import perf_counter
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, PlatformCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.events.schema import INVALID, TYPE_NAMES, UNKNOWN_TYPE
from calibrators.maps.atlas import CAMPAIGN, IDENTITY, TARGET


class Reason(StrEnum):
    """The label `reason` of `sirocco_connections_closed_total`."""

    IDLE = "idle"
    SLOW_REQUEST = "slow_request"
    SLOW_READER = "slow_reader"
    LARGE_HEAD = "large_head"
    MALFORMED = "malformed"
    PIPELINED = "pipelined"
    TOO_MANY = "too_many"


OTHER: Final = "other"
SECONDS: Final = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0),
)
_CODES: Final = (
    *(200, 202, 204, 304, 307),
    *(400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 415, 422, 429),
    *(500, 503),
)
# The block of a route: requests by code and by duration, then the sum of all durations.
BUCKETS: Final = len(SECONDS) + 1
CODES: Final = {code: place * BUCKETS for place, code in enumerate(_CODES)}
OTHER_CODE: Final = len(_CODES) * BUCKETS
SUM: Final = OTHER_CODE + BUCKETS
_BLOCK: Final = SUM + 1

LEVELS: Final = (CAMPAIGN, TARGET, IDENTITY)
EVENT_TYPES: Final = (*TYPE_NAMES.values(), UNKNOWN_TYPE)
RESULTS: Final = ("accepted", INVALID, "late", "future", "full")
GENERATIONS: Final = ("0", "1", "2")
# As the interpreter names what its collector has done.
COLLECTED: Final = ("collected", "uncollectable", "collections")

Pairs = dict[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class MetricLayout:
    """The place of every series; `routes` gives the first place of a route's block."""

    routes: dict[str, int]
    scores: Pairs
    events: Pairs
    garbage: Pairs
    closed: dict[Reason, int]
    connections: int
    duplicates: int
    refused_versions: int

    @classmethod
    def of(cls, routes: Iterable[str], targets: Iterable[str]) -> Self:
        """Of an application with these routes and known targets."""
        names = (*dict.fromkeys(routes), OTHER)
        blocks = {name: place * _BLOCK for place, name in enumerate(names)}
        places = count(len(blocks) * _BLOCK)
        return cls(
            blocks,
            dict(zip(product(targets, LEVELS), places, strict=False)),
            dict(zip(product(EVENT_TYPES, RESULTS), places, strict=False)),
            dict(zip(product(COLLECTED, GENERATIONS), places, strict=False)),
            dict(zip(Reason, places, strict=False)),
            next(places),
            next(places),
            next(places),
        )

    @property
    def size(self) -> int:
        """How many places a row has."""
        return self.refused_versions + 1

    @property
    def digest(self) -> bytes:
        """16 bytes that differ wherever any place differs."""
        return blake2b(repr((self, CODES, SECONDS)).encode(), digest_size=16).digest()


# Whose slots the rows have, and nothing else: rows begin on a cache line of their own.
_HEAD: Final = 64
_NUMBER: Final = 8


class LayoutsDiffer(ValueError):
    """The rows were begun by processes whose series have other places."""

    def __init__(self) -> None:
        super().__init__(
            "the metrics of the running processes have other series than those of this code and"
            " these settings: stop sirocco and start it again"
        )


class SharedCounters:
    """`rows` rows of float64, each with the places of `slots`."""

    def __init__(self, memory: mmap.mmap, rows: int, slots: MetricLayout) -> None:
        self._memory = memory
        self._rows, self._size = rows, slots.size

    @classmethod
    def alone(cls, slots: MetricLayout) -> Self:
        """One row in memory of our own."""
        return cls(mmap.mmap(-1, _HEAD + _NUMBER * slots.size), 1, slots)

    @classmethod
    def shared(cls, file: int, offset: int, rows: int, slots: MetricLayout) -> Self:
        """The rows behind `offset` of an open file, which the first process gives its length.

        Raises LayoutsDiffer.
        """
        length = _HEAD + _NUMBER * slots.size * rows
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            memory = _begun(file, offset, length, slots.digest)
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
        return cls(memory, rows, slots)

    def row(self, row: int) -> "memoryview[float]":
        """The numbers of one row, to be added to by one thread of one process."""
        numbers = memoryview(self._memory)[_HEAD:].cast("d")
        return numbers[row * self._size : (row + 1) * self._size]

    def total(self) -> NDArray[np.float64]:
        """The sum of all rows."""
        number = self._rows * self._size
        numbers = np.frombuffer(self._memory, np.float64, number, offset=_HEAD)
        total: NDArray[np.float64] = numbers.reshape(self._rows, self._size).sum(axis=0)
        return total


def _begun(file: int, offset: int, length: int, digest: bytes) -> mmap.mmap:
    size = os.fstat(file).st_size
    if size not in (offset, offset + length):
        raise LayoutsDiffer
    os.ftruncate(file, offset + length)
    memory = mmap.mmap(file, length, offset=offset)
    if size == offset:
        memory[: len(digest)] = digest
    if memory[: len(digest)] != digest:
        raise LayoutsDiffer
    return memory


Total = NDArray[np.float64]

_BOUNDS: Final[list[str]] = [
    floatToGoString(bound)  # type: ignore[no-untyped-call]
    for bound in (*SECONDS, float("inf"))
]
_GARBAGE: Final = dict(
    zip(
        COLLECTED,
        (
            ("objects_collected", "Objects collected during gc"),
            ("objects_uncollectable", "Uncollectable objects found during GC"),
            ("collections", "Number of times this generation was collected"),
        ),
        strict=True,
    )
)


def families(slots: MetricLayout, total: Total) -> Iterator[Metric]:
    """All of them; a series that has counted nothing is left out."""
    yield from _garbage(slots, total)
    yield _requests(slots, total)
    yield _seconds(slots, total)
    yield _pairs(
        "sirocco_scores",
        "Scores calibrated, by the level of map that served them.",
        ["target", "level"],
        slots.scores,
        total,
    )
    yield _pairs(
        "sirocco_events",
        "Events received: accepted (stored, now or before), invalid, late, future or full.",
        ["type", "result"],
        slots.events,
        total,
    )
    yield CounterMetricFamily(
        "sirocco_duplicate_events",
        "Accepted events that were stored already.",
        float(total[slots.duplicates]),
    )
    yield CounterMetricFamily(
        "sirocco_refused_versions",
        "Published versions that could not be read.",
        float(total[slots.refused_versions]),
    )
    yield _closed(slots, total)


def _requests(slots: MetricLayout, total: Total) -> Metric:
    family = CounterMetricFamily("sirocco_requests", "Requests answered.", labels=["route", "code"])
    codes = [*map(str, CODES), OTHER]
    for route, block in slots.routes.items():
        for code, number in zip(codes, _block(total, block).sum(axis=1).tolist(), strict=True):
            if number:
                family.add_metric([route, code], number)
    return family


def _seconds(slots: MetricLayout, total: Total) -> Metric:
    family = HistogramMetricFamily(
        "sirocco_request_seconds",
        "Time from a request's head to the end of its answer.",
        labels=["route"],
    )
    for route, block in slots.routes.items():
        counts = _block(total, block).sum(axis=0).cumsum().tolist()
        if counts[-1]:
            buckets = list(zip(_BOUNDS, counts, strict=True))
            family.add_metric([route], buckets, float(total[block + SUM]))
    return family


def _block(total: Total, first: int) -> Total:
    """Requests of a route, a row for each code, a column for each duration."""
    return total[first : first + SUM].reshape(-1, BUCKETS)


def _pairs(name: str, text: str, labels: list[str], places: Pairs, total: Total) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, place in places.items():
        if number := total[place]:
            family.add_metric(values, float(number))
    return family


def _closed(slots: MetricLayout, total: Total) -> Metric:
    family = CounterMetricFamily(
        "sirocco_connections_closed", "Connections closed on the caller.", labels=["reason"]
    )
    for reason, place in slots.closed.items():
        family.add_metric([reason], float(total[place]))
    return family


def _garbage(slots: MetricLayout, total: Total) -> Iterator[Metric]:
    for kind, (name, text) in _GARBAGE.items():
        family = CounterMetricFamily(f"python_gc_{name}", text, labels=["generation"])
        for (of, generation), place in slots.garbage.items():
            if of == kind:
                family.add_metric([generation], float(total[place]))
        yield family


_ONE: Final = 1.0


class Metrics(Collector):
    """Adds to `row` of the tallies; `/metrics` shows the sum of all rows, behind what `first` says.

    What is counted must be counted on one thread: an addition is a read and a write.
    """

    def __init__(
        self,
        slots: MetricLayout,
        tallies: SharedCounters,
        row: int = 0,
        first: Collector | None = None,
    ) -> None:
        # A second series per counter that says when it began is of no use here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.slots = slots
        self.row = tallies.row(row)
        self.registry = CollectorRegistry()
        self._tallies = tallies
        self._routes, self._other = slots.routes, slots.routes[OTHER]
        self._scores, self._events = slots.scores, slots.events
        if first is not None:
            self.registry.register(first)
        PlatformCollector(registry=self.registry)
        self.registry.register(self)

    def count_request(self, route: str, code: int, seconds: float) -> None:
        """One request of the route was answered with the status code."""
        row = self.row
        block = self._routes.get(route, self._other)
        row[block + CODES.get(code, OTHER_CODE) + bisect_left(SECONDS, seconds)] += _ONE
        row[block + SUM] += seconds

    def count_scores(self, target: str, level: str, number: int) -> None:
        """So many scores were served by a map of the level."""
        self.row[self._scores[target, level]] += number

    def count_events(self, event_type: str, result: str, number: int = 1) -> None:
        """So many events of the type had the result accepted, invalid, late, future or full."""
        self.row[self._events[event_type, result]] += number

    def count_duplicates(self, number: int) -> None:
        """So many accepted events were stored already."""
        self.row[self.slots.duplicates] += number

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The families of what was counted, over all processes."""
        return families(self.slots, self._tallies.total())


# Paths of strangers must not become labels.
_NO_ROUTE = "other"


class Measured:
    """Wraps an application; `scope["route"]`, which routing leaves behind, names the route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        code = 500
        started = perf_counter()

        async def send_and_look(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._metrics.count_request(route, code, perf_counter() - started)
