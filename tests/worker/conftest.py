"""A worker's world: real Redis, a clock that the test sets, events appended as the API does."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.event_log import EventLog
from app.storage.redis.client import open_async_redis
from evaluation import EventTable

HOUR = 400_000
Append = Callable[[EventBatch], None]


@dataclass
class Clock:
    """The time that the test says it is."""

    seconds: float = HOUR * SECONDS

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings() -> Settings:
    """Of maps that are known to the last bit: the guard has tests of its own. A worker that a test
    steps has no thread that renews its lease, which must outlive the slowest machine."""
    return Settings(
        lease_seconds=600,
        window_hours=4,
        calibrator="sir",
        guard=False,
        bin_size=100,
        min_samples=50,
        min_positives=5,
        fold_seconds=0.01,
    )


@pytest.fixture
def append(redis_url) -> Iterator[Append]:
    with asyncio.Runner() as runner:
        client = open_async_redis(redis_url)
        log = EventLog(client, 24 * SECONDS)
        yield lambda batch: runner.run(log.append(batch)) and None
        runner.run(client.aclose())


@pytest.fixture
def outcomes() -> Callable[..., EventTable]:
    """Makes a log of hours of three campaigns whose scores are half of what comes true."""

    def make(hours: int, per_hour: int = 900, seed: int = 1) -> EventTable:
        rng = np.random.default_rng(seed)
        size = hours * per_hour
        scores = rng.beta(2, 30, size)
        return EventTable(
            times=(HOUR + np.repeat(np.arange(hours), per_hour)) * float(SECONDS),
            campaigns=("big", "medium", "thin"),
            rows=rng.choice(3, size, p=(0.7, 0.28, 0.02)).astype(np.int32),
            scores=scores,
            outcomes=(rng.random(size) < 2 * scores).astype(np.float64),
            bids=None,
        )

    return make


@pytest.fixture
def append_log(append) -> Callable[[EventTable], None]:
    """Appends a log as one request of outcomes."""

    def append_all(log: EventTable) -> None:
        batch = EventBatch()
        columns = (log.hours, log.rows, log.scores, log.outcomes)
        for hour, row, score, outcome in zip(*columns, strict=True):
            campaign = log.campaigns[row]
            batch.add("click", int(hour), campaign, float(score), 1.0, float(outcome))
        append(batch)

    return append_all
