"""What the process counts, at the cost of an addition, in memory that all API processes share.

The families of what API processes count, from the sum of their rows.
Counts and times every request, by route; pure ASGI.
"""

from bisect import bisect_left
from collections.abc import Iterator
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, PlatformCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.metrics.shared_counters import (
    BUCKETS,
    CODES,
    COLLECTED,
    OTHER,
    OTHER_CODE,
    SECONDS,
    SUM,
    Pairs,
    Slots,
    Tallies,
)

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


def families(slots: Slots, total: Total) -> Iterator[Metric]:
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


def _requests(slots: Slots, total: Total) -> Metric:
    family = CounterMetricFamily("sirocco_requests", "Requests answered.", labels=["route", "code"])
    codes = [*map(str, CODES), OTHER]
    for route, block in slots.routes.items():
        for code, number in zip(codes, _block(total, block).sum(axis=1).tolist(), strict=True):
            if number:
                family.add_metric([route, code], number)
    return family


def _seconds(slots: Slots, total: Total) -> Metric:
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


def _closed(slots: Slots, total: Total) -> Metric:
    family = CounterMetricFamily(
        "sirocco_connections_closed", "Connections closed on the caller.", labels=["reason"]
    )
    for reason, place in slots.closed.items():
        family.add_metric([reason], float(total[place]))
    return family


def _garbage(slots: Slots, total: Total) -> Iterator[Metric]:
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
        self, slots: Slots, tallies: Tallies, row: int = 0, first: Collector | None = None
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
