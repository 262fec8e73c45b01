"""What the storage tests share."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

import pytest
import redis

from app.storage import Appended, BinsStore, EventBatch, EventLog, open_async_redis

TTL_SECONDS = 3600
HOUR = 500_000


class Append(Protocol):
    """Appends a batch as a request does."""

    def __call__(
        self, batch: EventBatch, idempotency_key: str | None = None, fingerprint: str = ""
    ) -> Appended: ...


class Impressions(Protocol):
    """Makes a batch of impressions of many campaigns, with ids that begin with `ids`."""

    def __call__(self, count: int, ids: str | None = None) -> EventBatch: ...


@pytest.fixture
def append(redis_url: str) -> Iterator[Append]:
    """Appends over one asyncio client, one request after the other."""
    with asyncio.Runner() as runner:
        client = open_async_redis(redis_url)
        log = EventLog(client, TTL_SECONDS)
        yield lambda *arguments: runner.run(log.append(*arguments))
        runner.run(client.aclose())


@pytest.fixture
def store(redis_client: redis.Redis) -> BinsStore:
    """The bins of an empty server."""
    return BinsStore(redis_client, TTL_SECONDS)


@pytest.fixture
def impressions() -> Impressions:
    """Batches of any size."""

    def make(count: int, ids: str | None = None) -> EventBatch:
        batch = EventBatch()
        for number in range(count):
            event_id = None if ids is None else f"{ids}{number}"
            score = number % 100 / 100
            batch.add("click", HOUR, f"campaign-{number % 50}", score, 1.0, 0.0, event_id)
        return batch

    return make
