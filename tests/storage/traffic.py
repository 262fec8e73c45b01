"""Many clients at once, and a server that is killed while they are at it."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Timer

import redis

from app.storage.batch import EventBatch
from app.storage.errors import StorageUnavailable
from app.storage.event_log import EventLog
from app.storage.redis.client import open_async_redis, open_redis
from app.storage.redis.server import EmbeddedRedis
from tests.storage.conftest import TTL_SECONDS

CLIENTS = 8


class Traffic:
    """Requests that are told apart by their numbers."""

    def __init__(self, request: Callable[[int], EventBatch]) -> None:
        self._request = request
        self.acknowledged: set[int] = set()
        self.unanswered: set[int] = set()

    @property
    def sent(self) -> set[int]:
        return self.acknowledged | self.unanswered

    async def run(self, server: EmbeddedRedis, kill_after: int) -> None:
        """Send until the server dies, which it does after so many answers of this run."""
        answers_left = iter(range(kill_after, 0, -1))
        async with open_async_redis(server.url) as client:
            log = EventLog(client, TTL_SECONDS)
            await asyncio.gather(
                *(self._send_until_killed(log, server, answers_left) for _ in range(CLIENTS))
            )

    async def _send_until_killed(
        self, log: EventLog, server: EmbeddedRedis, answers_left: Iterator[int]
    ) -> None:
        while True:
            number = len(self.sent)
            self.unanswered.add(number)
            try:
                await log.append(self._request(number), f"key {number}", "print")
            except StorageUnavailable:
                return
            self.unanswered.remove(number)
            self.acknowledged.add(number)
            if next(answers_left, None) == 1:
                kill(server)

    async def send_again(self, server: EmbeddedRedis) -> None:
        """What clients do that saw no answer."""
        async with open_async_redis(server.url) as client:
            log = EventLog(client, TTL_SECONDS)
            for number in sorted(self.sent):
                await log.append(self._request(number), f"key {number}", "print")


def kill(server: EmbeddedRedis) -> None:
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)


def kill_at_work(
    server: EmbeddedRedis, milliseconds: int, work: Callable[[redis.Redis], object]
) -> None:
    """Work until the server is killed."""
    timer = Timer(milliseconds / 1000, kill, [server])
    with open_redis(server.url) as client, suppress(StorageUnavailable):
        timer.start()
        while True:
            work(client)
    timer.join()
