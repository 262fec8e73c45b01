"""Sends events in the background, from a thread of its own."""

import atexit
import logging
import threading
import time
from collections.abc import Iterable
from itertools import count
from types import TracebackType
from typing import Self

import httpx

from sirocco_client.connections import Address, Connections, Deadline, begins_anew_after_fork
from sirocco_client.errors import Closed
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


class EventBuffer(EventMethods):
    """Takes events from any number of threads and sends them in batches, in order.

    An event that was taken (the method returned True) is stored by the service, or handed to
    `on_rejected`, or returned by `close`: never lost in silence. A batch is tried until the service
    stores or refuses it. Its thread begins with the first event, and anew in a forked child, whose
    buffer starts empty: what waits is the parent's to send.
    """

    def __init__(self, address: Address, buffering: Buffering | None = None) -> None:
        """Use `Sirocco.events`."""
        self._buffering = buffering or Buffering()
        self._backoff = Backoff(
            self._buffering.first_pause_seconds, self._buffering.most_pause_seconds
        )
        self._connections = Connections(address)
        self._closed = False
        self._begin()
        begins_anew_after_fork(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._given_up = False
        self._outbox = EventQueue(self._buffering)
        self._flushed_up_to = self._flushes = 0
        self._on_its_way: Batch | None = None
        self._thread: threading.Thread | None = None

    @property
    def counts(self) -> EventCounts:
        """What became of all events so far."""
        with self._changed:
            return self._outbox.counts

    def put(self, line: bytes) -> bool:
        """Take one event, in its JSON; False if it was dropped.

        Raises BufferFull when there is no room and that is not to be dropped, and Closed.
        """
        with self._changed:
            if not self._has_room(line):
                return False
            if self._outbox.put(line, time.monotonic()):
                self._wake()
            return True

    def resend(self, batches: Iterable[Batch]) -> None:
        """Send what a buffer gave up before, under the same keys; raises BufferFull or Closed."""
        with self._changed:
            self._check_open()
            self._outbox.put_batches(batches)
            self._wake()

    def flush(self, timeout: float) -> bool:
        """Send everything taken so far; whether all of it was settled within so many seconds."""
        with self._changed:
            goal = self._outbox.taken
            self._flushed_up_to = max(self._flushed_up_to, goal)
            self._flushes += 1
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._outbox.settled >= goal, timeout)

    def close(self, timeout: float = 5.0) -> list[Batch]:
        """Flush, stop, and return what could not be sent within so many seconds.

        What is returned is handed to `on_unsent` too; `resend` takes it, and counts it once even
        if the service had stored it after all.
        """
        with self._changed:
            if self._closed:
                return []
            self._closed = True
        self.flush(timeout)
        unsent = self._stop()
        atexit.unregister(self._close_at_exit)
        report_unsent(unsent, self._buffering)
        return unsent

    def begin_anew(self) -> None:
        """In a forked child: nothing waits, and nothing is shared with the parent."""
        self._connections.begin_anew()
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _has_room(self, line: bytes) -> bool:
        self._check_open()
        if self._outbox.fits(line):
            return True
        if self._buffering.when_full == "drop":
            self._outbox.dropped += 1
            return False
        if self._buffering.when_full == "block" and self._changed.wait_for(
            lambda: self._closed or self._outbox.fits(line), self._buffering.block_seconds
        ):
            self._check_open()
            return True
        raise self._outbox.full()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the buffer of events is closed")

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sirocco-events", daemon=True)
            self._thread.start()
            atexit.register(self._close_at_exit)
        self._changed.notify_all()

    def _close_at_exit(self) -> None:
        self.close(self._buffering.exit_seconds)

    def _stop(self) -> list[Batch]:
        with self._changed:
            if self._on_its_way is not None:
                # Nobody knows what will become of it, so it is given back under its key.
                self._outbox.put_back([self._on_its_way])
                self._on_its_way = None
            unsent = self._outbox.give_up()
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
        while (batch := self._next_batch()) is not None:
            self._deliver(batch)
        self._connections.close()

    def _next_batch(self) -> Batch | None:
        with self._changed:
            while not self._given_up:
                now = time.monotonic()
                at_once = self._outbox.settled < self._flushed_up_to
                due = self._outbox.due_in(now, at_once)
                if due is not None and due <= 0:
                    self._on_its_way = self._outbox.next_batch(now)
                    return self._on_its_way
                self._changed.wait(due)
        return None

    def _deliver(self, batch: Batch) -> None:
        asked = batch.asked(self._buffering.gzip)
        for tries in count(1):
            verdict = delivery_result(self._once(asked), batch)
            if not isinstance(verdict, RetryLater):
                self._finish(batch, verdict)
                return
            if not self._pause(tries, verdict):
                return

    def _once(self, asked: Request) -> AttemptResult:
        try:
            return self._connections.ask(asked, Deadline(self._buffering.timeout))
        except httpx.TransportError as error:
            return error
        except Exception as error:
            # The thread must outlive whatever happens: without it nothing is sent any more.
            logger.exception("a try to send events failed")
            return httpx.TransportError(repr(error))

    def _finish(self, batch: Batch, verdict: Delivered | BatchTooLarge) -> None:
        if isinstance(verdict, Delivered):
            # First, so that whoever flushes has been told when the flush is over.
            report_rejected(verdict.rejections, self._buffering)
        with self._changed:
            if self._on_its_way is not batch:
                return
            self._on_its_way = None
            if isinstance(verdict, Delivered):
                self._outbox.settle(batch, verdict)
            else:
                self._outbox.put_back(batch.halves())
            self._changed.notify_all()

    def _pause(self, tries: int, verdict: RetryLater) -> bool:
        """Waits before the next try, less long if somebody wants to flush; False to give up."""
        if tries == 1:
            logger.warning("events are waiting: %s", verdict.reason)
        with self._changed:
            flushes = self._flushes
            self._changed.wait_for(
                lambda: self._given_up or self._flushes > flushes,
                self._backoff.pause(tries) + verdict.after_seconds,
            )
            self._outbox.retries += not self._given_up
            return not self._given_up
