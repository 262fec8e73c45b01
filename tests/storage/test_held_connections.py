"""Commands on connections that stay out of the pool: the same replies and errors, nothing lost."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis.asyncio
import uvloop
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError, ResponseError

from app.storage.redis.client import _HELD, INGEST_CONNECTIONS, HeldConnections, open_async_redis

TIMEOUT = 0.5
_TURNS_OF_SENDING = 20


def in_use(client: redis.asyncio.Redis) -> int:
    return len(client.connection_pool._in_use_connections)


def client_of(url: str, timeout: float = 20.0) -> redis.asyncio.Redis:
    client = open_async_redis(url, timeout)
    assert isinstance(client, redis.asyncio.Redis)
    return client


def on_held_connections(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """Makes it a test with a client of an empty server and the connections that are held."""

    def run(redis_url: str) -> None:
        async def opened() -> None:
            async with client_of(redis_url) as client:
                await work(client, HeldConnections(client))

        asyncio.run(opened())

    return run


@on_held_connections
async def test_many_at_a_time_are_answered_each_and_few_stay_out(client, held):
    texts = [f"{number}" for number in range(5 * INGEST_CONNECTIONS)]

    replies = await asyncio.gather(*(held.run("ECHO", text) for text in texts))

    assert replies == [text.encode() for text in texts]
    assert in_use(client) == _HELD
    assert await client.ping()


@on_held_connections
async def test_an_error_reply_is_raised_and_the_connection_goes_on(client, held):
    number = await held.run("CLIENT", "ID")
    with pytest.raises(ResponseError):
        await held.run("NO-SUCH-COMMAND")

    assert in_use(client) == 0
    assert await held.run("CLIENT", "ID") == number


@on_held_connections
async def test_a_script_that_the_server_has_forgotten_is_sent_again(client, held):
    script = AsyncScript(client, "return {KEYS[1], ARGV[1], ARGV[2]}")
    for _ in range(2):
        await client.script_flush()
        reply = await held.run_script(script, ["ключ"], [b"\x00\xff", 7])
        assert reply == ["ключ".encode(), b"\x00\xff", b"7"]


@on_held_connections
async def test_a_connection_that_the_server_has_closed_is_opened_anew(client, held):
    number = await held.run("CLIENT", "ID")
    await client.client_kill_filter(_id=str(number), skipme=False)
    # Until the end of it has come here.
    while not await held._idle[0].can_read():
        await asyncio.sleep(0.001)

    assert await held.run("CLIENT", "ID") != number


@on_held_connections
async def test_dropped_they_are_looked_up_anew(client, held):
    number = await held.run("CLIENT", "ID")

    await held.drop()

    assert in_use(client) == 0
    assert await held.run("CLIENT", "ID") != number


def test_no_reply_is_read_by_the_command_after_a_time_out(own_server):
    """Of one that is given up, too."""

    async def run() -> None:
        assert own_server.process_id is not None
        async with client_of(own_server.url, TIMEOUT) as client:
            held = HeldConnections(client)
            os.kill(own_server.process_id, signal.SIGSTOP)
            try:
                with pytest.raises((RedisError, TimeoutError)):
                    await held.run("ECHO", "late")
                given_up = asyncio.create_task(held.run("ECHO", "given up"))
                await asyncio.sleep(TIMEOUT / 10)
                given_up.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await given_up
            finally:
                os.kill(own_server.process_id, signal.SIGCONT)
            async with asyncio.timeout(60):
                while True:
                    try:
                        assert await held.run("ECHO", "new") == b"new"
                        break
                    except (RedisError, TimeoutError):
                        continue
            assert in_use(client) == 1
            # The pool's own commands have the time-out of each step again.
            assert all(one.socket_timeout == TIMEOUT for one in _available(client))

    asyncio.run(run())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_reply_that_has_come_while_the_loop_stood_still_is_taken(own_server, run):
    async def stall(command: Coroutine[Any, Any, Any], name: str) -> Any:
        os.kill(own_server.process_id, signal.SIGSTOP)
        replied = asyncio.create_task(command)
        for _ in range(_TURNS_OF_SENDING):
            await asyncio.sleep(0)
        os.kill(own_server.process_id, signal.SIGCONT)
        while not other.exists(name):
            await asyncio.sleep(0)
        time.sleep(2 * TIMEOUT)
        return await replied

    async def story() -> None:
        async with client_of(own_server.url, TIMEOUT) as client:
            await client.ping()
            assert await stall(HeldConnections(client).run("SET", "held", "1"), "held") == b"OK"
            assert await stall(client.set("pooled", "1"), "pooled")

    with redis.Redis.from_url(own_server.url) as other:
        run(story())


def _available(client: redis.asyncio.Redis) -> list[redis.asyncio.connection.AbstractConnection]:
    return list(client.connection_pool._available_connections)
