"""Redis as we use it: clients with timeouts, its errors as ours, replies of one type, Lua scripts.

redis-py retries by itself unless told not to, which turns a timeout of one second on a frozen
server into many. Here nothing is retried: the caller knows whether a retry is safe. Each Lua script
is an atomic step that Redis runs as a whole.
"""

import os
import re
from asyncio import Lock, Timeout, get_running_loop, sleep, timeout, to_thread
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import hiredis
import redis
import redis.asyncio
from redis.asyncio.connection import RedisSSLContext, SSLConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.connection import HiredisRespSerializer
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError
from redis.retry import Retry

from app.storage import keys
from app.storage.errors import MasterUnreplicated, StorageUnavailable, StoreDenied
from app.storage.redis.addresses import CLUSTER, address_of, check_server
from app.storage.redis.cluster import (
    DENIED,
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
    if issubclass(pool.connection_class, SSLConnection):
        pool.connection_class = _reading_certificates_once(pool.connection_class)
    return redis.asyncio.Redis.from_pool(pool)


def check_options(url: str) -> None:
    """Raises ValueError that says what in the URL's query a connection cannot be made with: an
    option that there is not, a file of certificates that cannot be read."""
    address = address_of(url)
    urls = [url] if address is None else [address.server_url(*address.hosts[0])]
    if address is not None:
        urls.append(address.sentinel_url(*address.hosts[0]))
    for one in urls:
        check_server(one)
        try:
            redis.ConnectionPool.from_url(one).make_connection()
            pool = redis.asyncio.ConnectionPool.from_url(one)
            connection = pool.make_connection()  # type: ignore[no-untyped-call]
        except (TypeError, ValueError, RedisError) as error:
            raise ValueError(f"its options are refused: {error}") from None
        if isinstance(connection, SSLConnection):
            _check_certificates(connection.ssl_context)


def _check_certificates(context: RedisSSLContext) -> None:
    for name in _FILES_OF_TLS:
        path = getattr(context, name)
        if path is not None and not os.access(path, os.R_OK):
            raise ValueError(f"ssl_{name}={path}: there is no such file that can be read")
    try:
        context.get()
    except OSError as error:
        raise ValueError(f"its certificates cannot be used: {error}") from None


_FILES_OF_TLS: Final = ("ca_certs", "ca_path", "certfile", "keyfile")


def _reading_certificates_once(kind: type[SSLConnection]) -> type[SSLConnection]:
    """The kind of connection, but those of a pool share what they read, and read it anew where a
    file was renewed: all that the system trusts takes 40 ms, for which no loop may stand still."""
    shared: dict[tuple[float, ...], RedisSSLContext] = {}
    one_at_a_time = Lock()

    class Sharing(kind):  # type: ignore[misc, valid-type]
        ssl_context: RedisSSLContext

        async def connect(self) -> None:
            if not self.is_connected:
                async with one_at_a_time:
                    self.ssl_context = await _read(self.ssl_context)
            await super().connect()

    async def _read(own: RedisSSLContext) -> RedisSSLContext:
        renewed = tuple(_renewed_at(getattr(own, name)) for name in _FILES_OF_TLS)
        if renewed not in shared:
            shared.clear()
            own.context = None
            # What is wrong with a file is told by the connection.
            with suppress(OSError):
                await to_thread(own.get)
        return shared.setdefault(renewed, own)

    return Sharing


def _renewed_at(path: str | None) -> float:
    with suppress(OSError):
        return Path(path).stat().st_mtime if path is not None else 0.0
    return 0.0


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
            if arguments[0] == "EVALSHA":
                # One word, and nothing among its arguments that has to be converted.
                return [hiredis.pack_command(arguments)]
            packed: list[bytes] = self._serializer.pack(*arguments)
            return packed

        async def send_command(self, *arguments: Any, **named: Any) -> None:
            if len(arguments) <= _PACKED_TOGETHER:
                await super().send_command(*arguments, **named)
            else:
                await self.send_packed_command(await _packed_in_pieces(arguments), **named)

        async def read_response(self, *arguments: Any, **named: Any) -> Any:
            if self.socket_timeout is None:
                return await super().read_response(*arguments, **named)
            async with _time_limit(self.socket_timeout):
                return await super().read_response(*arguments, timeout=inf, **named)

    return Packing


@asynccontextmanager
async def _time_limit(seconds: float) -> AsyncIterator[None]:
    """Raises TimeoutError after so long, but takes what has come by then: uvloop runs timers before
    it reads, so where the loop stands still for so long every reply would be too late."""
    async with timeout(None) as limit:
        run_out = get_running_loop().call_later(seconds, _end, limit)
        try:
            yield
        finally:
            run_out.cancel()


def _end(limit: Timeout, turns: int = 2) -> None:
    """In the first turn the loop reads, in the second those run that wait for what it read."""
    loop = get_running_loop()
    if turns:
        loop.call_soon(_end, limit, turns - 1)
    else:
        # It may be over by now.
        with suppress(RuntimeError):
            limit.reschedule(loop.time())


async def _packed_in_pieces(arguments: Sequence[Any]) -> list[bytes]:
    """The bytes of a command with thousands of arguments; others have a turn between pieces."""
    pieces = [b"*%d\r\n" % len(arguments)]
    for start in range(0, len(arguments), _PACKED_TOGETHER):
        packed = hiredis.pack_command(tuple(arguments[start : start + _PACKED_TOGETHER]))
        # Without the number of arguments, which is that of the piece.
        pieces.append(packed[packed.index(b"\n") + 1 :])
        await sleep(0)
    return pieces


_HELD: Final = 4
"""Connections that stay out of the pool; of more at a time the others are given back."""


class HeldConnections:
    """Commands of one client on a few connections that stay out of its pool meanwhile: taking one
    out, giving it back, and a clock for each step cost more than a small command.

    Each command has the client's time-out, as a whole. For one event loop.
    """

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._pool = client.connection_pool
        self._seconds: float = self._pool.connection_kwargs["socket_timeout"]
        self._idle: list[redis.asyncio.connection.AbstractConnection] = []

    async def run(self, *command: Any) -> Any:
        """The reply; raises as the client does."""
        connection = self._idle.pop() if self._idle else await self._taken()
        connection.socket_timeout = None
        try:
            async with _time_limit(self._seconds):
                if not connection.is_connected or await connection.can_read():
                    # The server has closed it, or is about to.
                    await self._pool.ensure_connection(connection)
                await connection.send_command(*command)
                reply = await connection.read_response()
        except BaseException:
            await self._release(connection)
            raise
        if len(self._idle) < _HELD:
            self._idle.append(connection)
        else:
            await self._release(connection)
        return reply

    async def run_script(
        self, script: AsyncScript, names: Sequence[str], arguments: Sequence[str | bytes | int]
    ) -> Any:
        """The same of a Lua script with these keys."""
        command = ("EVALSHA", script.sha, len(names), *names, *arguments)
        try:
            return await self.run(*command)
        except NoScriptError:
            await self.run("SCRIPT LOAD", script.script)
            return await self.run(*command)

    async def drop(self) -> None:
        """Have every command from now on look its server up by name."""
        while self._idle:
            connection = self._idle.pop()
            await connection.disconnect()
            await self._release(connection)

    async def _taken(self) -> redis.asyncio.connection.AbstractConnection:
        return await self._pool.get_connection()  # type: ignore[no-untyped-call,no-any-return]

    async def _release(self, connection: redis.asyncio.connection.AbstractConnection) -> None:
        connection.socket_timeout = self._seconds
        await self._pool.release(connection)


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
    database = dict(parse_qsl(parts.query)).get("db") or parts.path.strip("/") or "0"
    return f"{parts.hostname}:{parts.port or 6379}/{database}"


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
        """Raises MasterUnreplicated where too few confirm in time."""
        if self._cluster is None:
            return
        for server, own in shards_by_master(self._cluster, shards).items():
            wait_for_replicas(server, own, self._number, self._milliseconds)


NO_REPLICAS: Final = Replicas(None, 0, 0.0)
_PROBE_LIFE: Final = 60


def shards_by_master(client: redis.Redis, shards: Iterable[int]) -> dict[redis.Redis, list[int]]:
    """The shards of each master of them; of one server none, as it has all."""
    if not isinstance(client, ClusterRedis):
        return {client: []}
    found: dict[redis.Redis, list[int]] = {}
    for shard in shards:
        found.setdefault(client.server_of(keys.probe(f"{shard:02d}")), []).append(shard)
    return found


def wait_for_replicas(
    server: redis.Redis, shards: Sequence[int], number: int, milliseconds: int
) -> None:
    """Writes a tiny key in one of its shards, and waits for so many replicas to have it and what
    came before it, if any; raises MasterUnreplicated where too few confirm in time."""
    pipeline = server.pipeline(transaction=False)
    probe = keys.probe(f"{shards[0]:02d}") if shards else keys.PROBE
    pipeline.set(probe, 1, ex=_PROBE_LIFE)
    if number:
        pipeline.wait(number, milliseconds)
    confirmed = pipeline.execute()[-1]
    if number and confirmed < number:
        of = server.connection_pool.connection_kwargs
        address = f"{of['host']}:{of['port']}" if "host" in of else of.get("path")
        told = f" of shards {', '.join(map(str, shards))}" if shards else ""
        raise MasterUnreplicated(confirmed, number, address, told)


_INCLUDE = re.compile(r"^-- include (\w+)$", re.MULTILINE)


def lua(name: str) -> str:
    """The text of lua/<name>.lua, with those that it includes."""
    text = files("app.storage").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: lua(found[1]), text)


# Redis 6.2 and 7.0, and later ones: an error like any other.
_DENIED_IN_SCRIPT: Final = re.compile("user executing the script can't|ACL failure in script")


@contextmanager
def reaching_the_store() -> Iterator[None]:
    """Turns whatever a call to Redis raises into StorageUnavailable, or its StoreDenied; also a
    decorator."""
    try:
        yield
    except (RedisError, OSError) as error:
        if isinstance(error, DENIED) or _DENIED_IN_SCRIPT.search(str(error)):
            raise StoreDenied(error) from error
        raise StorageUnavailable(f"the store failed: {error}") from error
