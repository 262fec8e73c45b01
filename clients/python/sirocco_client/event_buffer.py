"""Buffers that send events in the background: from a thread, or from a task of an event loop.

What is sent when, tried again or given up is one generator of steps, `_Buffer._steps`; the two
buffers run it, each with its own kind of waiting.
"""

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self, cast

import httpx

from sirocco_client.connections import (
    Address,
    AsyncConnections,
    AttemptResult,
    Connections,
    Deadline,
    begins_anew_after_fork,
)
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
from sirocco_client.requests import HttpRequest
from sirocco_client.retries import Backoff

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wait:
    """Until the condition holds, but for at most so many seconds; None for as long as it takes."""

    until: Callable[[], bool]
    seconds: float | None


_Step = _Wait | HttpRequest | Delivered
"""To wait, to send a request, whose result is sent back, or to report what was rejected."""


class _Buffer(EventMethods):
    """What both buffers do alike; every method is for one thread at a time."""

    def __init__(self, address: Address, buffering: Buffering | None = None) -> None:
        """Use `events` of a client."""
        self._address = address
        self._buffering = buffering or Buffering()
        self._closed = False
        self.begin_anew()
        begins_anew_after_fork(self)

    def begin_anew(self) -> None:
        """In a forked child, too: nothing waits, and nothing is shared with the parent."""
        self._queue = EventQueue(self._buffering)
        self._flush_goal = self._flushes = self._changes = 0
        self._in_flight: Batch | None = None

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the buffer of events is closed")

    def _begin_flush(self) -> int:
        """How many events must have been finished for the flush to be over."""
        goal = self._queue.taken
        self._flush_goal = max(self._flush_goal, goal)
        self._flushes += 1
        self._changes += 1
        return goal

    def _flushed_since(self, flushes: int) -> bool:
        return self._flushes > flushes

    def _changed_since(self, changes: int) -> bool:
        return self._changes > changes

    def _give_up(self) -> list[Batch]:
        if self._in_flight is not None:
            # Nobody knows what becomes of it, so it is given back under its key.
            self._queue.put_back([self._in_flight])
            self._in_flight = None
        return self._queue.give_up()

    def _steps(self) -> Generator[_Step, AttemptResult | None, None]:
        """Batch after batch, without end, each tried until the service stores or refuses it."""
        backoff = Backoff(self._buffering.first_pause_seconds, self._buffering.most_pause_seconds)
        while True:
            self._in_flight = batch = yield from self._next_batch()
            request, tries = batch.request(self._buffering.gzip), 1
            result = delivery_result(cast(AttemptResult, (yield request)), batch)
            told = ""
            while isinstance(result, RetryLater):
                if result.reason != told:
                    # A key may have ended while the service was away: that needs somebody.
                    logger.warning("events are waiting: %s", told := result.reason)
                pause = backoff.pause(tries) + result.after_seconds
                # Less long if somebody wants to flush.
                yield _Wait(partial(self._flushed_since, self._flushes), pause)
                self._queue.count("retries")
                tries += 1
                result = delivery_result(cast(AttemptResult, (yield request)), batch)
            yield from self._finish(batch, result)

    def _next_batch(self) -> Generator[_Step, AttemptResult | None, Batch]:
        while True:
            now, changes = time.monotonic(), self._changes
            at_once = self._queue.finished < self._flush_goal
            due = self._queue.due_in(now, at_once)
            if due is not None and due <= 0:
                return self._queue.next_batch(now)
            yield _Wait(partial(self._changed_since, changes), due)

    def _finish(self, batch: Batch, result: Delivered | BatchTooLarge) -> Iterator[_Step]:
        if isinstance(result, Delivered):
            # First, so that callbacks have run when the flush is over.
            yield result
            self._queue.finish(batch, result)
        else:
            self._queue.put_back(batch.halves())
        self._in_flight = None


class EventBuffer(_Buffer):
    """Takes events from any number of threads and sends them in batches, in order.

    An event that was taken (the method returned True) is stored by the service, or handed to
    `on_rejected`, or returned by `close`: never lost in silence. A batch is tried until the service
    stores or refuses it. Its thread begins with the first event, and anew in a forked child, whose
    buffer starts empty: what waits is the parent's to send.
    """

    def begin_anew(self) -> None:
        """See `_Buffer`."""
        super().begin_anew()
        self._connections = Connections(self._address)
        self._changed = threading.Condition()
        self._given_up = False
        self._thread: threading.Thread | None = None

    @property
    def counts(self) -> EventCounts:
        """What became of all events so far."""
        with self._changed:
            return self._queue.counts

    def put(self, line: bytes) -> bool:
        """Take one event, in its JSON; False if it was dropped.

        Raises BufferFull when there is no room and that is not to be dropped, and Closed.
        """
        with self._changed:
            if not self._has_room(line):
                return False
            if self._queue.put(line, time.monotonic()):
                self._wake()
            return True

    def resend(self, batches: Iterable[Batch]) -> None:
        """Send what a buffer gave up before, under the same keys; raises BufferFull or Closed."""
        with self._changed:
            self._check_open()
            self._queue.put_batches(batches)
            self._wake()

    def flush(self, timeout: float) -> bool:
        """Send everything taken so far; whether all of it was finished within so many seconds."""
        with self._changed:
            goal = self._begin_flush()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._queue.finished >= goal, timeout)

    def close(self, timeout: float = 5.0) -> list[Batch]:
        """Flush, stop, and return what could not be sent within so many seconds.

        What is returned is handed to `on_unsent` too; `resend` takes it, and counts it once even
        if the service had stored it after all.
        """
        with self._changed:
            if self._closed:
                return []
            self._closed = True
        try:
            self.flush(timeout)
        finally:
            # Who is interrupted while it waits is told, too.
            unsent = self._stop()
            atexit.unregister(self._close_at_exit)
            report_unsent(unsent, self._buffering)
        return unsent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _has_room(self, line: bytes) -> bool:
        self._check_open()
        if self._queue.fits(line):
            return True
        if self._buffering.when_full == "drop":
            self._queue.count("dropped")
            return False
        if self._buffering.when_full == "block" and self._changed.wait_for(
            lambda: self._closed or self._queue.fits(line), self._buffering.block_seconds
        ):
            self._check_open()
            return True
        raise self._queue.full()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sirocco-events", daemon=True)
            self._thread.start()
            atexit.register(self._close_at_exit)
        self._changes += 1
        self._changed.notify_all()

    def _close_at_exit(self) -> None:
        self.close(self._buffering.exit_seconds)

    def _stop(self) -> list[Batch]:
        with self._changed:
            unsent = self._give_up()
            self._given_up = True
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            self._connections.close()
        elif not unsent and thread is not threading.current_thread():
            # With nothing on its way it ends at once; otherwise it may be waiting for an answer.
            thread.join()
        return unsent

    def _run(self) -> None:
        with self._changed:
            steps = self._steps()
            step = next(steps)
            while not self._given_up:
                found = self._take(step)
                # Once given up, the batch in flight is no longer ours to finish.
                step = step if self._given_up else steps.send(found)
                self._changed.notify_all()
        self._connections.close()

    def _take(self, step: _Step) -> AttemptResult | None:
        if isinstance(step, _Wait):
            until = step.until
            self._changed.wait_for(lambda: self._given_up or until(), step.seconds)
            return None
        with self._unlocked():
            if isinstance(step, HttpRequest):
                return self._attempt(step)
            report_rejected(step.rejections, self._buffering)
            return None

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        self._changed.release()
        try:
            yield
        finally:
            self._changed.acquire()

    def _attempt(self, request: HttpRequest) -> AttemptResult:
        try:
            return self._connections.attempt(request, Deadline(self._buffering.timeout))
        except Exception as error:
            return _survived(error)


class AsyncEventBuffer(_Buffer):
    """The same as EventBuffer for one event loop: to take an event needs no await and never waits.

    `when_full="block"` is refused: `await room()` before many events instead.
    """

    def __init__(self, address: Address, buffering: Buffering | None = None) -> None:
        """Use `AsyncSirocco.events`."""
        if buffering is not None and buffering.when_full == "block":
            raise BadInput("when_full", "must be raise or drop for asyncio; await room()", "block")
        super().__init__(address, buffering)

    def begin_anew(self) -> None:
        """See `_Buffer`."""
        super().begin_anew()
        self._connections = AsyncConnections(self._address)
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def counts(self) -> EventCounts:
        """What became of all events so far."""
        return self._queue.counts

    def put(self, line: bytes) -> bool:
        """Take one event, in its JSON; False if it was dropped. Needs a running event loop.

        Raises BufferFull when there is no room and that is not to be dropped, and Closed.
        """
        self._check_open()
        if not self._queue.fits(line):
            if self._buffering.when_full == "raise":
                raise self._queue.full()
            self._queue.count("dropped")
            return False
        if self._queue.put(line, time.monotonic()):
            self._wake()
        return True

    def resend(self, batches: Iterable[Batch]) -> None:
        """Send what a buffer gave up before, under the same keys; raises BufferFull or Closed."""
        self._check_open()
        self._queue.put_batches(batches)
        self._wake()

    async def room(self, timeout: float | None = None) -> bool:
        """Wait until a quarter of the buffer is free; False if it is not within so many seconds."""
        return await self._wait_for(lambda: self._queue.has_room(0, 0, 0.75), timeout)

    async def flush(self, timeout: float) -> bool:
        """Send everything taken so far; whether all of it was finished within so many seconds."""
        goal = self._begin_flush()
        self._notify()
        return await self._wait_for(lambda: self._queue.finished >= goal, timeout)

    async def close(self, timeout: float = 5.0) -> list[Batch]:
        """Flush, stop, and return what could not be sent; see `EventBuffer.close`."""
        if self._closed:
            return []
        self._closed = True
        try:
            await self.flush(timeout)
        finally:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            unsent = self._give_up()
            await self._connections.close()
            report_unsent(unsent, self._buffering)
        return unsent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ended)
        self._changes += 1
        self._notify()

    def _ended(self, _: object) -> None:
        # The loop ends before anybody has closed the buffer, and nothing can be sent any more.
        if not self._closed:
            report_unsent(self._give_up(), self._buffering)

    def _notify(self) -> None:
        # Each waiter holds the event that it waits for, so a new one is laid out for the next.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait_for(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    await self._changed.wait()
        except TimeoutError:
            return holds()
        return True

    async def _run(self) -> None:
        steps = self._steps()
        step = next(steps)
        while True:
            found = None
            if isinstance(step, _Wait):
                await self._wait_for(step.until, step.seconds)
            elif isinstance(step, HttpRequest):
                found = await self._attempt(step)
            else:
                report_rejected(step.rejections, self._buffering)
            step = steps.send(found)
            self._notify()

    async def _attempt(self, request: HttpRequest) -> AttemptResult:
        try:
            return await self._connections.attempt(request, Deadline(self._buffering.timeout))
        except Exception as error:
            return _survived(error)


def _survived(error: Exception) -> AttemptResult:
    """Thread and task must outlive whatever happens: without them nothing is sent any more."""
    logger.error("a try to send events failed", exc_info=error)
    return httpx.TransportError(repr(error))
