"""The client for threads."""

import time
from collections.abc import Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Literal, Self

import httpx
from numpy.typing import ArrayLike

from sirocco_client.calibrate import RAW, Calibrated, CalibrateExchange, Exchange
from sirocco_client.connections import Address, Connections, Deadline, begins_anew_after_fork
from sirocco_client.errors import BadInput, Unavailable
from sirocco_client.event_buffer import EventBuffer
from sirocco_client.event_queue import Buffering
from sirocco_client.requests import CalibrateInput, Campaigns, Request
from sirocco_client.retries import AttemptResult, Retries, RetryBudget, Tries


class Sirocco:
    """A sirocco service at a URL; any number of threads may share it, and so may forked children.

    `timeout` seconds is the deadline of a whole `calibrate`, retries included; a bidder may want
    0.05. A request that could not be answered is made again up to `retries` times, within the
    deadline, and over all requests for at most one in ten of them. `fallback="raw"` gives the
    scores themselves when the service is away, instead of raising Unavailable. `binary` chooses
    binary columns (True), JSON (False), or what is cheaper for the size (None). `max_scores` is
    the service's own limit; larger questions are asked in parts.

    >>> with Sirocco("http://127.0.0.1:9", fallback="raw", retries=0) as sirocco:
    ...     answer = sirocco.calibrate("click", ["shoes", "hats"], [0.01, 0.2])
    >>> answer.probabilities.tolist(), answer.levels
    ([0.01, 0.2], ('raw', 'raw'))
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 1.0,
        connections: int = 16,
        retries: int = 2,
        fallback: Literal["raw"] | None = None,
        binary: bool | None = None,
        max_scores: int = 50_000,
        headers: Mapping[str, str] | None = None,
        verify: bool | SSLContext = True,
    ) -> None:
        check_options(timeout, fallback)
        self._address = Address(url, connections, headers or {}, verify)
        self._connections = Connections(self._address)
        self._timeout, self._fallback = timeout, fallback
        self._retries = Retries(retries, RetryBudget())
        self._dialogue = CalibrateExchange(binary, max_scores)
        begins_anew_after_fork(self)

    def calibrate(
        self, target: str, campaigns: Campaigns, scores: ArrayLike, *, explain: bool = False
    ) -> Calibrated:
        """Probabilities of the scores, in their order.

        `campaigns` has one name per score, or is one name for all. `explain` asks for the level of
        map behind each. Raises BadInput, Refused, or Unavailable when there is no fallback.
        """
        question = CalibrateInput.of(target, campaigns, scores)
        try:
            return self._talk(self._dialogue.about(question, explain), Deadline(self._timeout))
        except Unavailable:
            if self._fallback == RAW:
                return Calibrated.raw(question.scores)
            raise

    def events(self, buffering: Buffering | None = None) -> EventBuffer:
        """A buffer that sends events in the background, on connections of its own."""
        return EventBuffer(self._address, buffering)

    def close(self) -> None:
        """Closes the connections; buffers of events have their own."""
        self._connections.close()

    def begin_anew(self) -> None:
        """In a forked child: connections and locks of its own."""
        self._connections.begin_anew()
        self._retries = Retries(self._retries.most, RetryBudget())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _talk(self, talk: Exchange, deadline: Deadline) -> Calibrated:
        try:
            asked = next(talk)
            while True:
                tries = Tries(self._retries, deadline)
                while not tries.is_answer(found := self._once(asked, deadline)):
                    time.sleep(tries.pause_after(found))
                asked = talk.send(found)
        except StopIteration as end:
            answer: Calibrated = end.value
            return answer

    def _once(self, asked: Request, deadline: Deadline) -> AttemptResult:
        try:
            return self._connections.ask(asked, deadline)
        except httpx.TransportError as error:
            return error


def check_options(timeout: float, fallback: str | None) -> None:
    """Raises BadInput on options that mean nothing."""
    if not timeout > 0:
        raise BadInput("timeout", "must be more than 0 seconds", timeout)
    if fallback not in (None, RAW):
        raise BadInput("fallback", f"must be {RAW!r} or None", fallback)
