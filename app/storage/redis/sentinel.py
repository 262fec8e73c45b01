"""Connections to the master that Redis Sentinel names, asked anew for each that is opened.

A promoted replica is found by the next connection: what was open to the master before it fails, or
is dropped once that refuses writes.
"""

from typing import Any, Final

import redis
import redis.asyncio
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from app.storage.redis.addresses import Host, StoreAddress

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
        for host in list(self._order):
            with redis.Redis.from_url(self._url(host), **self._options) as client:
                try:
                    found = client.sentinel_get_master_addr_by_name(self._address.master)
                except (RedisError, OSError):
                    continue
            if found:
                return self._found(host, found)
        raise self._nobody()

    async def master_async(self) -> Host:
        """The same, for an event loop."""
        for host in list(self._order):
            async with redis.asyncio.Redis.from_url(self._url(host), **self._options) as client:
                try:
                    found = await client.sentinel_get_master_addr_by_name(self._address.master)
                except (RedisError, OSError):
                    continue
            if found:
                return self._found(host, found)
        raise self._nobody()

    def _url(self, host: Host) -> str:
        return self._address.sentinel_url(*host)

    def _found(self, sentinel: Host, master: Any) -> Host:
        # Not sorted in place: a list is empty meanwhile, and other threads read it.
        self._order = sorted(self._order, key=lambda one: one != sentinel)
        host, port = master
        return host if isinstance(host, str) else host.decode(), int(port)

    def _nobody(self) -> RedisConnectionError:
        return RedisConnectionError(f"no Sentinel knows a master {self._address.master!r}")


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
                self.host, self.port = await finder.master_async()
            await super().connect()

    return FollowingAsync
