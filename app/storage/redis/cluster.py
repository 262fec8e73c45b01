"""Clients of several servers: those of a Redis Cluster, where each command goes to the master of
its key's slot, and the master that Redis Sentinel names, asked anew for each new connection.

Our keys have seventeen hash tags, those of 16 shards and of `{maps}`, so a map of so many slots is
all there is to know. What goes to one master uses the same connections as a single server would:
requests wait for a free one, and whatever fails is an error of redis-py, not an AttributeError as
its own cluster client raises during a failover.

A master that moved a slot away says where to (MOVED, ASK); one in the middle of it says TRYAGAIN,
and the command, of which nothing was done, is repeated until the time-out. A connection that fails
has the map read anew, and is an error: the caller knows whether to repeat.

With Sentinel the next connection finds a promoted replica: what was open to the master before it
fails, or is dropped once that refuses writes.
"""

import time
from asyncio import sleep, to_thread
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, Self, TypeVar

import redis
import redis.asyncio
from redis.client import Pipeline, PubSub
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, RedisError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.storage.redis.addresses import Host, StoreAddress

_OURS: Final = "sirocco:{"
_MAPS: Final = "sirocco:{maps}:"
_KEYS_BEFORE: Final = 4
"""The first key stands among so many words of a command."""
_PAUSE_SECONDS: Final = 0.02
_READ_AGAIN_SECONDS: Final = 0.1
_ASK_AGAIN_SECONDS: Final = 1.0
_TO_ALL: Final = {"SCRIPT LOAD", "FLUSHALL", "PING"}
_SLOTS: Final = 16384

Result = TypeVar("Result")
_Command = tuple[tuple[Any, ...], dict[str, Any]]
_FAILED: Final = (RedisConnectionError, RedisTimeoutError, OSError)
DENIED: Final = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
"""What is raised where credentials are refused, or what their user may do."""


class SlotMap:
    """Which master serves which slot, as one of the nodes says; for any number of threads."""

    def __init__(self, address: StoreAddress, ask: Callable[[str], redis.Redis]) -> None:
        self._address = address
        self._ask = ask
        self._nodes = list(address.hosts)
        self._spans: list[tuple[int, int, Host]] = []
        self._by_tag: dict[str, Host] = {}
        self._read_at = self._failed_at = float("-inf")
        self._failed, self._failure = RedisConnectionError, ""
        self._lock = Lock()

    def master_of(self, key: str) -> Host:
        """Where a key is; raises redis-py's ConnectionError where nobody says."""
        tag = _tag_of(key)
        found = self._by_tag.get(tag)
        if found is None:
            if not self._spans:
                self.read()
            slot = key_slot(key.encode())
            spans = (host for first, last, host in self._spans if first <= slot <= last)
            found = next(spans, None)
            if found is None:
                raise RedisConnectionError(f"no master of the cluster serves the slot {slot}")
            self._by_tag[tag] = found
        return found

    @property
    def is_read(self) -> bool:
        """Whether `master_of` waits for nobody."""
        return bool(self._spans)

    def masters(self) -> list[Host]:
        """All masters that serve slots."""
        if not self._spans:
            self.read()
        return sorted({host for _, _, host in self._spans})

    @property
    def is_whole(self) -> bool:
        """Whether each slot is served, as far as is known."""
        return sum(last - first + 1 for first, last, _ in self._spans) == _SLOTS

    def move(self, key: str, host: Host) -> None:
        """Take it from the master that had a key's slot who has it now: the node that is asked for
        the map may not have heard of it."""
        if host[0]:
            self._by_tag[_tag_of(key)] = host

    def forget(self) -> None:
        """Have the next caller read the map anew."""
        self._by_tag, self._spans = {}, []

    def read(self) -> None:
        """Ask the nodes, first those that were masters; not again within a tenth of a second. Where
        none answers, who waits meanwhile or comes soon after is told the same and asks nobody, for
        nodes that hang take a time-out each."""
        came = time.monotonic()
        with self._lock:
            if self._spans and time.monotonic() - self._read_at < _READ_AGAIN_SECONDS:
                return
            if came - self._failed_at < _ASK_AGAIN_SECONDS:
                raise self._failed(self._failure)
            self._failed, self._failure = RedisConnectionError, "no node of the cluster answers"
            for node in list(self._nodes):
                try:
                    self._take(node, self._reported(node))
                    return
                except (RedisError, OSError) as failure:
                    self._failure = str(failure)
                    denied = isinstance(failure, DENIED)
                    self._failed = redis.AuthenticationError if denied else RedisConnectionError
            self._failed_at = time.monotonic()
            raise self._failed(self._failure)

    def _reported(self, node: Host) -> list[tuple[int, int, Host]]:
        with self._ask(self._address.server_url(*node)) as client:
            # Two words, so that redis-py leaves the reply as it is.
            slots = _sent(client, ("CLUSTER", "SLOTS"), {})
        if not slots:
            raise RedisConnectionError("a node of the cluster knows of no slots")
        return [
            (int(first), int(last), (_name(master[0]) or node[0], int(master[1])))
            for first, last, master, *_ in slots
        ]

    def _take(self, node: Host, spans: list[tuple[int, int, Host]]) -> None:
        self._by_tag, self._spans, self._read_at = {}, spans, time.monotonic()
        masters = {host for _, _, host in spans}
        known = dict.fromkeys((node, *masters, *self._address.hosts))
        self._nodes = list(known)


def _name(host: bytes | None) -> str:
    """What a node calls a host; "" where it says that it is the one which was asked."""
    return "" if host is None or host == b"?" else host.decode()


class _NoConnections(redis.ConnectionPool):
    """Where redis-py looks for encodings. What would connect by it has not been sent where its keys
    are, and must not find a server on the usual port instead."""

    def get_connection(self, *_: object, **__: object) -> Any:
        """Raises RuntimeError."""
        raise RuntimeError("a command that is not sent to a master of the cluster")


class ClusterRedis(redis.Redis):
    """Looks like the client of one server: commands, pipelines and scripts go where their keys are.

    A pipeline that is a transaction has keys of one slot. Commands without a key go to the master
    of `{maps}`, or where they concern all of them to all.
    """

    def __init__(
        self, address: StoreAddress, open_server: Callable[[str], redis.Redis], timeout: float
    ) -> None:
        super().__init__(connection_pool=_NoConnections())
        self.slots = SlotMap(address, open_server)
        self._address = address
        self._open = open_server
        self._timeout = timeout
        self._servers: dict[Host, redis.Redis] = {}

    def server_of(self, key: str) -> redis.Redis:
        """A client of the master of a key."""
        try:
            return self._server(self.slots.master_of(key))
        except RedisConnectionError:
            # A map that was read while the cluster came into being has holes.
            self._reread()
            raise

    def servers(self) -> list[redis.Redis]:
        """A client of each master."""
        return list(map(self._server, self.slots.masters()))

    def _server(self, host: Host) -> redis.Redis:
        found = self._servers.get(host)
        if found is None:
            found = self._servers[host] = self._open(self._address.server_url(*host))
        return found

    def drop(self) -> None:
        """Have the next command read the map, and connect anew."""
        self.slots.forget()
        for server in list(self._servers.values()):
            server.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close all connections."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """What redis-py calls for every command."""
        if args[0] in _TO_ALL:
            return [_sent(server, args, options) for server in self.servers()][-1]
        return self._routed(_key_of(args), lambda server: _sent(server, args, options))

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """As that of one server."""
        return _ClusterPipeline(self, transaction)

    def transaction(self, func: Callable[..., Any], *watches: Any, **options: Any) -> Any:
        """As that of one server, of keys of one slot, of which it watches one at least."""

        def run(server: redis.Redis) -> Any:
            return server.transaction(func, *watches, **options)

        return self._routed(_key_of(("WATCH", *watches)), run)

    def pubsub(self, **options: Any) -> PubSub:
        """Channels are heard on every node: this one listens where versions are published."""
        found: PubSub = self.server_of(_MAPS).pubsub(**options)  # type: ignore[no-untyped-call]
        return found

    def _routed(self, key: str, run: Callable[[redis.Redis], Result]) -> Result:
        deadline = time.monotonic() + self._timeout
        server = self.server_of(key)
        while True:
            try:
                return run(server)
            except _FAILED:
                self._reread()
                raise
            except (AskError, TryAgainError) as error:
                if time.monotonic() > deadline:
                    raise
                server = self._redirected(key, server, error)

    def _redirected(self, key: str, server: redis.Redis, error: Exception) -> redis.Redis:
        if isinstance(error, MovedError):
            self._reread()
            self.slots.move(key, (error.host, error.port))
            return self.server_of(key)
        if isinstance(error, AskError):
            return _asking(self._server((error.host, error.port)))
        time.sleep(_PAUSE_SECONDS)
        return self.server_of(key)

    def _reread(self) -> None:
        with suppress(RedisError, OSError):
            self.slots.read()

    def run_together(self, commands: Sequence[_Command], transaction: bool) -> list[Any]:
        """The replies, errors among them, in the order of the commands."""
        replies: list[Any] = [None] * len(commands)
        by_server: dict[int, list[int]] = {}
        servers = [self.server_of(_key_of(args)) for args, _ in commands]
        for place, server in enumerate(servers):
            by_server.setdefault(id(server), []).append(place)
        for places in by_server.values():
            some = [commands[place] for place in places]
            found = self._of_one(servers[places[0]], some, transaction)
            for place, reply in zip(places, found, strict=True):
                replies[place] = reply
        return replies

    def _of_one(
        self, server: redis.Redis, commands: Sequence[_Command], transaction: bool
    ) -> list[Any]:
        if transaction:
            key = _key_of(commands[0][0])
            return self._routed(key, lambda one: _pipelined(one, commands, transaction=True))
        try:
            replies = _pipelined(server, commands, transaction=False)
        except _FAILED:
            self._reread()
            raise
        for place, reply in enumerate(replies):
            if isinstance(reply, AskError | TryAgainError):
                replies[place] = self._alone(commands[place])
        return replies

    def _alone(self, command: _Command) -> Any:
        args, options = command
        try:
            return self.execute_command(*args, **options)
        except redis.ResponseError as error:
            return error


class _ClusterPipeline(Pipeline):
    """Gathers commands as redis-py's does; `ClusterRedis.run_together` sends them."""

    def __init__(self, cluster: ClusterRedis, transaction: bool) -> None:
        super().__init__(cluster.connection_pool, cluster.response_callbacks, transaction, None)
        self._cluster = cluster
        self._is_transaction = transaction

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """The replies, in the order of the commands."""
        commands, self.command_stack = self.command_stack, []
        if not commands:
            return []
        replies = self._cluster.run_together(commands, self._is_transaction)
        failed = (reply for reply in replies if isinstance(reply, Exception))
        if raise_on_error and (error := next(failed, None)) is not None:
            raise error
        return replies


def _sent(server: redis.Redis, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return server.execute_command(*args, **options)  # type: ignore[no-untyped-call]


def _pipelined(
    server: redis.Redis, commands: Iterable[_Command], *, transaction: bool
) -> list[Any]:
    pipeline = server.pipeline(transaction=transaction)
    for args, options in commands:
        _sent(pipeline, args, options)
    return pipeline.execute(raise_on_error=False)


def _asking(server: redis.Redis) -> redis.Redis:
    """A client whose next command is taken by a master that is about to get the slot."""
    client: redis.Redis = server.client()  # type: ignore[no-untyped-call]
    _sent(client, ("ASKING",), {})
    return client


def _tag_of(key: str) -> str:
    return key[len(_OURS) : key.find("}")]


def _key_of(args: Sequence[Any]) -> str:
    for word in args[1:_KEYS_BEFORE]:
        text = word.decode(errors="replace") if isinstance(word, bytes) else word
        if isinstance(text, str) and text.startswith(_OURS):
            return text
    return _MAPS


class AsyncClusterRedis:
    """The same for requests with events: runs what it is given on the master of a key."""

    def __init__(
        self,
        slots: SlotMap,
        address: StoreAddress,
        open_server: Callable[[str], redis.asyncio.Redis],
        timeout: float,
    ) -> None:
        self._slots = slots
        self._address = address
        self._open = open_server
        self._timeout = timeout
        self._servers: dict[Host, redis.asyncio.Redis] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def run(
        self, key: str, command: Callable[[redis.asyncio.Redis], Awaitable[Result]]
    ) -> Result:
        """What the command returns; it may be called again where a master has done nothing of it.

        A connection that fails is an error at once, and has the map read anew.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            if not self._slots.is_read:
                await to_thread(self._slots.read)
            try:
                return await command(self._server(self._slots.master_of(key)))
            except _FAILED:
                await self._reread()
                raise
            except MovedError as error:
                await self._reread()
                self._slots.move(key, (error.host, error.port))
                if time.monotonic() > deadline:
                    raise
            except AskError as error:
                server = self._server((error.host, error.port))
                # A script that this master does not know yet is asked for once more.
                with suppress(AskError, TryAgainError):
                    return await _ask(server, command)
                await self._pause(deadline, error)
            except TryAgainError as error:
                await self._pause(deadline, error)

    async def aclose(self) -> None:
        """Close all connections."""
        for server in self._servers.values():
            await server.aclose()
        self._servers.clear()

    async def _pause(self, deadline: float, error: Exception) -> None:
        if time.monotonic() > deadline:
            raise error
        await sleep(_PAUSE_SECONDS)

    def _server(self, host: Host) -> redis.asyncio.Redis:
        found = self._servers.get(host)
        if found is None:
            found = self._servers[host] = self._open(self._address.server_url(*host))
        return found

    async def _reread(self) -> None:
        with suppress(RedisError, OSError):
            await to_thread(self._slots.read)


async def _ask(
    server: redis.asyncio.Redis, command: Callable[[redis.asyncio.Redis], Awaitable[Result]]
) -> Result:
    """The command is given a client of one connection, whose next request is taken."""
    async with server.client() as connection:
        await connection.execute_command("ASKING")  # type: ignore[no-untyped-call]
        return await command(connection)


_LONGEST_ANSWER: Final = 0.5


class MasterFinder:
    """Asks the Sentinels of an address one after the other, first the last that has answered."""

    def __init__(self, address: StoreAddress, timeout_seconds: float) -> None:
        self._address = address
        self._order = list(address.hosts)
        timeout = min(timeout_seconds, _LONGEST_ANSWER)
        self._options: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "protocol": 2,
        }

    def master(self) -> Host:
        """Where the master answers; raises redis-py's ConnectionError if no Sentinel knows it."""
        failures = []
        for host in list(self._order):
            url = self._address.sentinel_url(*host)
            with redis.Redis.from_url(url, **self._options) as client:
                try:
                    found = client.sentinel_get_master_addr_by_name(self._address.master)
                except (RedisError, OSError) as error:
                    failures.append(str(error))
                    continue
            if found:
                return self._found(host, found)
        if len(failures) == len(self._order):
            raise RedisConnectionError(f"no Sentinel answers: {failures[-1]}")
        raise RedisConnectionError(f"no Sentinel knows a master {self._address.master!r}")

    def _found(self, sentinel: Host, master: Any) -> Host:
        # Not sorted in place: a list is empty meanwhile, and other threads read it.
        self._order = sorted(self._order, key=lambda one: one != sentinel)
        host, port = master
        return host if isinstance(host, str) else host.decode(), int(port)


def following(
    kind: type[redis.connection.AbstractConnection], finder: MasterFinder
) -> type[redis.connection.AbstractConnection]:
    """The kind of connection, but it connects to the master of the moment."""

    class Following(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            if self._sock is None:
                self.host, self.port = finder.master()
            super().connect()

    return Following


def following_async(
    kind: type[redis.asyncio.connection.AbstractConnection], finder: MasterFinder
) -> type[redis.asyncio.connection.AbstractConnection]:
    """The same of an asyncio connection."""

    class FollowingAsync(kind):  # type: ignore[misc, valid-type]
        async def connect(self) -> None:
            if not self.is_connected:
                self.host, self.port = await to_thread(finder.master)
            await super().connect()

    return FollowingAsync
