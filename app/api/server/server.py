"""Serves the application over HTTP until it is told to stop: a uvicorn server that keeps its worker
status current and ends without failing a request.
"""

import asyncio
import ctypes
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import Any, Final, cast

import uvicorn

from app.access.key_watch import refuse_public_address
from app.api.application import create_app
from app.api.metrics.workers import WorkerSlot, WorkerStatus
from app.api.resources import Resources
from app.api.server.protocol import protocol_of
from app.settings import Settings

_LOOK_SECONDS: Final = 0.02
# After the last answer a caller may be about to send its next request, or its first after a new
# connection: both take less than this unless the caller is idle.
_IDLE_SECONDS: Final = 2.0
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK: Final = 1 << 20
THRESHOLD_VARIABLE: Final = "MALLOC_MMAP_THRESHOLD_"
_CLOSE: Final = (b"connection", b"close")


class DrainingServer(uvicorn.Server):
    """Keeps `status` current.

    A lone process that is to end goes on accepting for `drain_seconds`, so that a balancer can look
    elsewhere first. One of several stops accepting at once: the others take what waits in the
    socket they share.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        status: WorkerStatus,
        drain_seconds: float,
        admin: socket.socket | None = None,
    ) -> None:
        super().__init__(config)
        self._admin = admin
        self._status = status
        self._drain_seconds = drain_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open everything, then accept; from `sockets` only once there is something to serve."""
        if sockets is None:
            await super().startup()
        else:
            await super().startup([])
            await self._wait(lambda: self._status.may_serve)
            self.servers = [await self._accept_from(each) for each in sockets]
        if self._admin is not None:
            self.servers.append(await self._accept_from(self._admin))
        self._status.serving = True
        self._status.update()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        self._status.update()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was begun, then close.

        Every answer from now on is its connection's last, and says so. Idle connections are closed
        when they have had the time to become busy once more.
        """
        self.server_state.default_headers = [*self.server_state.default_headers, _CLOSE]
        if self._status.is_alone and self._drain_seconds:
            self._status.table.drain()
            await self._wait(lambda: False, self._drain_seconds)
        self._status.serving = False
        self._status.update()
        for server in self.servers:
            server.close()
        # What is being answered now took its headers from before the end began.
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            if connection.cycle is not None and not connection.cycle.response_complete:
                connection.shutdown()
        await self._wait(lambda: not self.server_state.connections, _IDLE_SECONDS)
        await super().shutdown(sockets)

    async def _wait(self, done: Callable[[], bool], seconds: float | None = None) -> None:
        """Returns when it is done, too late, or when a signal says not to wait.

        A process that stood still has read nothing meanwhile: that time does not count, or it would
        close connections on which a request has come.
        """
        loop = asyncio.get_running_loop()
        waited, before, waits = 0.0, loop.time(), self.should_exit
        while not done() and not self.force_exit and self.should_exit == waits:
            if seconds is not None and waited >= seconds:
                return
            self._status.update()
            await asyncio.sleep(_LOOK_SECONDS)
            now = loop.time()
            waited, before = waited + min(now - before, _IDLE_SECONDS / 4), now

    async def _accept_from(self, listener: socket.socket) -> asyncio.Server:
        def protocol() -> asyncio.Protocol:
            # As uvicorn itself does, which would accept before it is known what to serve.
            made: Any = self.config.http_protocol_class
            return cast(
                asyncio.Protocol,
                made(
                    config=self.config,
                    server_state=self.server_state,
                    app_state=self.lifespan.state,
                    _loop=loop,
                ),
            )

        loop = asyncio.get_running_loop()
        return await loop.create_server(protocol, sock=listener, backlog=self.config.backlog)


_SHUTDOWN_SECONDS: Final = 10


def run_server(
    settings: Settings,
    redis_url: str,
    admin: socket.socket | None = None,
    slot: WorkerSlot | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, the admin routes from a listener of their own if there is one;
    with a slot as one of several processes that accept from the same listening sockets.

    Raises PublicAddressRefused, and LayoutsDiffer with a slot, before anything is opened.
    """
    server = server_of(settings, redis_url, slot, admin)
    give_large_blocks_back()
    server.run(None if listener is None else [listener])


def give_large_blocks_back() -> None:
    """Has glibc map each block of a megabyte or more by itself, and unmap it when it is freed.

    Of its own accord it does so until the first is freed: from then on it takes blocks of that size
    from a heap, which holds one more of them each time that a version finds no gap. Where
    MALLOC_MMAP_THRESHOLD_ is set, and elsewhere than on glibc, all stays as it is.
    """
    if sys.platform == "linux" and THRESHOLD_VARIABLE not in os.environ:
        with suppress(AttributeError):
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def server_of(
    settings: Settings,
    redis_url: str,
    slot: WorkerSlot | None = None,
    admin: socket.socket | None = None,
) -> uvicorn.Server:
    """The server, not yet running; `slot` is that of one of several processes."""
    refuse_public_address(settings, redis_url)
    app = create_app(settings, redis_url, slot)
    resources: Resources = app.state.resources
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=protocol_of(settings, resources.metrics),
        ws="none",
        lifespan="on",
        access_log=False,
        # Its loggers write as ours do.
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(settings.keep_alive_seconds),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return DrainingServer(config, resources.status, settings.drain_seconds, admin)
