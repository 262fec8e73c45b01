"""Open connections: how many may be open and are, how many were closed for what, and the reaper of
those whose clients are too slow.
"""

import logging
import resource
from asyncio import AbstractEventLoop
from collections.abc import Collection, Iterator
from enum import IntEnum
from itertools import islice
from math import ceil
from typing import Final, Protocol

from app.api.metrics.counters import Metrics, Reason
from app.settings import variable_of


class ConnectionCounts:
    """Of the process that `metrics` counts for; to be called on the event loop's thread only."""

    def __init__(self, metrics: Metrics) -> None:
        self._row = metrics.row
        self._open, self._closed = metrics.layout.connections, metrics.layout.closed
        # Connections do not outlive their process, but its row does.
        self._row[self._open] = 0.0

    def opened(self) -> None:
        """A connection was taken."""
        self._row[self._open] += 1.0

    def lost(self) -> None:
        """A connection that was taken is gone, by whoever's will."""
        self._row[self._open] -= 1.0

    def ended(self, reason: Reason) -> None:
        """A connection was ended, or not taken, for the reason."""
        self._row[self._closed[reason]] += 1.0


# Redis, the log, the listening socket, the loop's own, and files that are open for a moment.
OTHER_FILES: Final = 128

_log = logging.getLogger(__name__)


def connections_that_fit(wanted: int) -> int:
    """How many connections of those wanted the process may open, at its highest limit of files.

    Raises the soft limit to the hard one, and logs a warning where that does not do.
    """
    files = _raised_limit()
    room = max(1, files - OTHER_FILES)
    if room >= wanted:
        return wanted
    _log.warning(
        "%s = %d: only %d connections fit, because this process may have %d open files at most; "
        "raise the hard limit (ulimit -Hn, LimitNOFILE) or lower the setting",
        variable_of("max_connections"),
        wanted,
        room,
        files,
    )
    return room


def _raised_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems say that there is no limit and then do not grant it.
            hard = soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 30


_LOOKS: Final = 8
_LONGEST_PAUSE: Final = 5.0
# So few at a time that nobody waits for the reaper: some fifty microseconds.
_SLICE: Final = 100


class Phase(IntEnum):
    """What a connection is waiting for."""

    ANSWER = 0
    """For us: there is no bound on that."""
    IDLE = 1
    """For a request to begin."""
    REQUEST = 2
    """For the rest of a request."""
    READER = 3
    """For the caller to read what is written."""


class Watched(Protocol):
    """A connection as the reaper sees it; the attributes are the reaper's own."""

    phase: Phase
    progress: object
    age: int

    def state(self) -> tuple[Phase, object]:
        """The phase, and an object that is another one as soon as there is progress in it."""

    def expire(self, phase: Phase) -> None:
        """End the connection, which was too long in this phase."""


class SlowClientReaper:
    """Ends connections that were in one phase, without progress, for more than its seconds.

    Counts looks, not time: a process that was held up does not take it for a caller's silence.
    A connection is ended after its seconds and at most a quarter of the shortest more.
    """

    def __init__(self, receive_seconds: float, keep_alive_seconds: float) -> None:
        self._pause = min(receive_seconds / _LOOKS, keep_alive_seconds / _LOOKS, _LONGEST_PAUSE)
        receive = ceil(receive_seconds / self._pause)
        self._most = {
            Phase.IDLE: ceil(keep_alive_seconds / self._pause),
            Phase.REQUEST: receive,
            Phase.READER: receive,
        }
        self._running = False

    def start(self, loop: AbstractEventLoop, connections: Collection[Watched]) -> None:
        """Look after these connections until none is left; called with every new one."""
        if not self._running:
            self._running = True
            loop.call_later(self._pause, self._begin, loop, connections)

    def _begin(self, loop: AbstractEventLoop, connections: Collection[Watched]) -> None:
        self._running = bool(connections)
        if connections:
            self._go_on(loop, connections, iter(list(connections)))

    def _go_on(
        self, loop: AbstractEventLoop, connections: Collection[Watched], rest: Iterator[Watched]
    ) -> None:
        some = list(islice(rest, _SLICE))
        # First of all, so that no fault of one connection ends the looks.
        if some:
            loop.call_soon(self._go_on, loop, connections, rest)
        else:
            loop.call_later(self._pause, self._begin, loop, connections)
        for connection in some:
            if connection in connections:
                self._look(connection)

    def _look(self, connection: Watched) -> None:
        phase, progress = connection.state()
        if phase is not connection.phase or progress is not connection.progress:
            connection.phase, connection.progress, connection.age = phase, progress, 0
        elif phase is not Phase.ANSWER:
            connection.age += 1
            if connection.age >= self._most[phase]:
                connection.expire(phase)
