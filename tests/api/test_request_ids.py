"""`X-Request-Id` and `traceparent`: read within bounds, answered, and found again in the audit."""

import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

SCORE = {"target": "click", "campaign": "a", "scores": [0.25]}
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
NEW = re.compile("[0-9a-f]{16}")


def ask(lasting, path, **headers):
    """Of the hot path at once, of the hot path in a task, or of the framework."""
    if path == "/v1/calibrate":
        return lasting.http.post(path, json=SCORE, headers=headers)
    if path == "/v1/events":
        return lasting.http.post(path, json=[], headers=headers)
    return lasting.http.get(path, headers=headers)


@pytest.mark.parametrize("path", ["/v1/calibrate", "/v1/events", "/readyz", "/v1/admin/versions"])
def test_the_callers_id_is_answered_and_one_that_is_not_sane_is_replaced(lasting, path):
    given = ask(lasting, path, **{"X-Request-Id": "bid:7.a-b_c"})
    long = ask(lasting, path, **{"X-Request-Id": "a" * 65})
    unsafe = ask(lasting, path, **{"X-Request-Id": "a\tb"})

    assert given.headers["x-request-id"] == "bid:7.a-b_c"
    assert all(NEW.fullmatch(answer.headers["x-request-id"]) for answer in (long, unsafe))


def test_what_is_recorded_has_an_id_always_and_the_hot_path_makes_none(lasting):
    assert "x-request-id" not in ask(lasting, "/v1/calibrate").headers
    assert NEW.fullmatch(ask(lasting, "/v1/admin/versions").headers["x-request-id"])


def test_a_refused_request_has_its_id_too(lasting):
    refused = lasting.http.post("/v1/calibrate", content=b"{", headers={"X-Request-Id": "r1"})

    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "r1")


@pytest.mark.parametrize(
    ("traceparent", "found"),
    [
        (SAMPLED, TRACE_ID),
        (f"00-{TRACE_ID}-{SPAN_ID}-00", TRACE_ID),
        (f"01-{TRACE_ID}-{SPAN_ID}-01-later", TRACE_ID),
        (f"ff-{TRACE_ID}-{SPAN_ID}-01", None),
        (f"00-{'0' * 32}-{SPAN_ID}-01", None),
        (f"00-{TRACE_ID}-{'0' * 16}-01", None),
        (SAMPLED.upper(), None),
        ("x" * 5000, None),
    ],
)
def test_the_audit_log_has_the_trace_of_a_change(lasting, traceparent, found):
    lasting.http.post("/v1/admin/retrain", headers={"traceparent": traceparent})

    entry = lasting.http.get("/v1/admin/audit").json()["entries"][0]
    assert entry.get("trace_id") == found
    assert lasting.http.get("/v1/admin/audit/verify").json()["wrong"] is None


def test_metrics_are_in_openmetrics_for_who_accepts_it(lasting):
    """By the strict reader; Prometheus asks for it first."""
    ask(lasting, "/v1/calibrate")
    accepts = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"

    answer = lasting.http.get("/metrics", headers={"Accept": accepts})
    plain = lasting.http.get("/metrics")

    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {"sirocco_requests", "sirocco_request_seconds", "sirocco_refit_progress_ratio"} <= names
    assert plain.headers["content-type"].startswith("text/plain")
    assert "# EOF" not in plain.text
