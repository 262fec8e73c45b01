"""The ids by which a request is found again: `X-Request-Id`, and the trace id of `traceparent`."""

import re
from collections.abc import Callable
from secrets import token_hex
from typing import Final

from starlette.types import Scope

from app.tracing import RequestAbout, TraceParent, Tracer, trace_parent

REQUEST_ID_HEADER: Final = b"x-request-id"
_TRACE_HEADER: Final = b"traceparent"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}").fullmatch


def request_id_of(scope: Scope, *, always: bool = False) -> str:
    """The one that the caller gave, if it is sane; else a new one where the caller gave any, or
    `always`, and nothing for the rest."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER:
            return str(value.decode()) if _SANE_ID(value) else token_hex(8)
    return token_hex(8) if always else ""


def parent_of(scope: Scope) -> TraceParent | None:
    """The span of the caller that the request names, if it does."""
    for name, value in scope["headers"]:
        if name == _TRACE_HEADER:
            return trace_parent(value)
    return None


def log_fields_of(scope: Scope) -> dict[str, str]:
    """What records of this request have, as far as the caller named it."""
    parent = parent_of(scope)
    found = {"request_id": request_id_of(scope), "trace_id": parent.trace_id if parent else ""}
    return {name: value for name, value in found.items() if value}


class RequestTraces:
    """Makes a span of each request that is sampled, and an exemplar of its duration."""

    def __init__(self, tracer: Tracer, keep: Callable[[str, float, str], None]) -> None:
        self._tracer = tracer
        self._keep = keep

    def add(self, scope: Scope, about: RequestAbout) -> None:
        """Of a request that has just been answered."""
        name = f"{scope['method']} {about.route}"
        trace_id = self._tracer.request(parent_of(scope), name, about)
        if trace_id:
            self._keep(about.route, about.seconds, trace_id)
