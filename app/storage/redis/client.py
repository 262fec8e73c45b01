"""Redis as we use it: clients with timeouts, its errors as ours, replies of one type, Lua scripts.

redis-py retries by itself unless told not to, which turns a timeout of one second on a frozen
server into many. Here nothing is retried: the caller knows whether a retry is safe. Each Lua script
is an atomic step that Redis runs as a whole.
"""

import os
import re
from asyncio import sleep
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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

from app.storage import keys
from app.storage.errors import NotReplicated, StorageUnavailable
from app.storage.redis.addresses import CLUSTER, address_of
from app.storage.redis.cluster import (
    AsyncClusterRedis,
    ClusterRedis,
    MasterFinder,
    SlotMap,
    following,
    following_async,
)

TIMEOUT_SECONDS = 1.0
HEALTH_CHECK_SECONDS = 30
INGEST_CONNECTIONS = 16


def open_redis(url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> redis.Redis:
    """A blocking client of the store at a URL of `addresses.py`.

    Connects at the first command. Every read and write fails after timeout_seconds. Raises
    ValueError on a list of hosts that is none.
    """
    address = address_of(url)
    if address is None:
        return _server(url, timeout_seconds)
    if address.kind == CLUSTER:
        return ClusterRedis(address, partial(_server, timeout=timeout_seconds), timeout_seconds)
    client = _server(address.server_url(*address.hosts[0]), timeout_seconds)
    pool, finder = client.connection_pool, MasterFinder(address, timeout_seconds)
    pool.connection_class = following(pool.connection_class, finder)
    return client


def _server(url: str, timeout: float) -> redis.Redis:
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **_options(timeout))


AsyncStore = redis.asyncio.Redis | AsyncClusterRedis


def open_async_redis(url: str, timeout_seconds: float = TIMEOUT_SECONDS) -> AsyncStore:
    """An asyncio client of the same store.

    Requests share a few connections to each server and queue for them, at most timeout_seconds.
    """
    address = address_of(url)
    if address is None:
        return _async_server(url, timeout_seconds)
    if address.kind == CLUSTER:
        slots = SlotMap(address, partial(_server, timeout=timeout_seconds))
        open_server = partial(_async_server, timeout=timeout_seconds)
        return AsyncClusterRedis(slots, address, open_server, timeout_seconds)
    client = _async_server(address.server_url(*address.hosts[0]), timeout_seconds)
    pool, finder = client.connection_pool, MasterFinder(address, timeout_seconds)
    pool.connection_class = following_async(pool.connection_class, finder)
    return client


def _async_server(url: str, timeout: float) -> redis.asyncio.Redis:
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=INGEST_CONNECTIONS,
        timeout=timeout,
        retry=AsyncRetry(NoBackoff(), 0),
        **_options(timeout),
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
    address = address_of(redis_url)
    if address is not None:
        return address.name
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
    if isinstance(client, ClusterRedis):
        client.drop()
    else:
        client.connection_pool.disconnect(inuse_connections=False)


def servers_of(client: redis.Redis) -> list[redis.Redis]:
    """A client of each master: of a cluster all that serve slots, else the client itself."""
    return client.servers() if isinstance(client, ClusterRedis) else [client]


class Replicas:
    """Waits until `number` replicas of the masters of some shards have all that was written.

    Of one server, what was written later is lost before what was written earlier, so only in a
    cluster is there anything to wait for.
    """

    def __init__(self, client: redis.Redis | None, number: int, seconds: float) -> None:
        self._cluster = client if isinstance(client, ClusterRedis) and number else None
        self._number = number
        self._milliseconds = int(seconds * 1000)

    def confirm(self, shards: Iterable[int]) -> None:
        """Raises NotReplicated where too few confirm in time."""
        if self._cluster is None:
            return
        probes = [keys.probe(f"{shard:02d}") for shard in shards]
        for server, probe in {self._cluster.server_of(key): key for key in probes}.items():
            wait_for_replicas(server, probe, self._number, self._milliseconds)


NO_REPLICAS: Final = Replicas(None, 0, 0.0)
_PROBE_LIFE: Final = 60


def wait_for_replicas(server: redis.Redis, probe: str, number: int, milliseconds: int) -> None:
    """Writes a tiny key, and waits for so many replicas to have it and what came before it, if
    any; raises NotReplicated where too few confirm in time."""
    pipeline = server.pipeline(transaction=False)
    pipeline.set(probe, 1, ex=_PROBE_LIFE)
    if number:
        pipeline.wait(number, milliseconds)
    confirmed = pipeline.execute()[-1]
    if number and confirmed < number:
        raise NotReplicated(confirmed, number)


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
