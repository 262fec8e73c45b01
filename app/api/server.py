"""Serves the application over HTTP until it is told to stop."""

import asyncio
import socket
from math import ceil
from typing import Final

import uvicorn

from app.api.application import create_app
from app.api.busy_poll import BusyPoll
from app.api.calibrate import PATH as CALIBRATE
from app.api.draining_server import DrainingServer
from app.api.place import Place
from app.api.protocol import protocol_of
from app.api.public_address import refuse_public_address
from app.api.resources import Resources
from app.settings import Settings

_SHUTDOWN_SECONDS: Final = 10


def run_server(settings: Settings, redis_url: str) -> None:
    """Serve until SIGINT or SIGTERM; raises PublicAddressRefused before anything is opened."""
    server_of(settings, redis_url).run()


def run_worker(settings: Settings, redis_url: str, place: Place, listener: socket.socket) -> None:
    """The same as one of several processes that accept from one listening socket.

    Raises SlotsDiffer, too, before anything is opened.
    """
    server_of(settings, redis_url, place).run([listener])


def server_of(settings: Settings, redis_url: str, place: Place | None = None) -> uvicorn.Server:
    """The server, not yet running; `place` is that of one of several processes."""
    refuse_public_address(settings)
    app = create_app(settings, redis_url, place)
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
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=ceil(settings.keep_alive_seconds),
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return DrainingServer(
        config,
        resources.presence,
        settings.drain_seconds,
        lambda loop: _busy_poll(resources, loop),
    )


def _busy_poll(resources: Resources, loop: asyncio.AbstractEventLoop) -> BusyPoll:
    """Only calibrations keep the server awake: probes and scrapes would do so for nothing."""
    return BusyPoll(
        resources.settings.busy_poll_seconds,
        lambda: resources.metrics.seconds_of(CALIBRATE),
        resources.polled,
        loop.time,
        loop.call_soon,
    )
