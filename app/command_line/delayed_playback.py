"""Clicks played through a running service in event time, their conversions as they come."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from app.command_line.click_messages import ClickMessages
from app.command_line.judged import Floats
from app.command_line.playback import SECONDS_PER_HOUR, calibrated, refit
from app.command_line.service_client import ServiceClient
from evaluation import ClickStream

_HOURS_PER_DAY = 24
_TRAINING_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class PlayedHour:
    """The hour `number`, counted since 1970: its clicks' places in the stream, and for each the
    probability that the service gave it, (n,)."""

    number: int
    chosen: slice
    probabilities: Floats


@dataclass(frozen=True, slots=True)
class DelayedPlayback:
    """How the clicks of one delayed target are played through a service.

    `batch` is how many scores, and how many events, go into one request.
    """

    service: ServiceClient
    target: str
    batch: int = 5_000

    def play(self, stream: ClickStream, behind: float) -> Iterator[PlayedHour]:
        """Each hour that starts before `behind`, silent ones too, beginning with the first click's.

        As of its start a model is trained, if that is a midnight (UTC), and maps are fitted. Then
        its clicks are calibrated, before anything of the hour is known, and all that becomes known
        in the hour is posted.
        """
        messages = ClickMessages(stream, self.target)
        first = int(stream.clicks.clicked_at[0] // SECONDS_PER_HOUR)
        for number in range(first, int(np.ceil(behind / SECONDS_PER_HOUR))):
            start, end = number * SECONDS_PER_HOUR, (number + 1) * SECONDS_PER_HOUR
            if number > first:
                self._learn(number)
            chosen = stream.between(start, end)
            yield PlayedHour(number, chosen, self._calibrate(stream, chosen))
            events = messages.between(start, end)
            while batch := [*islice(events, self.batch)]:
                self.service.post_events(batch)

    def _learn(self, number: int) -> None:
        asked = {"target": self.target, "as_of": number * SECONDS_PER_HOUR}
        if number % _HOURS_PER_DAY == 0:
            self.service.finished(self.service.train(asked), _TRAINING_SECONDS)
        refit(self.service, asked)

    def _calibrate(self, stream: ClickStream, chosen: slice) -> Floats:
        clicks = stream.clicks.select(chosen)
        campaigns = [clicks.campaigns[row] for row in clicks.rows.tolist()]
        return calibrated(self.service, self.target, campaigns, clicks.scores, self.batch)
