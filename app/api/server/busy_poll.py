"""A server that looks for requests without a sleep while they come."""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any, Final

_IDLE_SECONDS: Final = 2e-5
"""A turn of the loop with anything to do takes more CPU time than this, one without takes less."""


@dataclass(slots=True)
class Polled:
    """CPU time that an event loop has spent on looking for what did not come."""

    seconds: float = 0.0


class BusyPoll:
    """Keeps an event loop awake until no request has come for `seconds`; 0 lets it sleep at once.

    A processor that sleeps has to be woken, and wakes with cold caches; under a hypervisor it is
    given away meanwhile, and has to be got back. The request that wakes it waits for all of that.
    A loop with something to call does not wait for its sockets but only looks at them.

    `answered()` is a number that changes with every request that counts; `clock()` and
    `call_soon()` are the loop's. What the turns of the loop cost that found nothing to do goes to
    `polled`.
    """

    def __init__(
        self,
        seconds: float,
        answered: Callable[[], float],
        polled: Polled,
        clock: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._seconds = seconds
        self._answered = answered
        self._polled = polled
        self._clock = clock
        self._call_soon = call_soon
        self._seen = answered()
        self._until = clock()
        self._used = 0.0
        self._is_polling = False

    def look(self) -> None:
        """Begins if requests have come; to be called by the loop now and then."""
        if not self._is_polling:
            self._used = thread_time()
            self._go_on()

    def _go_on(self) -> None:
        answered, now, used = self._answered(), self._clock(), thread_time()
        if answered != self._seen:
            self._seen, self._until = answered, now + self._seconds
        if used - self._used < _IDLE_SECONDS:
            self._polled.seconds += used - self._used
        self._used = used
        self._is_polling = now < self._until
        if self._is_polling:
            self._call_soon(self._go_on)
