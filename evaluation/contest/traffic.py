"""What a contest is played on: a platform whose truth is known, or a log whose truth is not."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.event_table import SECONDS_PER_HOUR, EventTable


class TrafficHour(Protocol):
    """Impressions of one hour, and their true probabilities, (n,), where these are known."""

    @property
    def events(self) -> EventTable:
        """The impressions."""

    @property
    def truth(self) -> Floats | None:
        """Their true probabilities, or None."""


class Traffic(Protocol):
    """Impressions hour by hour; hour 0 begins at `start`, epoch seconds, a whole hour."""

    @property
    def start(self) -> float:
        """Epoch seconds at which hour 0 begins."""

    @property
    def names(self) -> tuple[str, ...]:
        """The campaigns of all hours, ascending; rows of every hour point at them."""

    def hour(self, hour: int, /) -> TrafficHour:
        """The impressions of one hour."""


@dataclass(frozen=True, slots=True, eq=False)
class LogHour:
    """Impressions of a log's hour; nobody knows their truth."""

    events: EventTable
    truth: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LogTraffic:
    """A log as traffic: the rows in the order of time, the first one's hour is hour 0.

    >>> log = LogTraffic.of(EventTable.from_columns([7200, 3600], ["a", "b"], [0.1, 0.2], [0, 1]))
    >>> log.hours, log.hour(1).events.scores.tolist()
    (2, [0.1])
    """

    table: EventTable
    bounds: Integers

    @classmethod
    def of(cls, table: EventTable) -> "LogTraffic":
        """The traffic of a log; ValueError when it is empty."""
        if not len(table):
            raise ValueError("table: there are no impressions")
        ordered = table.select(np.argsort(table.times, kind="stable"))
        hours = ordered.hours
        bounds = np.searchsorted(hours, np.arange(hours[0], hours[-1] + 2))
        return cls(ordered, bounds)

    @property
    def start(self) -> float:
        """See `Traffic`."""
        return float(self.table.hours[0]) * SECONDS_PER_HOUR

    @property
    def names(self) -> tuple[str, ...]:
        """See `Traffic`."""
        return self.table.campaigns

    @property
    def hours(self) -> int:
        """How many hours the log spans."""
        return len(self.bounds) - 1

    def hour(self, hour: int, /) -> LogHour:
        """See `Traffic`; empty beyond the log."""
        if not 0 <= hour < self.hours:
            return LogHour(self.table.select(np.empty(0, np.int64)))
        return LogHour(self.table.select(np.arange(self.bounds[hour], self.bounds[hour + 1])))
