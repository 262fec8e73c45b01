"""Events that wait to be sent: how they are buffered and counted, the queue of them, and what the
service's response to a batch means for each of its events.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx

from sirocco_client.calibrate import refusal, summary_of
from sirocco_client.connections import AttemptResult
from sirocco_client.errors import BadInput, BufferFull
from sirocco_client.events import Batch, Event
from sirocco_client.requests import HttpResponse
from sirocco_client.retries import unavailable

logger = logging.getLogger(__name__)

_TOO_LARGE: Final = 413
# 401: a key that was made just now may not be known everywhere yet.
_TRY_AGAIN: Final = frozenset({401, 408, 429})
_UNREADABLE: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Rejection:
    """An event that the service refused for good, and why."""

    event: Event
    error: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """Nothing is left to do: every event is stored, known already, or refused for good."""

    accepted: int
    duplicates: int
    rejections: tuple[Rejection, ...]
    unnamed: int = 0
    """Rejected besides: the service names the first hundred of a request only."""


@dataclass(frozen=True, slots=True)
class BatchTooLarge:
    """The service takes smaller batches only; nothing was stored."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """It is not known to be stored; `after_seconds` is what the service asks to wait."""

    reason: str
    after_seconds: float = 0.0


DeliveryResult = Delivered | BatchTooLarge | RetryLater


def delivery_result(found: AttemptResult, batch: Batch) -> DeliveryResult:
    """What a try came to."""
    if isinstance(found, httpx.TransportError):
        return RetryLater(str(unavailable(found, 1)))
    if found.status >= 500 or found.status in _TRY_AGAIN:
        return RetryLater(summary_of(found), found.retry_after or 0.0)
    if found.status == _TOO_LARGE and len(batch) > 1:
        return BatchTooLarge()
    if found.status == 200:
        return _stored(found, batch)
    return _refused(found, batch)


def _stored(response: HttpResponse, batch: Batch) -> DeliveryResult:
    try:
        content = json.loads(response.body)
        rejections, unnamed = _rejections(content, batch)
        return Delivered(int(content["accepted"]), int(content["duplicates"]), rejections, unnamed)
    except _UNREADABLE:
        # Not the service: to send again under the same key is safe.
        return RetryLater("the answer cannot be read")


def _refused(response: HttpResponse, batch: Batch) -> DeliveryResult:
    error = refusal(response)
    try:
        rejections, unnamed = _rejections(error.members, batch)
    except _UNREADABLE:
        rejections = tuple(Rejection(event, str(error)) for event in batch.events)
        unnamed = 0
    return Delivered(0, 0, rejections, unnamed)


def _rejections(content: Mapping[str, Any], batch: Batch) -> tuple[tuple[Rejection, ...], int]:
    """Those that are named, and how many are not."""
    named = tuple(
        Rejection(json.loads(batch.lines[one["index"]]), str(one["error"]))
        for one in content["rejected"]
    )
    unnamed = int(content.get("rejected_total", len(named))) - len(named)
    if unnamed > 0:
        logger.warning("%d more events of a batch were rejected than are named", unnamed)
    return named, max(0, unnamed)


# Half of what the service takes by default, with room for the line ends.
_MOST_BATCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Buffering:
    """How events are gathered, sent and given up.

    A batch leaves when `batch_events` are there, or `linger_seconds` after its first. At most
    `most_events` of `most_bytes` wait, those on their way included. An event beyond that raises
    BufferFull (`raise`), waits up to `block_seconds` for room and then raises (`block`; threads
    only), or is left out and counted (`drop`). `timeout` is the deadline of one try. `gzip` packs
    the batches. `on_rejected` is given what the service refused for good, with its reasons;
    `on_unsent` what `close` could not send. A buffer that is still open at the end of the process
    is flushed for `exit_seconds`.
    """

    batch_events: int = 1000
    linger_seconds: float = 1.0
    most_events: int = 100_000
    most_bytes: int = 64 * 1024 * 1024
    when_full: Literal["raise", "block", "drop"] = "raise"
    block_seconds: float = 1.0
    timeout: float = 10.0
    gzip: bool = False
    first_pause_seconds: float = 0.1
    most_pause_seconds: float = 30.0
    exit_seconds: float = 5.0
    on_rejected: Callable[[list[Rejection]], None] | None = None
    on_unsent: Callable[[list[Batch]], None] | None = None

    def __post_init__(self) -> None:
        for field in ("batch_events", "most_events", "most_bytes", "timeout"):
            if not getattr(self, field) > 0:
                raise BadInput(field, "must be more than 0", getattr(self, field))
        if self.when_full not in ("raise", "block", "drop"):
            raise BadInput("when_full", "must be raise, block or drop", self.when_full)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What became of all events so far: those taken are accepted, duplicates, rejected, unsent, or
    still waiting. `dropped` were not taken; `retries` are requests, not events."""

    taken: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    unsent: int = 0
    dropped: int = 0
    retries: int = 0
    waiting: int = 0
    waiting_bytes: int = 0


class EventQueue:
    """Lines in, batches out, one on its way at a time; knows no thread, no clock and no network."""

    def __init__(self, buffering: Buffering) -> None:
        self._buffering = buffering
        self._lines: deque[bytes] = deque()
        self._formed: deque[Batch] = deque()
        self._first_at = 0.0
        self._numbers = dict.fromkeys(EventCounts.__slots__, 0)

    @property
    def counts(self) -> EventCounts:
        """What became of all events so far."""
        return EventCounts(**self._numbers)

    def count(self, what: str) -> None:
        """One more is `dropped`, or of the `retries`."""
        self._numbers[what] += 1

    @property
    def taken(self) -> int:
        """How many events were taken so far."""
        return self._numbers["taken"]

    @property
    def finished(self) -> int:
        """How many of them wait no more; in the order in which they were taken."""
        return self._numbers["taken"] - self._numbers["waiting"]

    def has_room(self, events: int, size: int, share: float = 1.0) -> bool:
        """Whether there is room for so many more events and bytes, in this share of all room."""
        limits, numbers = self._buffering, self._numbers
        return (
            numbers["waiting"] + events <= share * limits.most_events
            and numbers["waiting_bytes"] + size <= share * limits.most_bytes
        )

    def fits(self, line: bytes) -> bool:
        """Whether there is room for one more event."""
        if len(line) > self._buffering.most_bytes:
            rule = f"must have at most {self._buffering.most_bytes} bytes"
            raise BadInput("event", rule, len(line))
        return self.has_room(1, len(line))

    def put(self, line: bytes, now: float) -> bool:
        """Take an event that fits; whether there is now something else to wait for."""
        if not self._lines:
            self._first_at = now
        self._lines.append(line)
        self._count_in(1, len(line))
        return len(self._lines) in (1, self._buffering.batch_events)

    def put_batches(self, batches: Iterable[Batch]) -> None:
        """Take back batches that a queue gave up before, under their keys; raises BufferFull."""
        given = list(batches)
        events, size = sum(map(len, given)), sum(batch.size for batch in given)
        if not self.has_room(events, size):
            raise self.full()
        # What was taken before leaves before.
        self._form_all()
        self._formed.extend(given)
        self._count_in(events, size)

    def full(self) -> BufferFull:
        """The error that says so."""
        return BufferFull(self._numbers["waiting"], self._numbers["waiting_bytes"])

    def due_in(self, now: float, at_once: bool) -> float | None:
        """Seconds until the next batch should leave, 0 or less for now; None if nothing waits."""
        if self._formed:
            return 0.0
        if not self._lines:
            return None
        if at_once or len(self._lines) >= self._buffering.batch_events:
            return 0.0
        return self._first_at + self._buffering.linger_seconds - now

    def next_batch(self, now: float) -> Batch:
        """The oldest events that wait, at least one; they wait until they are finished."""
        self._first_at = now
        return self._formed.popleft() if self._formed else self._form()

    def finish(self, batch: Batch, result: Delivered) -> None:
        """The events of the batch wait no more."""
        self._numbers["accepted"] += result.accepted
        self._numbers["duplicates"] += result.duplicates
        self._numbers["rejected"] += len(result.rejections) + result.unnamed
        self._count_out(batch)

    def put_back(self, batches: Iterable[Batch]) -> None:
        """Batches that must leave before all others; they never stopped waiting."""
        self._formed.extendleft(reversed(list(batches)))

    def give_up(self) -> list[Batch]:
        """Everything that waits, oldest first, each under the key it must keep."""
        self._form_all()
        unsent = list(self._formed)
        self._formed.clear()
        for batch in unsent:
            self._numbers["unsent"] += len(batch)
            self._count_out(batch)
        return unsent

    def _form_all(self) -> None:
        while self._lines:
            self._formed.append(self._form())

    def _form(self) -> Batch:
        lines: list[bytes] = []
        size = 0
        while self._lines and len(lines) < self._buffering.batch_events:
            size += len(self._lines[0])
            if lines and size > _MOST_BATCH_BYTES:
                break
            lines.append(self._lines.popleft())
        return Batch(lines)

    def _count_in(self, events: int, size: int) -> None:
        self._numbers["taken"] += events
        self._numbers["waiting"] += events
        self._numbers["waiting_bytes"] += size

    def _count_out(self, batch: Batch) -> None:
        self._numbers["waiting"] -= len(batch)
        self._numbers["waiting_bytes"] -= batch.size


def report_rejected(rejections: tuple[Rejection, ...], buffering: Buffering) -> None:
    """Gives the rejections to `on_rejected`; without it, logs how many there were."""
    if rejections and buffering.on_rejected is None:
        logger.warning("%d events rejected; the first: %s", len(rejections), rejections[0].error)
    elif rejections:
        _call("on_rejected", buffering.on_rejected, list(rejections), "events")


def report_unsent(unsent: list[Batch], buffering: Buffering) -> None:
    """Gives the batches to `on_unsent`; without it, logs how many events there were."""
    if unsent and buffering.on_unsent is None:
        logger.error("%d events could not be sent", sum(map(len, unsent)))
    elif unsent:
        _call("on_unsent", buffering.on_unsent, unsent, "batches")


def _call(name: str, callback: Any, given: list[Any], what: str) -> None:
    """The caller's errors must not end the sending."""
    try:
        callback(given)
    except Exception:
        logger.exception("%s failed with %d %s", name, len(given), what)
