"""Sends events in the background, from a task of the event loop."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from itertools import count
from types import TracebackType
from typing import Self

import httpx

from sirocco_client.connections import Address, AsyncConnections, Deadline, begins_anew_after_fork
from sirocco_client.errors import BadInput, Closed
from sirocco_client.event_queue import (
    BatchTooLarge,
    Buffering,
    Delivered,
    EventCounts,
    EventQueue,
    RetryLater,
    delivery_result,
    report_rejected,
    report_unsent,
)
from sirocco_client.events import Batch, EventMethods
from sirocco_client.requests import Request
from sirocco_client.retries import AttemptResult, Backoff

logger = logging.getLogger(__name__)


class AsyncEventBuffer(EventMethods):
    """The same as EventBuffer for one event loop: to take an event needs no await and never waits.

    `when_full="block"` is refused: `await room()` before many events instead.
    """

    def __init__(self, address: Address, buffering: Buffering | None = None) -> None:
        """Use `AsyncSirocco.events`."""
        self._buffering = buffering or Buffering()
        if self._buffering.when_full == "block":
            raise BadInput("when_full", "must be raise or drop for asyncio; await room()", "block")
        self._backoff = Backoff(
            self._buffering.first_pause_seconds, self._buffering.most_pause_seconds
        )
        self._connections = AsyncConnections(address)
        self._closed = False
        self._begin()
        begins_anew_after_fork(self)

    def _begin(self) -> None:
        self._outbox = EventQueue(self._buffering)
        self._flushed_up_to = self._flushes = 0
        self._on_its_way: Batch | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def counts(self) -> EventCounts:
        """What became of all events so far."""
        return self._outbox.counts

    def put(self, line: bytes) -> bool:
        """Take one event, in its JSON; False if it was dropped. Needs a running event loop.

        Raises BufferFull when there is no room and that is not to be dropped, and Closed.
        """
        self._check_open()
        if not self._outbox.fits(line):
            if self._buffering.when_full == "raise":
                raise self._outbox.full()
            self._outbox.dropped += 1
            return False
        if self._outbox.put(line, time.monotonic()):
            self._wake()
        return True

    def resend(self, batches: Iterable[Batch]) -> None:
        """Send what a buffer gave up before, under the same keys; raises BufferFull or Closed."""
        self._check_open()
        self._outbox.put_batches(batches)
        self._wake()

    async def room(self, timeout: float | None = None) -> bool:
        """Wait until a quarter of the buffer is free; False if it is not within so many seconds."""
        enough = 0.75
        limits = self._buffering

        def is_free() -> bool:
            counts = self._outbox.counts
            return (
                counts.waiting <= enough * limits.most_events
                and counts.waiting_bytes <= enough * limits.most_bytes
            )

        return await self._wait_for(is_free, timeout)

    async def flush(self, timeout: float) -> bool:
        """Send everything taken so far; whether all of it was settled within so many seconds."""
        goal = self._outbox.taken
        self._flushed_up_to = max(self._flushed_up_to, goal)
        self._flushes += 1
        self._tell()
        return await self._wait_for(lambda: self._outbox.settled >= goal, timeout)

    async def close(self, timeout: float = 5.0) -> list[Batch]:
        """Flush, stop, and return what could not be sent within so many seconds.

        What is returned is handed to `on_unsent` too; `resend` takes it, and counts it once even
        if the service had stored it after all.
        """
        if self._closed:
            return []
        self._closed = True
        await self.flush(timeout)
        unsent = await self._stop()
        report_unsent(unsent, self._buffering)
        return unsent

    def begin_anew(self) -> None:
        """In a forked child: nothing waits, and nothing is shared with the parent."""
        self._connections.begin_anew()
        self._begin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the buffer of events is closed")

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._tell()

    def _tell(self) -> None:
        # Each waiter holds the event that it waits for, so a new one is laid out for the next.
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    async def _wait_for(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    await self._changed.wait()
        except TimeoutError:
            return holds()
        return True

    async def _stop(self) -> list[Batch]:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._on_its_way is not None:
            # Nobody knows what became of it, so it is given back under its key.
            self._outbox.put_back([self._on_its_way])
            self._on_its_way = None
        await self._connections.close()
        return self._outbox.give_up()

    async def _run(self) -> None:
        while True:
            await self._deliver(await self._next_batch())

    async def _next_batch(self) -> Batch:
        while True:
            now = time.monotonic()
            at_once = self._outbox.settled < self._flushed_up_to
            due = self._outbox.due_in(now, at_once)
            if due is not None and due <= 0:
                self._on_its_way = self._outbox.next_batch(now)
                return self._on_its_way
            changed = self._changed
            await self._wait_for(changed.is_set, due)

    async def _deliver(self, batch: Batch) -> None:
        asked = batch.asked(self._buffering.gzip)
        for tries in count(1):
            verdict = delivery_result(await self._once(asked), batch)
            if not isinstance(verdict, RetryLater):
                self._finish(batch, verdict)
                return
            await self._pause(tries, verdict)

    async def _once(self, asked: Request) -> AttemptResult:
        try:
            return await self._connections.ask(asked, Deadline(self._buffering.timeout))
        except httpx.TransportError as error:
            return error
        except Exception as error:
            # The task must outlive whatever happens: without it nothing is sent any more.
            logger.exception("a try to send events failed")
            return httpx.TransportError(repr(error))

    def _finish(self, batch: Batch, verdict: Delivered | BatchTooLarge) -> None:
        self._on_its_way = None
        if isinstance(verdict, Delivered):
            self._outbox.settle(batch, verdict)
            report_rejected(verdict.rejections, self._buffering)
        else:
            self._outbox.put_back(batch.halves())
        self._tell()

    async def _pause(self, tries: int, verdict: RetryLater) -> None:
        if tries == 1:
            logger.warning("events are waiting: %s", verdict.reason)
        flushes = self._flushes
        seconds = self._backoff.pause(tries) + verdict.after_seconds
        await self._wait_for(lambda: self._flushes > flushes, seconds)
        self._outbox.retries += 1
