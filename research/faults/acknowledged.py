"""The events that clients send while a service is killed, and what they must add up to."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.random import Generator, default_rng

from calibrators import BinsTable
from calibrators.samples import Floats, Integers

TARGET, DELAYED = "click", "conversion"
CAMPAIGNS: Final = tuple(f"campaign-{number:03d}" for number in range(200))
_OUTCOMES, _IMPRESSIONS, _CLICKS, _CONVERSIONS = 900, 60, 30, 10
_FEW: Final = 10
EVENTS_OF_A_BATCH: Final = _OUTCOMES + _IMPRESSIONS + _CLICKS + _CONVERSIONS
SECONDS_BACK: Final = 90.0
"""Events are that old, so that the post-click window of a minute is over when they come."""
_SECONDS_TO_CONVERSION: Final = 30.0
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class Batch:
    """Outcomes that a platform has joined itself, impressions, and clicks of the first impressions,
    of which the first convert. All that is in it hangs on seed, number and time."""

    seed: int
    number: int
    at: float

    @property
    def key(self) -> str:
        """The request's Idempotency-Key."""
        return f"{self.seed}/{self.number}"

    def requests(self) -> Iterator[tuple[list[dict[str, Any]], dict[str, str]]]:
        """Events and headers: impressions in small requests, known by their ids, and all others in
        one, known by its key."""
        impressions = [*self._impressions()]
        for first in range(0, _IMPRESSIONS, _FEW):
            yield impressions[first : first + _FEW], {}
        others = [*self._outcomes(), *self._clicks(), *self._conversions()]
        yield others, {"idempotency-key": self.key}

    def columns(self) -> tuple[Integers, Floats, Floats, Floats]:
        """Campaign, score, count and positives of all that is counted for the immediate target."""
        rows, scores, outcomes = self._drawn()
        clicked = slice(_OUTCOMES, _OUTCOMES + _CLICKS)
        counts = np.concatenate([np.ones(len(rows)), np.zeros(_CLICKS)])
        positives = np.concatenate([outcomes, np.ones(_CLICKS)])
        return (
            np.concatenate([rows, rows[clicked]]),
            np.concatenate([scores, scores[clicked]]),
            counts,
            positives,
        )

    def click_ids(self) -> list[str]:
        """Of its clicks, the converted ones first."""
        return [f"click-{self.key}-{place}" for place in range(_CLICKS)]

    def _drawn(self) -> tuple[Integers, Floats, Floats]:
        """Campaigns, scores and outcomes of the outcomes and then of the impressions, which come
        without one."""
        random: Generator = default_rng([self.seed, self.number])
        size = _OUTCOMES + _IMPRESSIONS
        rows = random.integers(len(CAMPAIGNS), size=size)
        scores = random.random(size)
        outcomes = (random.random(size) < scores / 2).astype(np.float64)
        outcomes[_OUTCOMES:] = 0.0
        return rows, scores, outcomes

    def _usual(self, places: range) -> Iterator[tuple[int, dict[str, Any]]]:
        rows, scores, _ = self._drawn()
        for place in places:
            name = CAMPAIGNS[rows[place]]
            scored = {TARGET: float(scores[place])}
            yield place, {"campaign": name, "occurred_at": self.at, "scores": scored}

    def _outcomes(self) -> Iterator[dict[str, Any]]:
        _, scores, outcomes = self._drawn()
        for place, usual in self._usual(range(_OUTCOMES)):
            del usual["scores"]
            score, outcome = float(scores[place]), float(outcomes[place])
            yield {**usual, "type": "outcome", "target": TARGET, "score": score, "outcome": outcome}

    def _impressions(self) -> Iterator[dict[str, Any]]:
        for place, usual in self._usual(range(_OUTCOMES, _OUTCOMES + _IMPRESSIONS)):
            yield {**usual, "type": "impression", "id": f"impression-{self.key}-{place}"}

    def _clicks(self) -> Iterator[dict[str, Any]]:
        shown = self._usual(range(_OUTCOMES, _OUTCOMES + _CLICKS))
        for click_id, (_, usual) in zip(self.click_ids(), shown, strict=True):
            usual["scores"][DELAYED] = usual["scores"][TARGET] / 2
            yield {**usual, "type": "click", "click_id": click_id, "impression_at": self.at}

    def _conversions(self) -> Iterator[dict[str, Any]]:
        at = self.at + _SECONDS_TO_CONVERSION
        for click_id in self.click_ids()[:_CONVERSIONS]:
            yield {"type": "conversion", "click_id": click_id, "occurred_at": at}


@dataclass(slots=True)
class Acknowledged:
    """What has been acknowledged; any number of threads may write."""

    batches: list[Batch] = field(default_factory=list)
    requests: int = 0
    retries: int = 0
    wrong: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    @property
    def events(self) -> int:
        """How many events have been acknowledged."""
        return len(self.batches) * EVENTS_OF_A_BATCH

    def has(self, events: int) -> bool:
        """Whether so many have been acknowledged."""
        return self.events >= events

    def add(self, batch: Batch, tries: int, requests: int) -> None:
        """The batch was stored, as the answers to the last try of each request say."""
        with self._lock:
            self.batches.append(batch)
            self.requests += tries
            self.retries += tries - requests

    def complain(self, what: str) -> None:
        """An answer was none that may be."""
        with self._lock:
            self.wrong.append(what)

    def bins(self) -> Mapping[int, BinsTable]:
        """What the bins of the immediate target must be, by hour."""
        by_hour = defaultdict(list)
        for batch in self.batches:
            by_hour[int(batch.at // _HOUR)].append(batch.columns())
        return {
            hour: BinsTable.from_columns(CAMPAIGNS, *map(np.concatenate, zip(*parts, strict=True)))
            for hour, parts in by_hour.items()
        }

    def clicks(self) -> dict[str, float | None]:
        """Seconds from click to conversion by click id; None without one."""
        return {
            click_id: _SECONDS_TO_CONVERSION if place < _CONVERSIONS else None
            for batch in self.batches
            for place, click_id in enumerate(batch.click_ids())
        }
