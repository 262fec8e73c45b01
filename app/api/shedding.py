"""Overload: what is refused at once so that the rest is answered in time.

A process is overloaded when too many requests wait in it, or when its event loop is behind: then
requests are ready faster than they can be answered, and each waits for all before it. Events and
reads are refused first, calibrations at four times as much, health and metrics never.
"""

from asyncio import AbstractEventLoop, TimerHandle
from http import HTTPStatus
from time import perf_counter, thread_time
from typing import Final

from app.api.metrics.counters import Metrics
from app.api.problems import Problem
from app.settings import Settings

_TICK: Final = 0.02
_MOST_TIMES_ITS_WORK: Final = 4.0
NEVER_SHED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
PATIENCE: Final = 4
"""By how much more calibrations bear than all other requests."""
OVERLOADED: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "overloaded",
    "more comes than can be answered in time: send it again later",
    {"Retry-After": "1"},
)


class LoadShedder:
    """Of one process; to be called on the thread of its event loop only.

    The loop is late by the time since it should have come round, but for what others on the machine
    took of it: a process that was held up for a moment has no queue of its own making. And it is
    behind only when it is late twice in a row: one slow request leaves none either.

    While the loop is `calm` and fewer than `most_requests` are `in_flight`, which who works on a
    request that may have to wait counts, nothing is refused: most requests need not ask.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.most_requests = settings.shed_requests
        self.in_flight = 0
        self.calm = True
        self._most_lag = settings.shed_lag_seconds
        self._metrics = metrics
        self._used = self._due = self._before = self._earlier = 0.0
        self._timer: TimerHandle | None = None

    def start(self, loop: AbstractEventLoop) -> None:
        """Watch the loop."""
        now = perf_counter()
        self._earlier = self._before
        self._before = self.lag(now) if self._timer is not None else 0.0
        self._used, self._due = thread_time(), now + _TICK
        self.calm = self._before < self._most_lag
        self._timer = loop.call_later(_TICK, self.start, loop)

    def stop(self) -> None:
        """Watch it no more."""
        if self._timer is not None:
            self._timer.cancel()

    def refuses(self, route: str, now: float, patience: int = 1) -> bool:
        """Whether the request is to be answered with OVERLOADED, which is counted.

        `now` is `perf_counter()`, `patience` by how much more than others the request bears.
        """
        is_crowded = self.in_flight >= self.most_requests * patience
        if not is_crowded and not self._is_behind(now, self._most_lag * patience):
            return False
        self._metrics.count_shed(route)
        return True

    def _is_behind(self, now: float, bound: float) -> bool:
        if self._before < bound:
            return False
        return self._earlier >= bound or self.lag(now) >= bound

    def lag(self, now: float) -> float:
        """Seconds that the loop is late, at most four times those that it worked."""
        return min(now - self._due, _MOST_TIMES_ITS_WORK * (thread_time() - self._used))
