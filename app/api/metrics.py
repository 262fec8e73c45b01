"""Everything `/metrics` says, in one registry per application."""

from functools import lru_cache
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

_KEPT: Final = 256
_SECONDS: Final = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0),
)


class Metrics:
    """What the process counts itself; `MapCollector` adds what it reads from the snapshot."""

    def __init__(self) -> None:
        # A second series per counter that says when it began is of no use here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = Counter(
            "sirocco_requests", "Requests answered.", ["route", "code"], registry=self.registry
        )
        self._seconds = Histogram(
            "sirocco_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._scores = Counter(
            "sirocco_scores",
            "Scores calibrated, by the level of map that served them.",
            ["target", "level"],
            registry=self.registry,
        )
        self._events = Counter(
            "sirocco_events",
            "Events received: accepted (stored, now or before), invalid, late, future or full.",
            ["type", "result"],
            registry=self.registry,
        )
        self._duplicates = Counter(
            "sirocco_duplicate_events",
            "Accepted events that were stored already.",
            registry=self.registry,
        )
        # Finding a child by its labels costs more than counting: those of the hot routes are kept.
        self._requests_of = lru_cache(_KEPT)(self._requests.labels)
        self._seconds_of = lru_cache(_KEPT)(self._seconds.labels)
        self._scores_of = lru_cache(_KEPT)(self._scores.labels)

    def count_request(self, route: str, code: int, seconds: float) -> None:
        """One request of the route was answered with the status code."""
        self._seconds_of(route).observe(seconds)
        self._requests_of(route, code).inc()

    def count_scores(self, target: str, level: str, number: int) -> None:
        """So many scores were served by a map of the level."""
        if number:
            self._scores_of(target, level).inc(number)

    def count_events(self, event_type: str, result: str, number: int = 1) -> None:
        """So many events of the type had the result accepted, invalid, late, future or full."""
        self._events.labels(event_type, result).inc(number)

    def count_duplicates(self, number: int) -> None:
        """So many accepted events were stored already."""
        self._duplicates.inc(number)
