"""However events arrive, are sent again and are folded: the same bytes of bins."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.keys import shard_of
from app.storage.redis.client import open_redis
from calibrators import BinsTable
from tests.storage.conftest import HOUR, TTL_SECONDS, Append
from tests.storage.interrupted_redis import Died, InterruptedRedis, die


@dataclass(frozen=True)
class Event:
    """One event of one target."""

    hour: int
    campaign: str
    score: float
    count: float
    positive: float
    event_id: str | None


impression_or_click = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.5, 0.3)])
events = st.builds(
    lambda hour, campaign, score, outcome, event_id: Event(
        hour, campaign, score, *outcome, event_id
    ),
    st.integers(HOUR, HOUR + 1),
    st.sampled_from(["a", "b", "größe"]),
    st.floats(0, 1),
    impression_or_click,
    st.none() | st.sampled_from([f"e{number}" for number in range(12)]),
)
"""Ids are few, so that many events share one; of the campaigns, two share a shard."""

steps = st.lists(
    st.sampled_from(
        ["append", "append", "send again", "fold", "small fold", "die before", "die after", "race"]
    ),
    max_size=14,
)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(events, max_size=40), steps, st.integers(1, 12))
def test_any_split_retry_fold_death_and_race_gives_the_same_bytes(
    append, redis_url, log, steps, size
):
    history = History(append, redis_url, iter(log), size)
    for step in steps:
        history.perform(step)

    history.append_the_rest()

    assert history.table().to_bytes() == expected(log).to_bytes()


class History:
    """What one example did so far."""

    def __init__(self, append: Append, url: str, left: Iterator[Event], size: int) -> None:
        self._append = append
        self._url = url
        self._left = left
        self._size = size
        self._sent: list[list[Event]] = []
        self._client = open_redis(url)
        self._store = BinsStore(self._client, TTL_SECONDS)
        self._client.flushall()

    def perform(self, step: str) -> None:
        match step:
            case "append":
                self._send_next()
            case "send again":
                self._send_again()
            case "fold":
                self._store.fold()
            case "small fold":
                BinsStore(self._client, TTL_SECONDS, fold_bytes=1).fold()
            case "die before" | "die after":
                self._fold_and_die(step.removeprefix("die "))
            case "race":
                self._race()

    def append_the_rest(self) -> None:
        while self._send_next():
            pass

    def table(self) -> BinsTable:
        self._store.fold()
        with self._client:
            return self._store.window("click", HOUR, HOUR + 2)

    def _send_next(self) -> bool:
        sent = list(islice(self._left, self._size))
        self._sent.append(sent)
        answer = self._append(batch(sent), f"key {len(self._sent)}", "print")
        assert answer.accepted + answer.duplicates == len(sent)
        return bool(sent)

    def _send_again(self) -> None:
        for number, sent in enumerate(self._sent, start=1):
            assert self._append(batch(sent), f"key {number}", "print").accepted == 0

    def _fold_and_die(self, moment: str) -> None:
        client = InterruptedRedis(self._url, "commit_fold", **{moment: die})
        with suppress(Died):  # with nothing to fold it lives
            BinsStore(client, TTL_SECONDS).fold()
        client.close()

    def _race(self) -> None:
        """Another folds, and more arrives, between the two steps of a fold."""
        client = InterruptedRedis(self._url, "commit_fold", before=self._fold_and_send)
        BinsStore(client, TTL_SECONDS).fold()
        client.close()

    def _fold_and_send(self) -> None:
        self._store.fold()
        self._send_next()


def batch(sent: list[Event]) -> EventBatch:
    gathered = EventBatch()
    for event in sent:
        gathered.add(
            "click",
            event.hour,
            event.campaign,
            event.score,
            event.count,
            event.positive,
            event.event_id,
        )
    return gathered


def expected(log: list[Event]) -> BinsTable:
    """The bins of the events in one go: the first of every id, and all that have none."""
    first: dict[object, Event] = {}
    for event in log:
        first.setdefault(identity(event), event)
    kept = list(first.values())
    names = sorted({event.campaign for event in kept})
    return BinsTable.from_columns(
        names,
        np.array([names.index(event.campaign) for event in kept], np.int64),
        np.array([event.score for event in kept]),
        np.array([event.count for event in kept]),
        np.array([event.positive for event in kept]),
    )


def identity(event: Event) -> object:
    if event.event_id is None:
        return object()
    return shard_of(event.campaign), event.hour, event.count == 0, event.event_id
