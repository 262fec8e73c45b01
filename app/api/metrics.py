"""What the process counts, at the cost of an addition, in memory that all API processes share."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.api.slots import CODES, OTHER, OTHER_CODE, SECONDS, SUM, Slots
from app.api.tallies import Tallies
from app.api.tally_families import families

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

    def seconds_of(self, route: str) -> float:
        """How long the requests of the route have taken so far, all together."""
        return self.row[self._routes[route] + SUM]

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
