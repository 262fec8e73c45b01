"""The clients of the service: `Sirocco` for threads, `AsyncSirocco` for asyncio."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from ssl import SSLContext
from typing import Literal, Self, SupportsFloat, cast

from numpy.typing import ArrayLike

from sirocco_client.arms import RAW, Units
from sirocco_client.calibrate import Calibrated, CalibrateExchange
from sirocco_client.connections import (
    Address,
    AsyncConnections,
    Connections,
    Deadline,
    begins_anew_after_fork,
)
from sirocco_client.errors import BadInput, Unavailable
from sirocco_client.event_buffer import AsyncEventBuffer, EventBuffer
from sirocco_client.event_queue import Buffering
from sirocco_client.fields import Fields
from sirocco_client.intervals import WantedIntervals
from sirocco_client.requests import CalibrateInput, Campaigns, HttpRequest, Scores, of_version
from sirocco_client.retries import Calls, Retries, RetryBudget, with_retries


class _Client(ABC):
    """Options of both clients, checked; raises BadInput."""

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
        api_key: str | None = None,
    ) -> None:
        if not timeout > 0:
            raise BadInput("timeout", "must be more than 0 seconds", timeout)
        if fallback not in (None, RAW):
            raise BadInput("fallback", f"must be {RAW!r} or None", fallback)
        self._address = Address(url, connections, headers or {}, verify, api_key)
        self._timeout, self._fallback = timeout, fallback
        self._retries = Retries(retries, RetryBudget())
        self._exchange = CalibrateExchange(binary, max_scores)
        self._connect()
        begins_anew_after_fork(self)

    @abstractmethod
    def _connect(self) -> None: ...

    def begin_anew(self) -> None:
        """In a forked child: connections and locks of its own."""
        self._connect()
        self._retries = Retries(self._retries.most, RetryBudget())

    def _calls(self, given: CalibrateInput, explain: bool, deadline: Deadline) -> Calls:
        return with_retries(self._exchange.of(given, explain), self._retries, deadline)

    def _fallen_back(self, given: CalibrateInput, error: Unavailable) -> Calibrated:
        if self._fallback == RAW:
            return Calibrated.raw(given.scores, given.values)
        raise error


class Sirocco(_Client):
    """A sirocco service at a URL; any number of threads may share it, and so may forked children.

    `timeout` seconds is the deadline of a whole `calibrate`, retries included; a bidder may want
    0.05. A request that could not be answered is made again up to `retries` times, within the
    deadline, and over all requests for at most one in ten of them. `fallback="raw"` gives the
    scores themselves when the service is away, instead of raising Unavailable. `binary` chooses
    binary columns (True), JSON (False), or what is cheaper for the size (None). `max_scores` is
    the service's own limit; more scores are sent in parts. `api_key` goes with every request, those
    of its buffers of events too, and is shown in no error.

    >>> with Sirocco("http://127.0.0.1:9", fallback="raw", retries=0) as sirocco:
    ...     answer = sirocco.calibrate("click", ["shoes", "hats"], [0.01, 0.2])
    >>> answer.probabilities.tolist(), answer.levels
    ([0.01, 0.2], ('raw', 'raw'))
    """

    def calibrate(
        self,
        target: str,
        campaigns: Campaigns,
        scores: Scores,
        *,
        units: Units | None = None,
        fields: Fields | None = None,
        explain: bool = False,
        interval: SupportsFloat | None = None,
        quantile: SupportsFloat | None = None,
        values: ArrayLike | None = None,
        model_version: str | None = None,
    ) -> Calibrated:
        """Probabilities of the scores, in their order.

        `campaigns` has one name per score, or is one name for all. With `units` (the user or the
        request of each score, or one for all) experiments apply, and `arms` tells the arm of each.
        `fields` says of each score, or of all, its value of the declared fields, such as
        `{"device": ["ios", "tv"], "placement": "top"}`. `explain` asks for the level of map behind
        each, and for the effects of fields. `interval=0.9` asks for `lower` and `upper`, between
        which nine of ten true probabilities lie, `quantile=0.2` for `quantiles`. For a product of
        targets `scores` has those of each factor, such as `{"click": [.02], "conversion": [.1]}`,
        and with `values` `expected_values` are in the answer. `model_version` names the version of
        the model that made the scores, whose own maps then serve. Raises BadInput, Refused,
        Closed, or Unavailable when there is no fallback.
        """
        wanted = WantedIntervals.of(interval, quantile)
        names = of_version(campaigns, model_version)
        given = CalibrateInput.of(target, names, scores, units, fields, wanted, values)
        deadline = Deadline(self._timeout)
        calls = self._calls(given, explain, deadline)
        try:
            call = next(calls)
            while True:
                if isinstance(call, HttpRequest):
                    call = calls.send(self._connections.attempt(call, deadline))
                else:
                    time.sleep(call)
                    call = next(calls)
        except StopIteration as end:
            return cast(Calibrated, end.value)
        except Unavailable as error:
            return self._fallen_back(given, error)

    def events(self, buffering: Buffering | None = None) -> EventBuffer:
        """A buffer that sends events in the background, on connections of its own."""
        return EventBuffer(self._address, buffering)

    def close(self) -> None:
        """Closes the connections; buffers of events have their own."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> None:
        self._connections = Connections(self._address)


class AsyncSirocco(_Client):
    """The same as Sirocco for one event loop; a cancelled call is over at once."""

    async def calibrate(
        self,
        target: str,
        campaigns: Campaigns,
        scores: Scores,
        *,
        units: Units | None = None,
        fields: Fields | None = None,
        explain: bool = False,
        interval: SupportsFloat | None = None,
        quantile: SupportsFloat | None = None,
        values: ArrayLike | None = None,
        model_version: str | None = None,
    ) -> Calibrated:
        """Probabilities of the scores, in their order; see `Sirocco.calibrate`."""
        wanted = WantedIntervals.of(interval, quantile)
        names = of_version(campaigns, model_version)
        given = CalibrateInput.of(target, names, scores, units, fields, wanted, values)
        deadline = Deadline(self._timeout)
        calls = self._calls(given, explain, deadline)
        try:
            call = next(calls)
            while True:
                if isinstance(call, HttpRequest):
                    call = calls.send(await self._connections.attempt(call, deadline))
                else:
                    await asyncio.sleep(call)
                    call = next(calls)
        except StopIteration as end:
            return cast(Calibrated, end.value)
        except Unavailable as error:
            return self._fallen_back(given, error)

    def events(self, buffering: Buffering | None = None) -> AsyncEventBuffer:
        """A buffer that sends events in the background, on connections of its own."""
        return AsyncEventBuffer(self._address, buffering)

    async def close(self) -> None:
        """Closes the connections; buffers of events have their own."""
        await self._connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _connect(self) -> None:
        self._connections = AsyncConnections(self._address)
