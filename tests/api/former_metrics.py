"""The same metrics by the classes of `prometheus_client`: slower, and right by construction."""

from prometheus_client import CollectorRegistry, Counter, Histogram

BOUNDS = [50e-6, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]


class FormerMetrics:
    """Counts like `Metrics`, by whatever labels it is given."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "sirocco_requests", "Requests answered.", ["route", "code"], registry=self.registry
        )
        self._seconds = Histogram(
            "sirocco_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["route"],
            buckets=BOUNDS,
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

    def count_request(self, route: str, code: int | str, seconds: float) -> None:
        self._seconds.labels(route).observe(seconds)
        self._requests.labels(route, code).inc()

    def count_scores(self, target: str, level: str, number: int) -> None:
        self._scores.labels(target, level).inc(number)

    def count_events(self, event_type: str, result: str, number: int = 1) -> None:
        self._events.labels(event_type, result).inc(number)

    def count_duplicates(self, number: int) -> None:
        self._duplicates.inc(number)
