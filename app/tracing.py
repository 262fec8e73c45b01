"""The ids by which a request is found again, `X-Request-Id` and the trace id of `traceparent`; and
traces of requests, refits and trainings, sent by OTLP over HTTP to the collector that
`SIROCCO_OTLP_ENDPOINT` names. Without it neither the SDK of OpenTelemetry nor its exporter is
imported.

Spans wait in a queue of bounded length and go out in batches, from a thread of their own: where the
collector is away, or slow, they are dropped.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from random import random
from secrets import token_hex
from threading import Timer
from typing import Any, Final, NamedTuple

from app.settings import BadConfiguration, Settings, variable_of

REQUEST_ID_HEADER: Final = b"x-request-id"
_TRACE_HEADER: Final = b"traceparent"
_SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,64}").fullmatch
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_SAMPLED: Final = 1
_MOST_SPANS: Final = 2048
_MOST_AT_ONCE: Final = 512
_PAUSE_MILLISECONDS: Final = 1000
_EXPORT_SECONDS: Final = 2
_SILENT_SECONDS: Final = 60.0
_PATH: Final = "/v1/traces"


AsgiScope = MutableMapping[str, Any]
"""What a server says of a request: the scope of ASGI."""


class TraceParent(NamedTuple):
    """The span of the caller, by the ids of W3C Trace Context, and whether it is recorded."""

    trace_id: str
    span_id: str
    sampled: bool


def trace_parent(value: bytes) -> TraceParent | None:
    """What a header `traceparent` says; None for one that breaks the rules of W3C."""
    found = _TRACEPARENT.fullmatch(value)
    if found is None:
        return None
    trace_id, span_id, flags = (part.decode() for part in found.groups())
    return TraceParent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


class RequestAbout(NamedTuple):
    """How a request was answered, after how many seconds."""

    route: str
    status: int
    seconds: float


class Tracer:
    """Tracing is off: nothing is imported, and nothing sent."""

    is_on = False

    def request(self, parent: TraceParent | None, name: str, about: RequestAbout) -> str:
        """Send the span of a request that has just been answered; returns its trace id, or nothing
        where it is not sampled."""
        return ""

    @contextmanager
    def operation(self, name: str, **attributes: Any) -> Iterator[None]:
        """Inside is one span, and one below it for each phase."""
        yield

    def phase(self, name: str | None) -> None:
        """The operation is at another phase, or at none."""

    def close(self) -> None:
        """Send what waits, or give it up."""


NO_TRACER: Final = Tracer()


class _OncePerMinute(logging.Filter):
    """Lets one record pass a minute: a collector that is away is an error with every batch."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at = -_SILENT_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        is_due = record.created - self._passed_at >= _SILENT_SECONDS
        self._passed_at = record.created if is_due else self._passed_at
        return is_due


class OtlpTracer(Tracer):
    """Sends spans of one process; `ratio` is the share of requests without a parent that are
    traced."""

    def __init__(self, endpoint: str, ratio: float, service: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        self._ratio = ratio
        self._phase: Any = None
        self._within: Any = None
        # What is not sampled makes no span at all: that is decided here.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource({"service.name": "sirocco", "service.component": service}),
            shutdown_on_exit=False,
        )
        self._exporter = OTLPSpanExporter(endpoint.rstrip("/") + _PATH, timeout=_EXPORT_SECONDS)
        processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=_MOST_SPANS,
            schedule_delay_millis=_PAUSE_MILLISECONDS,
            max_export_batch_size=_MOST_AT_ONCE,
        )
        self._provider.add_span_processor(processor)
        logging.getLogger(OTLPSpanExporter.__module__).addFilter(_OncePerMinute())
        self._tracer = self._provider.get_tracer("sirocco")

    is_on = True

    def request(self, parent: TraceParent | None, name: str, about: RequestAbout) -> str:
        """See `Tracer`."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        if not (parent.sampled if parent else random() < self._ratio):
            return ""
        ended = time.time_ns()
        span = self._tracer.start_span(
            name,
            _context(parent),
            SpanKind.SERVER,
            {"http.route": about.route, "http.response.status_code": about.status},
            start_time=ended - int(about.seconds * 1e9),
        )
        if about.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)
        return f"{span.get_span_context().trace_id:032x}"

    @contextmanager
    def operation(self, name: str, **attributes: Any) -> Iterator[None]:
        """See `Tracer`."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = self._tracer.start_span(name, attributes=attributes)
        self._within = set_span_in_context(span)
        try:
            yield
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            self.phase(None)
            self._within = None
            span.end()

    def phase(self, name: str | None) -> None:
        """See `Tracer`."""
        if self._phase is not None:
            self._phase.end()
        self._phase = self._tracer.start_span(name, self._within) if name and self._within else None

    def close(self) -> None:
        """See `Tracer`."""
        # A batch may take its whole time-out, and there may be several.
        given_up = Timer(_EXPORT_SECONDS, self._exporter.shutdown)
        given_up.start()
        self._provider.shutdown()
        given_up.cancel()


def open_tracer(settings: Settings, service: str) -> Tracer:
    """The tracer of the settings, of an `api` or a `worker`; raises BadConfiguration where
    OpenTelemetry is wanted and not installed."""
    if settings.otlp_endpoint is None:
        return NO_TRACER
    try:
        return OtlpTracer(settings.otlp_endpoint, settings.trace_ratio, service)
    except ImportError as error:
        raise BadConfiguration(
            f"{variable_of('otlp_endpoint')}: OpenTelemetry is not installed ({error.name}):"
            " pip install 'sirocco[tracing]'"
        ) from None


def _context(parent: TraceParent | None) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if parent is None:
        return Context()
    ids = int(parent.trace_id, 16), int(parent.span_id, 16)
    remote = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(remote), Context())


def request_id_of(scope: AsgiScope, *, always: bool = False) -> str:
    """The one that the caller gave, if it is sane; else a new one where the caller gave any, or
    `always`, and nothing for the rest."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER:
            return sane_id(value).decode()
    return token_hex(8) if always else ""


def sane_id(given: bytes) -> bytes:
    """The id that a caller gave a request, if it is sane; else a new one."""
    return given if _SANE_ID(given) else token_hex(8).encode()


def parent_of(scope: AsgiScope) -> TraceParent | None:
    """The span of the caller that the request names, if it does."""
    for name, value in scope["headers"]:
        if name == _TRACE_HEADER:
            return trace_parent(value)
    return None


def log_fields_of(scope: AsgiScope) -> dict[str, str]:
    """What records of this request have, as far as the caller named it."""
    parent = parent_of(scope)
    found = {"request_id": request_id_of(scope), "trace_id": parent.trace_id if parent else ""}
    return {name: value for name, value in found.items() if value}


class RequestTraces:
    """Makes a span of each request that is sampled, and an exemplar of its duration."""

    def __init__(self, tracer: Tracer, keep: Callable[[str, float, str], None]) -> None:
        self._tracer = tracer
        self._keep = keep

    def add(self, scope: AsgiScope, about: RequestAbout) -> None:
        """Of a request that has just been answered."""
        name = f"{scope['method']} {about.route}"
        trace_id = self._tracer.request(parent_of(scope), name, about)
        if trace_id:
            self._keep(about.route, about.seconds, trace_id)
