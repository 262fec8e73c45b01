"""Connections: every wait has an end, and nothing is sent twice in secret."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

import pytest

from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.event_log import Appended, EventLog
from app.storage.redis.client import INGEST_CONNECTIONS, open_async_redis, open_redis
from app.storage.redis.server import EmbeddedRedis
from app.storage.versions import Versions
from tests.api.running_service import eventually
from tests.storage.conftest import TTL_SECONDS, Impressions

TIMEOUT = 0.5
# Four tries of the timeout would be more, and forty callers one after the other far more: none of
# it may be what a loaded machine takes.
ONE_TRY = 1.9
ONE_BY_ONE = 40 * TIMEOUT
"""Far more than one timeout on a busy machine, far less than redis-py's own retries take."""


@contextmanager
def frozen(server: EmbeddedRedis) -> Iterator[None]:
    """The server lives but does not answer."""
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process_id, signal.SIGCONT)


def test_a_frozen_server_fails_a_call_within_the_timeout_not_after_retries(own_server):
    with open_redis(own_server.url, TIMEOUT) as client:
        versions = Versions(client, kept=1)

        def fails_in_time() -> bool:
            """Unless the machine takes its time."""
            start = time.monotonic()
            with pytest.raises(StorageUnavailable):
                versions.current()
            return time.monotonic() - start < ONE_TRY

        def answers() -> bool:
            with suppress(StorageUnavailable):
                return versions.current() is None
            return False

        eventually(answers)
        with frozen(own_server):
            eventually(fails_in_time)

        # Once it answers again, so does the same client.
        eventually(answers)


async def stored(log: EventLog, *request: Any) -> Appended:
    """Also by a server that is slower than the timeout now and then."""
    while True:
        with suppress(StorageUnavailable):
            return await log.append(*request)


def test_a_frozen_server_fails_every_request_within_the_timeout(own_server, impressions):
    """Also those that wait for a connection: not one timeout for each that is ahead of them."""
    count = 40 * INGEST_CONNECTIONS

    async def append_many() -> list[object]:
        async with open_async_redis(own_server.url, TIMEOUT) as client:
            log = EventLog(client, TTL_SECONDS)
            await stored(log, impressions(1))
            with frozen(own_server):
                requests = [log.append(impressions(1)) for _ in range(count)]
                async with asyncio.timeout(ONE_BY_ONE):
                    return await asyncio.gather(*requests, return_exceptions=True)

    results = asyncio.run(append_many())

    assert [type(result) for result in results] == [StorageUnavailable] * count


def test_a_request_that_timed_out_is_stored_once_when_it_is_sent_again(own_server, impressions):
    """Its outcome is unknown: the server may run what it had received when it thaws."""

    async def append_again() -> Appended:
        async with open_async_redis(own_server.url, TIMEOUT) as client:
            log = EventLog(client, TTL_SECONDS)
            await stored(log, impressions(1), "first", "print")
            with frozen(own_server), pytest.raises(StorageUnavailable):
                await log.append(impressions(50), "key", "print")
            return await stored(log, impressions(50), "key", "print")

    answer = asyncio.run(append_again())

    assert answer in (Appended(50, 0), Appended(0, 50))
    with open_redis(own_server.url) as client:
        assert BinsStore(client, TTL_SECONDS).fold() == 51


class Silent:
    """Listens, accepts and counts connections, and says nothing."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._accepted: list[tuple[socket.socket, Any]] = []
        self._thread = Thread(target=self._accept)

    def __enter__(self) -> "Silent":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for open_socket in (self._listening, *(accepted for accepted, _ in self._accepted)):
            open_socket.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listening.getsockname()[1]}"

    def connections(self) -> int:
        """All before one of ours, for they are accepted in their order."""
        with socket.create_connection(self._listening.getsockname()) as last:
            name = last.getsockname()
            eventually(lambda: name in [address for _, address in self._accepted])
        return len(self._accepted) - 1

    def _accept(self) -> None:
        while True:
            try:
                self._accepted.append(self._listening.accept())
            except OSError:
                return


def read(url: str) -> None:
    with open_redis(url, TIMEOUT) as client:
        Versions(client, kept=1).current()


def append_one(url: str, impressions: Impressions) -> None:
    async def append() -> None:
        async with open_async_redis(url, TIMEOUT) as client:
            await EventLog(client, TTL_SECONDS).append(impressions(1))

    asyncio.run(append())


def test_a_server_that_never_answers_is_tried_once(impressions):
    """The caller knows whether a retry is safe; nothing below it may decide that."""
    for call in (read, lambda url: append_one(url, impressions)):
        with Silent() as silent:
            with pytest.raises(StorageUnavailable):
                call(silent.url)
            assert silent.connections() == 1


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///nowhere/redis.sock"])
def test_a_server_that_is_not_there_is_an_error_of_storage(url, impressions):
    with pytest.raises(StorageUnavailable):
        read(url)
    with pytest.raises(StorageUnavailable):
        append_one(url, impressions)


def test_connections_carry_a_name_that_tells_the_process(redis_client, redis_url):
    assert redis_client.client_getname() == f"sirocco-{os.getpid()}"

    async def name() -> str:
        async with open_async_redis(redis_url) as client:
            return await client.client_getname()

    assert asyncio.run(name()) == f"sirocco-{os.getpid()}"
