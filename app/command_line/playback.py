"""Traffic played through a running service in event time, hour by hour."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.command_line.event_messages import Messages
from app.command_line.judged import Floats
from app.command_line.service_client import ServiceClient
from evaluation import EventTable

SECONDS_PER_HOUR = 3600
_REFIT_SECONDS = 300.0
_SERVING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Hour:
    """The traffic of one hour; `number` counts hours since 1970."""

    number: int
    events: EventTable


@dataclass(frozen=True, slots=True)
class Playback:
    """How traffic of one target is played through a service.

    `messages` turns an hour's events into what is posted; `batch` is how many scores, and how
    many events, go into one request.
    """

    service: ServiceClient
    target: str
    messages: Messages
    batch: int = 10_000

    def play(self, hours: Iterable[Hour]) -> Iterator[tuple[Hour, Floats]]:
        """Each hour with its probabilities, (n,), asked for before any of its outcomes is known.

        Every hour but the first is served by maps fitted as of its start; a last refit closes the
        last hour.
        """
        end = None
        for hour in hours:
            if end is not None:
                self.refit(hour.number)
            yield hour, self.calibrate(hour.events)
            self.post(hour.events)
            end = hour.number + 1
        if end is not None:
            self.refit(end)

    def calibrate(self, events: EventTable) -> Floats:
        """What the ad server asks for: a probability for every score, (n,)."""
        campaigns = [events.campaigns[row] for row in events.rows.tolist()]
        probabilities: list[float] = []
        for names, scores in zip(
            self._cut(campaigns), self._cut(events.scores.tolist()), strict=True
        ):
            probabilities += self.service.calibrate(self.target, names, scores)
        return np.array(probabilities)

    def post(self, events: EventTable) -> None:
        """What the platform reports afterwards."""
        for batch in self._cut(self.messages(events, self.target)):
            self.service.post_events(batch)

    def refit(self, hour: int) -> None:
        """Have the maps fitted as of the start of `hour`, and wait until they serve."""
        job = self.service.retrain({"target": self.target, "as_of": hour * SECONDS_PER_HOUR})
        finished = self.service.finished(job, _REFIT_SECONDS)
        self.service.await_version(finished["result"]["version"], _SERVING_SECONDS)

    def _cut(self, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
        for start in range(0, len(items), self.batch):
            yield items[start : start + self.batch]


def hours_of(events: EventTable) -> list[Hour]:
    """A log cut into the hours that hold anything, in order."""
    order = np.argsort(events.hours, kind="stable")
    numbers, starts = np.unique(events.hours[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [
        Hour(number, events.select(part))
        for number, part in zip(numbers.tolist(), parts, strict=True)
    ]
