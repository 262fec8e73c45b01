"""Redis as we use it: clients with timeouts, its errors as ours, replies of one type, Lua scripts.

redis-py retries by itself unless told not to, which turns a timeout of one second on a frozen
server into many. Here nothing is retried: the caller knows whether a retry is safe. Each Lua script
is an atomic step that Redis runs as a whole.
"""

import os
import re
from asyncio import sleep
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import hiredis
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.exceptions import ReadOnlyError, RedisError
from redis.retry import Retry

from app.storage.errors import StorageUnavailable

TIMEOUT_SECONDS = 1.0
HEALTH_CHECK_SECONDS = 30
INGEST_CONNECTIONS = 16


def open_redis(url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> redis.Redis:
    """A blocking client of the server at a redis://, rediss:// or unix:// URL.

    Connects at the first command. Every read and write fails after timeout_seconds.
    """
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **_options(timeout_seconds))


def open_async_redis(url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> redis.asyncio.Redis:
    """An asyncio client of the same server.

    Requests share a few connections and queue for them, at most timeout_seconds.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=INGEST_CONNECTIONS,
        timeout=timeout_seconds,
        retry=AsyncRetry(NoBackoff(), 0),
        **_options(timeout_seconds),
    )
    pool.connection_class = _packing(pool.connection_class)
    return redis.asyncio.Redis.from_pool(pool)


_PACKED_TOGETHER: Final = 256
"""Arguments, of some hundred bytes each, that are packed without a turn for others."""


def _packing(
    kind: type[redis.asyncio.connection.AbstractConnection],
) -> type[redis.asyncio.connection.AbstractConnection]:
    """The kind of connection, but with commands packed in C as those of blocking clients are.

    A request with events has hundreds of arguments: packed in Python they cost more than its
    checks.
    """

    class Packing(kind):  # type: ignore[misc, valid-type]
        _serializer = HiredisRespSerializer()

        def pack_command(self, *arguments: Any) -> list[bytes]:
            packed: list[bytes] = self._serializer.pack(*arguments)
            return packed

        async def send_command(self, *arguments: Any, **named: Any) -> None:
            if len(arguments) <= _PACKED_TOGETHER:
                await super().send_command(*arguments, **named)
            else:
                await self.send_packed_command(await _packed_in_pieces(arguments), **named)

    return Packing


async def _packed_in_pieces(arguments: Sequence[Any]) -> list[bytes]:
    """The bytes of a command with thousands of arguments; others have a turn between pieces."""
    pieces = [b"*%d\r\n" % len(arguments)]
    for start in range(0, len(arguments), _PACKED_TOGETHER):
        packed = hiredis.pack_command(tuple(arguments[start : start + _PACKED_TOGETHER]))
        # Without the number of arguments, which is that of the piece.
        pieces.append(packed[packed.index(b"\n") + 1 :])
        await sleep(0)
    return pieces


def _options(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "health_check_interval": HEALTH_CHECK_SECONDS,
        "client_name": f"sirocco-{os.getpid()}",
        # RESP2: one reply shape on every server, and no handshake that 6.2 does not know.
        "protocol": 2,
        "driver_info": None,
    }


def store_of(redis_url: str) -> str:
    """What tells stores apart: address and database, or that it is on this machine. The socket of
    an embedded server may have another name at each start."""
    parts = urlsplit(redis_url)
    if parts.scheme == "unix":
        return "unix"
    return f"{parts.hostname}:{parts.port or 6379}{parts.path.rstrip('/') or '/0'}"


def as_bytes(reply: bytes | str) -> bytes:
    """The reply as bytes."""
    return reply if isinstance(reply, bytes) else reply.encode()


def as_text(reply: bytes | str) -> str:
    """The reply as text."""
    return reply if isinstance(reply, str) else reply.decode()


def refuses_writes(error: BaseException | None) -> bool:
    """Whether the server refused a write because it is a replica: it may have been a master once,
    whose name leads to another server by now."""
    # Redis 6.2 wraps what a script met.
    return isinstance(error, ReadOnlyError) or "-READONLY" in str(error)


def drop_connections(client: redis.Redis) -> None:
    """Have every command from now on look its server up by name."""
    client.connection_pool.disconnect(inuse_connections=False)


_INCLUDE = re.compile(r"^-- include (\w+)$", re.MULTILINE)


def lua(name: str) -> str:
    """The text of lua/<name>.lua, with those that it includes."""
    text = files("app.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: lua(found[1]), text)


@contextmanager
def reaching_the_store() -> Iterator[None]:
    """Turns whatever a call to Redis raises into StorageUnavailable; also a decorator."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise StorageUnavailable(f"the store failed: {error}") from error
