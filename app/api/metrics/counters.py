"""What API processes count, at the cost of an addition, in memory that all of them share.

A row of numbers for each process, which adds to its own row on one thread; `/metrics` shows the
sums over all rows. A row outlives its process, and the successor goes on in it, so that no sum
falls. `MetricLayout` is the place of each series in a row, fixed at start: labels come from short
lists, so that no untrusted client can make a series, and what is on no list counts as `other`.
"""

import fcntl
import mmap
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import count, product
from time import perf_counter, time
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, PlatformCollector, disable_created_metrics
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.events.rejections import INVALID, UNKNOWN_TYPE
from app.events.schema import TYPE_NAMES
from app.tracing import RequestAbout, RequestTraces
from calibrators.arms import ARMS, RAW
from calibrators.maps.atlas import CAMPAIGN, GROUP, IDENTITY, TARGET


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
_BOUNDS: Final[list[str]] = [
    floatToGoString(bound)  # type: ignore[no-untyped-call]
    for bound in (*SECONDS, float("inf"))
]
_CODES: Final = (
    *(200, 201, 202, 204, 304, 307),
    *(400, 401, 403, 404, 405, 406, 408, 409, 411, 412, 413, 415, 422, 429),
    *(500, 503),
)
# The block of a route: requests by code and by duration, then the sum of all durations.
_BUCKETS: Final = len(SECONDS) + 1
CODES: Final = {code: place * _BUCKETS for place, code in enumerate(_CODES)}
_OTHER_CODE: Final = len(_CODES) * _BUCKETS
_SUM: Final = _OTHER_CODE + _BUCKETS
_BLOCK: Final = _SUM + 1

LEVELS: Final = (CAMPAIGN, GROUP, TARGET, IDENTITY, RAW)
EVENT_TYPES: Final = (*TYPE_NAMES.values(), UNKNOWN_TYPE)
RESULTS: Final = ("accepted", INVALID, "late", "future", "full")
GENERATIONS: Final = ("0", "1", "2")
# As the interpreter names what its collector has done: name of the family and its help.
COLLECTED: Final = {
    "collected": ("objects_collected", "Objects collected during gc"),
    "uncollectable": ("objects_uncollectable", "Uncollectable objects found during GC"),
    "collections": ("collections", "Number of times this generation was collected"),
}

Pairs = dict[tuple[str, str], int]
Exemplars = dict[tuple[str, int], Exemplar]
"""By route and bucket."""
Samples = Iterable[tuple[Sequence[str], float | None]]


@dataclass(frozen=True, slots=True)
class MetricLayout:
    """The place of every series; `routes` gives the first place of a route's block."""

    routes: dict[str, int]
    scores: Pairs
    arms: Pairs
    events: Pairs
    garbage: Pairs
    closed: dict[Reason, int]
    shed: dict[str, int]
    connections: int
    duplicates: int
    refused_versions: int
    last_good_failures: int

    @classmethod
    def of(cls, routes: Iterable[str], targets: Iterable[str]) -> Self:
        """Of an application with these routes and known targets."""
        targets = tuple(targets)
        names = (*dict.fromkeys(routes), OTHER)
        blocks = {name: place * _BLOCK for place, name in enumerate(names)}
        places = count(len(blocks) * _BLOCK)
        return cls(
            blocks,
            dict(zip(product(targets, LEVELS), places, strict=False)),
            dict(zip(product(targets, ARMS), places, strict=False)),
            dict(zip(product(EVENT_TYPES, RESULTS), places, strict=False)),
            dict(zip(product(COLLECTED, GENERATIONS), places, strict=False)),
            dict(zip(Reason, places, strict=False)),
            dict(zip(names, places, strict=False)),
            next(places),
            next(places),
            next(places),
            next(places),
        )

    @property
    def size(self) -> int:
        """How many places a row has."""
        return self.last_good_failures + 1

    @property
    def digest(self) -> bytes:
        """16 bytes that differ wherever any place differs."""
        text = repr((self, CODES, SECONDS))
        return blake2b(text.encode(), digest_size=16).digest()


# The digest of the layout and nothing else: rows begin on a cache line of their own.
_HEAD: Final = 64
_NUMBER: Final = 8


class LayoutsDiffer(ValueError):
    """The rows were begun by processes with another layout."""

    def __init__(self) -> None:
        super().__init__(
            "the metrics of the running processes have other series than those of this code and"
            " these settings: stop sirocco and start it again"
        )


class SharedCounters:
    """`rows` rows of float64, each with the places of the layout."""

    def __init__(self, memory: mmap.mmap, rows: int, layout: MetricLayout) -> None:
        self._memory = memory
        self._rows, self._size = rows, layout.size

    @classmethod
    def alone(cls, layout: MetricLayout) -> Self:
        """One row in memory of our own."""
        return cls(mmap.mmap(-1, _HEAD + _NUMBER * layout.size), 1, layout)

    @classmethod
    def shared(cls, file: int, offset: int, rows: int, layout: MetricLayout) -> Self:
        """The rows behind `offset` of an open file, which the first process gives its length.

        Raises LayoutsDiffer.
        """
        length = _HEAD + _NUMBER * layout.size * rows
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            memory = _opened(file, offset, length, layout.digest)
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
        return cls(memory, rows, layout)

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


def _opened(file: int, offset: int, length: int, digest: bytes) -> mmap.mmap:
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


def counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """The family of a counter; a sample that is None is left out."""
    return _with_samples(CounterMetricFamily(name, text, labels=labels), samples)


def gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """The family of a gauge; a sample that is None is left out."""
    return _with_samples(GaugeMetricFamily(name, text, labels=labels), samples)


def single(name: str, text: str, value: float | None) -> Metric:
    """The gauge `sirocco_{name}` of one number; without a sample where there is none."""
    return gauge(f"sirocco_{name}", text, [], [([], value)])


def _with_samples(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for values, number in samples:
        # An undefined value is no sample: NaN would hide in averages, zero would lie.
        if number is not None:
            family.add_metric(values, float(number))
    return family


class Metrics(Collector):
    """Adds to one row of the counters; `/metrics` shows the sum of all rows, behind `first`.

    What is counted must be counted on one thread: an addition is a read and a write.
    """

    def __init__(
        self,
        layout: MetricLayout,
        counters: SharedCounters,
        row: int = 0,
        first: Collector | None = None,
    ) -> None:
        # A second series per counter that says when it began is of no use here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.layout = layout
        self.row = counters.row(row)
        self.registry = CollectorRegistry()
        self._counters = counters
        self._routes, self._other = layout.routes, layout.routes[OTHER]
        self._scores, self._events = layout.scores, layout.events
        self._exemplars: Exemplars = {}
        if first is not None:
            self.registry.register(first)
        PlatformCollector(registry=self.registry)
        self.registry.register(self)

    def count_answer(self, about: RequestAbout, scored: Iterable[Any] = ()) -> None:
        """One request was answered; and how many scores each level of map served in it, by its
        `CalibratedScores`."""
        row, (route, code, seconds) = self.row, about
        block = self._routes.get(route, self._other)
        row[block + CODES.get(code, _OTHER_CODE) + bisect_left(SECONDS, seconds)] += 1.0
        row[block + _SUM] += seconds
        for part in scored:
            rows, target = part.rows, part.target
            number = len(rows)
            if part.arm:
                row[self.layout.arms[target, part.arm]] += number
            if part.arm == RAW:
                row[self._scores[target, RAW]] += number
                continue
            listed = isinstance(rows, list)
            others = rows.count(0) if listed else number - int(np.count_nonzero(rows))
            first, behind = part.atlas.rows_of_new
            if first < behind:
                # Those of versions for new campaigns stand among the rows of campaigns.
                of_all = np.asarray(rows)
                others += int(np.count_nonzero((of_all >= first) & (of_all < behind)))
            row[self._scores[target, part.atlas.shared_level]] += others
            row[self._scores[target, CAMPAIGN]] += number - others
            if part.atlas.has_groups:
                # What stands behind the rows of campaigns was counted as theirs.
                of_groups = int(np.count_nonzero(np.asarray(rows) > len(part.atlas)))
                row[self._scores[target, GROUP]] += of_groups
                row[self._scores[target, CAMPAIGN]] -= of_groups

    def keep_exemplar(self, route: str, seconds: float, trace_id: str) -> None:
        """A request of the route took so long, and this is its trace: the last of each bucket."""
        known = route if route in self._routes else OTHER
        exemplar = Exemplar({"trace_id": trace_id}, seconds, time())
        self._exemplars[known, bisect_left(SECONDS, seconds)] = exemplar

    def count_events(self, event_type: str, result: str, number: int = 1) -> None:
        """So many events of the type had the result accepted, invalid, late, future or full."""
        self.row[self._events[event_type, result]] += number

    def count_shed(self, route: str) -> None:
        """One request of the route was refused because of overload."""
        shed = self.layout.shed
        self.row[shed.get(route, shed[OTHER])] += 1.0

    def count_duplicates(self, number: int) -> None:
        """So many accepted events were stored already."""
        self.row[self.layout.duplicates] += number

    def begin_connections(self) -> None:
        """None is open: connections do not outlive their process, but its row does."""
        self.row[self.layout.connections] = 0.0

    def count_connections(self, number: int) -> None:
        """So many more connections are open, or fewer."""
        self.row[self.layout.connections] += number

    def count_closed(self, reason: Reason) -> None:
        """A connection was ended, or not taken, for the reason."""
        self.row[self.layout.closed[reason]] += 1.0

    def collect(self) -> Iterator[Metric]:
        """The families of what was counted, over all processes."""
        layout, total = self.layout, self._counters.total()
        for kind, (name, text) in COLLECTED.items():
            places = {(of,): layout.garbage[kind, of] for of in GENERATIONS}
            yield _family(f"python_gc_{name}", text, ["generation"], places, total)
        yield from _request_families(layout, total, self._exemplars)
        text = "Scores calibrated, by the level of map that served them."
        yield _family("sirocco_scores", text, ["target", "level"], layout.scores, total, empty=None)
        text = "Scores of units calibrated, by the arm that each unit is in."
        yield _family("sirocco_arm_scores", text, ["target", "arm"], layout.arms, total, empty=None)
        text = "Events received: accepted (stored, now or before), invalid, late, future or full."
        yield _family("sirocco_events", text, ["type", "result"], layout.events, total, empty=None)
        text = "Accepted events that were stored already."
        yield _family("sirocco_duplicate_events", text, [], {(): layout.duplicates}, total)
        text = "Published versions that could not be read."
        yield _family("sirocco_refused_versions", text, [], {(): layout.refused_versions}, total)
        text = "Versions that could not be kept on this host's disk."
        failures = {(): layout.last_good_failures}
        yield _family("sirocco_last_good_failures", text, [], failures, total)
        text, shed = "Requests refused because of overload.", layout.shed
        places = {(route,): place for route, place in shed.items()}
        yield _family("sirocco_shed", text, ["route"], places, total, empty=None)
        text, closed = "Connections closed on the caller.", layout.closed
        places = {(reason.value,): place for reason, place in closed.items()}
        yield _family("sirocco_connections_closed", text, ["reason"], places, total)


def _family(
    name: str,
    text: str,
    labels: list[str],
    places: Mapping[Any, int],
    total: NDArray[np.float64],
    empty: float | None = 0.0,
) -> Metric:
    """The counter whose series, by their labels' values, are at these places; `empty` for 0."""
    samples = ((values, float(total[place]) or empty) for values, place in places.items())
    return counter(name, text, labels, samples)


def _request_families(
    layout: MetricLayout, total: NDArray[np.float64], exemplars: Exemplars
) -> Iterator[Metric]:
    """Requests by route and code, and the histogram of their durations by route, with exemplars
    among those that this process has answered."""
    codes = [*map(str, CODES), OTHER]
    requests = CounterMetricFamily(
        "sirocco_requests", "Requests answered.", labels=["route", "code"]
    )
    text = "Time from a request's head to the end of its answer."
    seconds = HistogramMetricFamily("sirocco_request_seconds", text, labels=["route"])
    for route, first in layout.routes.items():
        block = total[first : first + _SUM].reshape(-1, _BUCKETS)
        for code, number in zip(codes, block.sum(axis=1).tolist(), strict=True):
            if number:
                requests.add_metric([route, code], number)
        counts = block.sum(axis=0).cumsum().tolist()
        if counts[-1]:
            traced = (exemplars.get((route, place)) for place in range(_BUCKETS))
            buckets = [
                (bound, number) if exemplar is None else (bound, number, exemplar)
                for bound, number, exemplar in zip(_BOUNDS, counts, traced, strict=True)
            ]
            seconds.add_metric([route], buckets, float(total[first + _SUM]))
    yield from (requests, seconds)


class Measured:
    """Wraps an ASGI application: counts and times every request by `scope["route"]`, which routing
    leaves behind; a path without a route is `other`, so that it makes no label."""

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: RequestTraces | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._traces = traces

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
            route = getattr(scope.get("route"), "path", OTHER)
            about = RequestAbout(route, code, perf_counter() - started)
            self._metrics.count_answer(about)
            if self._traces is not None:
                self._traces.add(scope, about)
