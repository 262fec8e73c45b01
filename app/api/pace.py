"""The pace of long work beside the requests: it takes no more of the core than they leave."""

from collections.abc import Callable
from time import monotonic, process_time, sleep, thread_time
from typing import Final

from app.api.busy_poll import Polled

_MOST_SECONDS: Final = 0.02
"""Even where requests take all of the core, the work goes on."""
_LEAST_SECONDS: Final = 0.0001
_LIGHT: Final = 1 / 3
"""Of a core: what needs no more than this has its room beside the work."""


def seconds_of_others(polled: Polled) -> float:
    """CPU time that all threads of the process but this one have used for work."""
    return process_time() - thread_time() - polled.seconds


class Pace:
    """To be called between the pieces of some work, which are of half a millisecond at most.

    Python gives threads that want to run the same time each, so work that goes on without a pause
    takes half of a core, of which requests may need more: they pile up until it is done. A call
    sleeps for as long as the other threads have worked since it last slept, unless that was little
    for the time. With requests that need a share u of the core, sleeps settle at u / (1 - u) of a
    piece, and the work at 1 - u.
    """

    def __init__(
        self,
        seconds_of_others: Callable[[], float],
        sleep: Callable[[float], None] = sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._seconds_of_others = seconds_of_others
        self._sleep = sleep
        self._clock = clock
        self._before, self._at = seconds_of_others(), clock()

    def __call__(self) -> None:
        """Wait for the others' turn."""
        others, now = self._seconds_of_others(), self._clock()
        worked, passed = others - self._before, now - self._at
        if worked >= _LEAST_SECONDS:
            self._before, self._at = others, now
            if worked > _LIGHT * passed:
                self._sleep(min(worked, _MOST_SECONDS))
