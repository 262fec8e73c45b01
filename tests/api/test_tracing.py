"""Spans as a collector gets them, over real HTTP; and a service whose collector is away."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from app.settings import Settings
from app.tracing import OtlpTracer, RequestAbout
from app.worker.loop import Worker
from tests.api.running_service import serving
from tests.api.test_request_ids import SAMPLED, SCORE, SPAN_ID, TRACE_ID
from tests.reserved_ports import reserved_port

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `tracing`")
messages = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

OPEN_METRICS = {"Accept": "application/openmetrics-text"}


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP on loopback."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Received)
        self.spans = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Received(BaseHTTPRequestHandler):
    """One batch."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        batch = messages.ExportTraceServiceRequest.FromString(body)
        for resource in batch.resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.end_headers()

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def traced(settings, redis_url, url, ratio=0.0):
    wanted = {"otlp_endpoint": url, "trace_ratio": ratio}
    with serving(settings.model_copy(update=wanted), redis_url) as service:
        yield service


def calibrate(service, traceparent=None):
    headers = {"traceparent": traceparent} if traceparent else {}
    assert service.http.post("/v1/calibrate", json=SCORE, headers=headers).status_code == 200


def test_a_request_is_traced_as_its_caller_says(settings, redis_url, collector):
    with traced(settings, redis_url, collector.url) as service:
        calibrate(service)
        calibrate(service, SAMPLED[:-1] + "0")
        calibrate(service, SAMPLED)
        service.http.post("/v1/events", json=[], headers={"traceparent": SAMPLED})
        service.http.get("/v1/campaigns/a", headers={"traceparent": SAMPLED})
        exposed = service.http.get("/metrics", headers=OPEN_METRICS).text

    found = {span.name: span for span in collector.spans}
    names = {"POST /v1/calibrate", "POST /v1/events", "GET /v1/campaigns/{campaign:path}"}
    assert (len(collector.spans), set(found)) == (3, names)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    assert {span.parent_span_id.hex() for span in collector.spans} == {SPAN_ID}
    assert all(span.start_time_unix_nano < span.end_time_unix_nano for span in collector.spans)
    exemplars = [
        (sample.labels["route"], sample.exemplar.labels["trace_id"])
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
        if sample.exemplar
    ]
    assert ("/v1/calibrate", TRACE_ID) in exemplars


def test_of_others_a_share_is_traced(settings, redis_url, collector):
    with traced(settings, redis_url, collector.url, ratio=1.0) as service:
        calibrate(service)

    (span,) = (span for span in collector.spans if span.name == "POST /v1/calibrate")
    assert not span.parent_span_id


@pytest.mark.slow
def test_a_collector_that_is_away_harms_nothing(settings, redis_url):
    """More spans than go out at once: it is tried."""
    away = f"http://127.0.0.1:{reserved_port()}"
    with traced(settings, redis_url, away, ratio=1.0) as service:
        for _ in range(600):
            calibrate(service)
        assert service.metric("sirocco_requests_total", route="/v1/calibrate", code="200") == 600


def test_a_refit_is_a_span_and_one_below_it_for_each_phase(redis_client, collector):
    chosen = {"clock": "event", "lease_seconds": 600, "delayed_targets": ()}
    tracer = OtlpTracer(collector.url, 0.0, "worker")
    worker = Worker(Settings(**chosen), redis_client, lambda: 3600.0, "test", tracer)
    assert worker._lease.acquire()
    worker._jobs.submit("retrain", {"as_of": 3600.0}, 1.0)
    worker.step()
    tracer.close()

    (refit,) = (span for span in collector.spans if span.name == "refit")
    below = {span.name for span in collector.spans if span.parent_span_id == refit.span_id}
    assert below == {"folding events", "evaluating hours", "fitting click", "publishing"}
    assert {span.trace_id for span in collector.spans} == {refit.trace_id}


@pytest.mark.slow
def test_off_no_exporter_is_imported():
    """The framework imports the API of OpenTelemetry by itself, and the client of Redis the SDK."""
    parts = ("opentelemetry.exporter",)
    code = (
        "import sys, app.api.server.server, app.worker.loop;"
        f"assert not [name for name in sys.modules if name.startswith({parts})]"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_collector_is_named_by_a_url():
    with pytest.raises(ValueError, match="otlp_endpoint"):
        Settings(otlp_endpoint="localhost:4318")


@pytest.mark.slow
def test_many_spans_are_dropped_and_not_kept():
    """The queue is bounded: what does not go out is gone."""
    tracer = OtlpTracer("http://127.0.0.1:9", 1.0, "api")
    for _ in range(2 * 2048):
        tracer.request(None, "POST /v1/calibrate", RequestAbout("/v1/calibrate", 200, 0.001))
    processor = tracer._provider._active_span_processor._span_processors[0]
    assert len(processor._batch_processor._queue) <= 2048
    tracer.close()
