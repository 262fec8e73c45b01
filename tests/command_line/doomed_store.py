"""A socket between a service and its Redis, where processes die at a chosen step: kill -9.

A step is one request to Redis. What dies is told by the connection itself: the process that sends
the request, or the server that is to answer it.
"""

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer
from threading import Event, Lock, Thread
from typing import Literal

from app.storage.redis.client import lua

BYTES_AT_ONCE = 65_536
Victim = Literal["caller", "Redis"]
Moment = Literal["before", "amid", "after"]

NOTHING_DONE = b"*0\r\n"
"""The reply of a step that found nothing to do."""


@dataclass(frozen=True)
class Doom:
    """Who dies around the first request that holds the bytes of one of the steps.

    `before`: the request never arrives. `amid`: it arrives, and nobody knows whether it was done.
    `after`: it was done, and its reply never arrives. Only what comes behind a request that holds
    `since` counts, if that is given.
    """

    victim: Victim
    moment: Moment
    steps: tuple[bytes, ...]
    since: bytes = b""


def script(name: str) -> bytes:
    """What every call of one of our scripts holds."""
    return sha1(lua(name).encode()).hexdigest().encode()


def around(victim: Victim, moment: Moment, name: str) -> Doom:
    """The doom at the next call of one of our scripts."""
    return Doom(victim, moment, (script(name),))


class DoomedStore(ThreadingUnixStreamServer):
    """Passes everything on between its own socket and that of Redis, until doom strikes."""

    daemon_threads = True

    def __init__(self, path: Path, redis_path: Path, redis_process: Callable[[], int]) -> None:
        super().__init__(str(path), _Connection)
        self.redis_path = redis_path
        self._redis_process = redis_process
        self._lock = Lock()
        self._doom: Doom | None = None
        self._begun = False
        self._struck = Event()
        self.victim = 0

    def arm(self, doom: Doom) -> None:
        """Have somebody die at the next such step."""
        with self._lock:
            self._struck.clear()
            self._doom, self._begun = doom, not doom.since

    @property
    def has_struck(self) -> bool:
        """Whether somebody has died since; `victim` is the process id."""
        return self._struck.is_set()

    def doom_of(self, request: bytes) -> Doom | None:
        """What is to happen around a request."""
        with self._lock:
            doom = self._doom
            if doom is None:
                return None
            if not self._begun:
                self._begun = doom.since in request
                return None
            return doom if any(step in request for step in doom.steps) else None

    def strike(self, doom: Doom, caller: int) -> bool:
        """Kill the victim, unless somebody died of this already."""
        with self._lock:
            if self._doom is not doom:
                return False
            self._doom = None
            self.victim = caller if doom.victim == "caller" else self._redis_process()
            os.kill(self.victim, signal.SIGKILL)
            self._struck.set()
        return True


class _Connection(BaseRequestHandler):
    """One connection of the service: requests on to Redis, replies back."""

    server: DoomedStore
    request: socket.socket

    def handle(self) -> None:
        self._awaited: Doom | None = None
        with socket.socket(socket.AF_UNIX) as redis:
            try:
                redis.connect(str(self.server.redis_path))
            except OSError:
                return  # it is down: so is the caller's connection
            back = Thread(target=self._pass_replies, args=(redis,), daemon=True)
            back.start()
            self._pass_requests(redis)
            _end(redis)
            back.join()

    def _pass_requests(self, redis: socket.socket) -> None:
        for request in _received(self.request):
            doom = self.server.doom_of(request)
            if doom is not None and doom.moment == "before" and self._strike(doom):
                return
            self._awaited = doom if doom is not None and doom.moment == "after" else None
            if not _sent(redis, request):
                return
            if doom is not None and doom.moment == "amid" and self._strike(doom):
                return

    def _pass_replies(self, redis: socket.socket) -> None:
        for reply in _received(redis):
            doom, self._awaited = self._awaited, None
            done = not reply.startswith((b"-", NOTHING_DONE))
            if (doom is not None and done and self._strike(doom)) or not _sent(self.request, reply):
                break
        _end(self.request)

    def _strike(self, doom: Doom) -> bool:
        credentials = self.request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        process, _, _ = struct.unpack("3i", credentials)
        return self.server.strike(doom, process)


def _received(connection: socket.socket) -> Iterator[bytes]:
    try:
        while data := connection.recv(BYTES_AT_ONCE):
            yield data
    except OSError:
        return


def _sent(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
