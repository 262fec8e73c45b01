"""Uvicorn's HTTP protocol, without a task for requests that can be answered as they stand.

An ASGI task with its events, messages and checks costs two thirds of what the work on a score does.
An application that has `prompt_paths` and `prompt_answer` gets a request for one of these paths as
soon as it is whole, and its answer is written in one piece, before the protocol returns to the
event loop. Whatever it leaves unanswered, and every other request, is run as uvicorn runs it.
Besides what `BoundedProtocol` names, this relies of uvicorn on

* `_start_asgi_task(cycle, app)`: called once per request, when its head is whole and all answers
  before its own are sent;
* `cycle`: `body`, `default_headers`, `keep_alive` and `waiting_for_100_continue`; with
  `response_complete` set, nothing more of the request is kept;
* `STATUS_LINE`, and the order of what `send` writes.
"""

from collections.abc import Collection
from typing import Any, Final, Protocol, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from app.api.answer import Answer

_NO_PATHS: Final[frozenset[str]] = frozenset()
_CLOSE: Final = (b"connection", b"close")


class Prompt(Protocol):
    """What such an application has besides its ASGI call."""

    prompt_paths: Collection[str]

    def prompt_answer(self, scope: Any, body: bytes) -> Answer | None:
        """The answer to a whole request, without a wait; None to be called as ASGI has it."""


class PromptProtocol(HttpToolsProtocol):
    """One connection."""

    # The request whose head is whole and whose body is still to come.
    _held: RequestResponseCycle | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._prompt_paths: Collection[str] = getattr(self.app, "prompt_paths", _NO_PATHS)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: who waits for a body is told so."""
        super().connection_lost(exc)
        if self._held is not None:
            self._run_held()

    def answer_held(self) -> None:
        """To be called when all that came is parsed: answers the request that is held, if whole."""
        cycle = self._held
        if cycle is None or self.transport.is_closing():
            return
        if cycle.more_body:
            if self.flow.read_paused:
                self._run_held()
            return
        answer = self._answer_to(cycle)
        if answer is None:
            self._run_held()
        else:
            self._held = None
            self._write(cycle, answer)

    def _answer_to(self, cycle: RequestResponseCycle) -> Answer | None:
        if self.flow.write_paused:
            # A task can wait until the caller has read the answers before.
            return None
        app = cast(Prompt, self.app)
        return app.prompt_answer(cycle.scope, bytes(cycle.body))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        hold = (
            cycle.more_body
            and cycle.scope["path"] in self._prompt_paths
            and not cycle.waiting_for_100_continue
        )
        if hold:
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _run_held(self) -> None:
        cycle, self._held = self._held, None
        super()._start_asgi_task(cycle, self.app)  # type: ignore[arg-type]

    def _write(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        """All that `RequestResponseCycle.send` does for a whole answer."""
        length = (b"content-length", b"%d" % len(answer.body))
        headers = [*cycle.default_headers, *answer.headers, length]
        if _CLOSE in headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            headers.append(_CLOSE)
        pieces = [STATUS_LINE[answer.status]]
        for name, value in headers:
            pieces += (name, b": ", value, b"\r\n")
        pieces += (b"\r\n", answer.body)
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join(pieces))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
