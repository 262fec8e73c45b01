"""Uvicorn's HTTP protocol with bounds: on open connections, heads, pipelines and patience.

Uvicorn waits for ever for the rest of a request, and for a caller to read its answer. This subclass
sets no timer of its own and adds next to no work to a request: `Sweep` looks from time to time at
what uvicorn leaves behind. Of `HttpToolsProtocol` it relies on

* `parser`, `transport`, `flow`, `connections`, `url` and `headers`, by name;
* `scope`: a new object for every message, made when its first byte comes; None before the first;
* `cycle`: that of the newest whole head, with `scope`, `more_body`, `response_started` and
  `response_complete`; `pipeline`: those that wait for the answers before theirs;
* `shutdown()`, which makes the newest request the last, or closes if there is none to answer;
* `on_response_complete()`, which starts the next of the pipeline, resumes reading and sets a timer.

`PromptProtocol` relies on some more. A test holds the source of all this to a digest: read it again
when that changes.
"""

from asyncio import Transport
from collections.abc import Collection
from typing import ClassVar, Final, cast

from httptools import HttpParserError, HttpParserUpgrade

from app.api.closing_reasons import Reason
from app.api.connection_answers import ANSWERS
from app.api.connection_counts import ConnectionCounts
from app.api.metrics import Metrics
from app.api.open_files import connections_that_fit
from app.api.prompt_protocol import PromptProtocol
from app.api.sweep import Phase, Sweep
from app.api.unread_bytes import unread_bytes
from app.settings import Settings

MOST_HEAD_BYTES: Final = 64 * 1024
MOST_HEADERS: Final = 100
MOST_PIPELINED: Final = 64
_REASONS: Final = {
    Phase.IDLE: Reason.IDLE,
    Phase.REQUEST: Reason.SLOW_REQUEST,
    Phase.READER: Reason.SLOW_READER,
}


class _Refused(Exception):
    """A head breaks a bound; the parser is to stop at once."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class BoundedProtocol(PromptProtocol):
    """One connection; `protocol_of` makes the class of a server."""

    sweep: ClassVar[Sweep]
    counts: ClassVar[ConnectionCounts]
    most_connections: ClassVar[int]

    # The sweep's notes: not yet seen waiting for anything.
    phase = Phase.ANSWER
    witness: object = None
    age = 0

    # Bytes since the last whole head or piece of a body: of a head, or of trailers.
    _unread = 0
    _counted = False
    _ended = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Look after the connection, or refuse it if there are too many."""
        if len(self.connections) >= self.most_connections:
            self.transport = transport
            self._end(Reason.TOO_MANY)
            return
        super().connection_made(transport)
        self._counted = True
        self.counts.opened()
        self.sweep.start(self.loop, cast("Collection[BoundedProtocol]", self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, by whoever's will."""
        super().connection_lost(exc)
        if self._counted:
            self.counts.lost()

    def data_received(self, data: bytes) -> None:
        """Parse what came; no byte is kept that is part of neither a bounded head nor a body."""
        self._unread += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            cause = error.__context__
            self._end(cause.reason if isinstance(cause, _Refused) else Reason.MALFORMED)
        except HttpParserUpgrade as upgrade:
            # The request was answered as if it had not asked; the parser forgets what came after.
            if upgrade.args[0] < len(data):
                self.shutdown()
        else:
            if self._unread > MOST_HEAD_BYTES:
                self._end(Reason.LARGE_HEAD)
        self.answer_held()

    def on_headers_complete(self) -> None:
        """Take the head, if it is within bounds."""
        if self._unread > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            self._check_head()
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _Refused(Reason.PIPELINED)
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, whose size is the application's to bound."""
        self._unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Go on with what waited for this.

        Uvicorn also sets a timer, which is the sweep's work, and counts for a limit not used here.
        """
        if self.pipeline or self.flow.read_paused:
            super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Leave idle connections to the sweep."""

    def standing(self) -> tuple[Phase, object]:
        """What the connection waits for, and what tells progress in it."""
        if self.flow.write_paused or self.transport.is_closing():
            left = unread_bytes(self.transport)
            return Phase.READER, self.witness if left == self.witness else left
        # While we do not read, it is not the caller who is slow.
        if self._owes_answer or self.flow.read_paused:
            return Phase.ANSWER, None
        return (Phase.REQUEST if self._is_receiving else Phase.IDLE), self.scope

    def expire(self, phase: Phase) -> None:
        """End the connection, which was too long in this phase."""
        self._end(_REASONS[phase])

    @property
    def _is_receiving(self) -> bool:
        """Whether a message has begun and is not whole.

        Also true after an answer that came before the whole body: uvicorn does not tell whether
        that has come since.
        """
        cycle = self.cycle
        is_whole = cycle is not None and cycle.scope is self.scope and not cycle.more_body
        return bool(self.scope) and not is_whole

    @property
    def _owes_answer(self) -> bool:
        """Whether a whole request is still to be answered."""
        cycle = self.cycle
        if self.pipeline:
            return True
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _check_head(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            raise _Refused(Reason.LARGE_HEAD)

    def _end(self, reason: Reason) -> None:
        """Say why if it is this message's turn to be answered, then close."""
        if not self._ended:
            self._ended = True
            self.counts.ended(reason)
        if reason is Reason.SLOW_READER:
            self.transport.abort()
        elif self._owes_answer:
            self.shutdown()
            self.flow.pause_reading()
        else:
            self._answer(reason)
            self.transport.close()

    def _answer(self, reason: Reason) -> None:
        cycle = self.cycle
        is_begun = cycle is not None and cycle.scope is self.scope and cycle.response_started
        if reason in ANSWERS and not is_begun:
            self.transport.write(ANSWERS[reason])


def protocol_of(settings: Settings, metrics: Metrics) -> type[BoundedProtocol]:
    """The class of the connections of one server: uvicorn makes an object of it for each.

    Raises the process's limit of open files as far as it goes.
    """
    bounds = {
        "sweep": Sweep(settings.receive_seconds, settings.keep_alive_seconds),
        "counts": ConnectionCounts(metrics),
        "most_connections": connections_that_fit(settings.max_connections),
    }
    return type("Connection", (BoundedProtocol,), bounds)
