"""Clicks with all that is told of them, in requests of any order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Any

import numpy as np

from calibrators import BinsTable

POST_CLICK_SECONDS = 60.0
MOST_EVENTS = 5
"""Events of one request."""

_BEHAVIOURS = ("page_views", "session_seconds")
_OVER_FOR = -90.0
AHEAD = 1500.0
"""Seconds, longer than a test takes: what is not over at its begin is not at its end."""

Event = dict[str, Any]


@dataclass(frozen=True)
class ClickStory:
    """A click, what was done after it (name, time, value), and when it converted.

    One whose post-click window is over is due as soon as it is known; behaviours come before it.
    """

    click_id: str
    campaign: str
    clicked_at: float
    is_over: bool
    score: float
    behaviours: tuple[tuple[str, float, float], ...]
    converted_at: tuple[float, ...]

    @classmethod
    def draw(cls, random: Random, click_id: str, now: float) -> "ClickStory":
        """Any story; the times are around now, and no two of them the same."""
        is_over = random.random() < 0.6
        at = now + (_OVER_FOR if is_over else AHEAD) + 30 * random.random()
        did = [at + POST_CLICK_SECONDS * random.random() for _ in range(random.randrange(4))]
        converted = [at + 100 * random.random() for _ in range(random.randrange(3))]
        values = [(random.choice(_BEHAVIOURS), when, random.randrange(1, 99) / 8) for when in did]
        campaign = f"campaign-{random.randrange(20)}"
        return cls(
            click_id, campaign, at, is_over, random.random(), tuple(values), tuple(converted)
        )

    @property
    def sums(self) -> dict[str, float]:
        """What its behaviours add up to, by name."""
        values = defaultdict(list)
        for name, _, value in self.behaviours:
            values[name].append(value)
        return {name: fsum(found) for name, found in values.items()}

    @property
    def delay(self) -> float | None:
        """Seconds to its first conversion; None without one."""
        return min(self.converted_at) - self.clicked_at if self.converted_at else None

    def events(self, random: Random) -> list[Event]:
        """All of them in any order that counts."""
        events = [*self._trial(), *self._told()]
        random.shuffle(events)
        types = [event["type"] for event in events]
        if self.is_over and self.behaviours:
            # What comes behind the click may find it closed.
            click, last = types.index("click"), len(types) - 1 - types[::-1].index("behaviour")
            if click < last:
                events[click], events[last] = events[last], events[click]
        return events

    def _trial(self) -> Iterator[Event]:
        usual = {"campaign": self.campaign}
        scores = {"click": self.score}
        yield {**usual, "type": "impression", "occurred_at": self.clicked_at, "scores": scores}
        yield {
            **usual,
            "type": "click",
            "click_id": self.click_id,
            "occurred_at": self.clicked_at,
            "impression_at": self.clicked_at,
            "scores": {**scores, "conversion": self.score / 2},
            "features": {"age": 30.5, "device": "app"},
        }

    def _told(self) -> Iterator[Event]:
        for name, at, value in self.behaviours:
            known = {"click_id": self.click_id, "occurred_at": at}
            yield {**known, "type": "behaviour", "name": name, "value": value}
        for at in self.converted_at:
            yield {"type": "conversion", "click_id": self.click_id, "occurred_at": at}


def requests(random: Random, stories: Iterable[ClickStory]) -> list[list[Event]]:
    """Everything that is told of these clicks, interleaved, a few events at a time."""
    told = [story.events(random) for story in stories]
    turns = [place for place, events in enumerate(told) for _ in events]
    random.shuffle(turns)
    following = [iter(events) for events in told]
    events = [next(following[place]) for place in turns]
    batches = []
    while events:
        size = random.randint(1, MOST_EVENTS)
        # The order within a request is of no matter, whatever the story.
        batches.append(random.sample(events[:size], len(events[:size])))
        events = events[size:]
    return batches


def bins_of(stories: Sequence[ClickStory]) -> BinsTable:
    """The bins of the immediate target: of each story one trial, which came true."""
    ones = np.ones(len(stories))
    scores = np.array([story.score for story in stories])
    campaigns = [story.campaign for story in stories]
    return BinsTable.from_columns(campaigns, np.arange(len(stories)), scores, ones, ones)
