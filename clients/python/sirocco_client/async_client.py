"""The client for asyncio."""

import asyncio
from collections.abc import Mapping
from ssl import SSLContext
from types import TracebackType
from typing import Literal, Self

import httpx
from numpy.typing import ArrayLike

from sirocco_client.async_event_buffer import AsyncEventBuffer
from sirocco_client.calibrate import RAW, Calibrated, CalibrateExchange, Exchange
from sirocco_client.client import check_options
from sirocco_client.connections import Address, AsyncConnections, Deadline, begins_anew_after_fork
from sirocco_client.errors import Unavailable
from sirocco_client.event_queue import Buffering
from sirocco_client.requests import CalibrateInput, Campaigns, Request
from sirocco_client.retries import AttemptResult, Retries, RetryBudget, Tries


class AsyncSirocco:
    """The same as Sirocco for one event loop; a cancelled call is over at once."""

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
        self._connections = AsyncConnections(self._address)
        self._timeout, self._fallback = timeout, fallback
        self._retries = Retries(retries, RetryBudget())
        self._dialogue = CalibrateExchange(binary, max_scores)
        begins_anew_after_fork(self)

    async def calibrate(
        self, target: str, campaigns: Campaigns, scores: ArrayLike, *, explain: bool = False
    ) -> Calibrated:
        """Probabilities of the scores, in their order; see `Sirocco.calibrate`."""
        question = CalibrateInput.of(target, campaigns, scores)
        try:
            talk = self._dialogue.about(question, explain)
            return await self._talk(talk, Deadline(self._timeout))
        except Unavailable:
            if self._fallback == RAW:
                return Calibrated.raw(question.scores)
            raise

    def events(self, buffering: Buffering | None = None) -> AsyncEventBuffer:
        """A buffer that sends events in the background, on connections of its own."""
        return AsyncEventBuffer(self._address, buffering)

    async def close(self) -> None:
        """Closes the connections; buffers of events have their own."""
        await self._connections.close()

    def begin_anew(self) -> None:
        """In a forked child: connections and locks of its own."""
        self._connections.begin_anew()
        self._retries = Retries(self._retries.most, RetryBudget())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _talk(self, talk: Exchange, deadline: Deadline) -> Calibrated:
        try:
            asked = next(talk)
            while True:
                tries = Tries(self._retries, deadline)
                while not tries.is_answer(found := await self._once(asked, deadline)):
                    await asyncio.sleep(tries.pause_after(found))
                asked = talk.send(found)
        except StopIteration as end:
            answer: Calibrated = end.value
            return answer

    async def _once(self, asked: Request, deadline: Deadline) -> AttemptResult:
        try:
            return await self._connections.ask(asked, deadline)
        except httpx.TransportError as error:
            return error
