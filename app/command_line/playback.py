"""Traffic played through a running service in event time, hour by hour."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from app.command_line.event_messages import Messages
from app.command_line.judged import Floats
from app.command_line.service_client import ServiceClient
from evaluation import EventTable

SECONDS_PER_HOUR = 3600
_REFIT_SECONDS = 300.0
_SERVING_SECONDS = 30.0
Item = TypeVar("Item")


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
        return calibrated(self.service, self.target, campaigns, events.scores, self.batch)

    def post(self, events: EventTable) -> None:
        """What the platform reports afterwards."""
        for batch in batches(self.messages(events, self.target), self.batch):
            self.service.post_events(batch)

    def refit(self, hour: int) -> None:
        """Have the maps fitted as of the start of `hour`, and wait until they serve."""
        refit(self.service, {"target": self.target, "as_of": hour * SECONDS_PER_HOUR})


def calibrated(
    service: ServiceClient, target: str, campaigns: Sequence[str], scores: Floats, batch: int
) -> Floats:
    """A probability for every score, (n,), in requests of `batch` scores at most."""
    probabilities: list[float] = []
    for names, part in zip(batches(campaigns, batch), batches(scores.tolist(), batch), strict=True):
        probabilities += service.calibrate(target, names, part)
    return np.array(probabilities)


def refit(service: ServiceClient, asked: Mapping[str, Any]) -> None:
    """Have a refit done, and wait until its maps serve."""
    finished = service.finished(service.retrain(asked), _REFIT_SECONDS)
    service.await_version(finished["result"]["version"], _SERVING_SECONDS)


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in their order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def hours_of(events: EventTable) -> list[Hour]:
    """A log cut into the hours that hold anything, in order."""
    order = np.argsort(events.hours, kind="stable")
    numbers, starts = np.unique(events.hours[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [
        Hour(number, events.select(part))
        for number, part in zip(numbers.tolist(), parts, strict=True)
    ]
