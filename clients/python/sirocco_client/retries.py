"""When to send a request again, and when that would only make it worse."""

import random
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

import httpx

from sirocco_client.connections import AttemptResult, Deadline
from sirocco_client.errors import BadInput, TimedOut, Unavailable
from sirocco_client.requests import HttpRequest, HttpResponse

TRY_AGAIN: Final = frozenset({429, 502, 503})
_SHARE: Final = 0.1
_SAVED: Final = 10.0

Random = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full jitter: a pause drawn evenly from 0 to a limit that doubles with every try."""

    first_seconds: float
    most_seconds: float

    def pause(self, tries: int, draw: Random = random.random) -> float:
        """Seconds to wait after so many failed tries.

        >>> Backoff(1.0, 5.0).pause(2, lambda: 0.5)
        1.0
        """
        return draw() * min(self.most_seconds, self.first_seconds * 2.0 ** min(tries - 1, 60))


class RetryBudget:
    """Retries that may be made: each request earns a tenth of one, and ten are saved at most.

    When the service is down everybody's every request fails; without a budget each would come
    several times, just when the service has least to spare.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved = _SAVED

    def earn(self) -> None:
        """A request is made for the first time."""
        with self._lock:
            self._saved = min(_SAVED, self._saved + _SHARE)

    def spend(self) -> bool:
        """Whether one more retry may be made; it counts as made."""
        with self._lock:
            allowed = self._saved >= 1.0
            self._saved -= allowed
            return allowed


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how soon a request that changes nothing is made again."""

    most: int
    budget: RetryBudget
    backoff: Backoff = Backoff(0.02, 1.0)

    def __post_init__(self) -> None:
        if self.most < 0:
            raise BadInput("retries", "must be at least 0", self.most)


class Tries:
    """The tries of one request until its deadline."""

    def __init__(self, retries: Retries, deadline: Deadline) -> None:
        self.deadline = deadline
        self.made = 0
        self._retries = retries
        retries.budget.earn()

    def is_response(self, found: AttemptResult) -> TypeGuard[HttpResponse]:
        """Whether it is a response, good or bad, and no reason to try again."""
        self.made += 1
        return isinstance(found, HttpResponse) and found.status < 500 and found.status != 429

    def pause_after(self, found: AttemptResult) -> float:
        """Seconds to wait before the next try; raises Unavailable if there is to be none."""
        error = unavailable(found, self.made)
        if not _may_help(found) or self.made > self._retries.most:
            raise error
        pause = self._retries.backoff.pause(self.made)
        if isinstance(found, HttpResponse) and found.retry_after is not None:
            pause += found.retry_after
        if pause >= self.deadline.left or not self._retries.budget.spend():
            raise error
        return pause


Calls = Generator[HttpRequest | float, AttemptResult | None, Any]
"""Yields a request, whose result it is sent, or seconds to sleep."""


def with_retries(
    exchange: Generator[HttpRequest, HttpResponse, Any], retries: Retries, deadline: Deadline
) -> Calls:
    """The exchange, each of its requests tried until there is a response; raises Unavailable."""
    try:
        request = next(exchange)
        while True:
            tries = Tries(retries, deadline)
            while not tries.is_response(found := cast(AttemptResult, (yield request))):
                yield tries.pause_after(found)
            request = exchange.send(found)
    except StopIteration as end:
        return end.value


def unavailable(found: AttemptResult, tries: int) -> Unavailable:
    """The error that says why there is no response."""
    if isinstance(found, HttpResponse):
        return Unavailable(f"the service answered {found.status}", tries, found.status)
    if isinstance(found, httpx.TimeoutException):
        return TimedOut(f"no answer in time ({type(found).__name__})", tries)
    return Unavailable(f"no answer ({type(found).__name__}: {found})", tries)


def _may_help(found: AttemptResult) -> bool:
    """Whether the next try may do better: who is only slow must not be sent more."""
    if isinstance(found, HttpResponse):
        return found.status in TRY_AGAIN
    return not isinstance(found, httpx.TimeoutException)
