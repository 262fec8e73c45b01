"""A worker's world: real Redis, a clock that the test sets, events appended as the API does."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.lease import Lease
from app.storage.redis.client import open_async_redis
from app.storage.versions import Versions
from app.worker.loop import Worker
from app.worker.refit import Refitter, Request
from calibrators import BinsTable
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
def lease(redis_client) -> Lease:
    """The worker's, held."""
    held = Lease(redis_client, "worker", "test", 600)
    assert held.acquire()
    return held


@pytest.fixture
def new_worker(redis_client, settings, clock) -> Callable[..., Worker]:
    """Makes a worker that holds the lease, of the settings with these changes."""

    def start(**changes: object) -> Worker:
        worker = Worker(settings.model_copy(update=changes), redis_client, clock, "test")
        assert worker._lease.acquire()
        return worker

    return start


@pytest.fixture
def worker(new_worker) -> Worker:
    return new_worker()


@pytest.fixture
def refitter(redis_client, settings) -> Refitter:
    store = BinsStore(redis_client, settings.ttl_seconds)
    return Refitter(settings, store, Versions(redis_client, 8))


@pytest.fixture
def refit_as_of(refitter, lease, clock) -> Callable[..., dict[str, Any]]:
    """Refits as of so many hours after HOUR, all or the campaigns that are named; the report."""
    return lambda hours, *named: refitter.run(
        Request((HOUR + hours) * SECONDS, *named), lease.token, clock
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


def table_of(log: EventTable, hours: Iterable[int]) -> BinsTable:
    """The bins of a log's events of these hours."""
    chosen = np.isin(log.hours, list(hours))
    columns = log.rows[chosen], log.scores[chosen], np.ones(chosen.sum()), log.outcomes[chosen]
    return BinsTable.from_columns(log.campaigns, *columns)


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
