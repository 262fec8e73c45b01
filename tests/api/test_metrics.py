"""What `/metrics` counts, with labels that strangers cannot multiply."""

import time
from itertools import pairwise
from random import Random

import pytest

from app.api.metrics.counters import CODES, MetricLayout, Metrics, SharedCounters
from tests.api.events import HOUR_SECONDS, click, impression, outcome

PATHS_OF_STRANGERS = ["/v1/nothing/{}", "/v1/campaigns/{}", "/v1/maps/click/{}", "/v1/maps/{}/a"]


def test_requests_are_counted_by_route_and_code(service):
    asked = {"target": "click", "campaign": "a", "scores": [0.5]}
    service.http.post("/v1/calibrate", json=asked)
    service.http.post("/v1/calibrate", json=asked)
    service.http.post("/v1/calibrate", json={})
    service.http.post("/v1/calibrate", content="{")
    service.http.post("/v1/events", content="[7]")
    service.http.post("/v1/events/", content="[7]")
    service.http.get("/v1/maps/view/a")
    service.http.get("/nowhere")

    counted = service.metrics("sirocco_requests_total")

    assert {tuple(value for _, value in labels): number for labels, number in counted.items()} == {
        ("200", "/v1/calibrate"): 2,
        ("422", "/v1/calibrate"): 1,
        ("400", "/v1/calibrate"): 1,
        ("422", "/v1/events"): 1,
        ("404", "/v1/maps/{target}/{campaign:path}"): 1,
        ("404", "other"): 2,
    }


def test_every_code_that_is_documented_has_a_series_of_its_own(shared_service):
    """A key that was made, 201, was `other`, which no query for `2..` finds."""
    paths = shared_service.http.get("/openapi.json").json()["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]

    documented = {int(code) for each in operations for code in each["responses"]}
    # A head that is too large is of no route yet; connections that are closed count it.
    assert documented - CODES.keys() == {431}


def test_latencies_resolve_50_microseconds_to_one_second(service):
    asked = {"target": "click", "campaign": "a", "scores": [0.5]}
    for _ in range(3):
        service.http.post("/v1/calibrate", json=asked)

    buckets = service.metrics("sirocco_request_seconds_bucket")
    of_route = {
        float(dict(labels)["le"]): number
        for labels, number in buckets.items()
        if dict(labels)["route"] == "/v1/calibrate"
    }

    bounds = sorted(of_route)
    assert (bounds[0], bounds[-2], bounds[-1]) == (50e-6, 1.0, float("inf"))
    assert all(upper <= 2.5 * lower for lower, upper in pairwise(bounds[:-1]))
    assert of_route[float("inf")] == 3
    assert service.metric("sirocco_request_seconds_count", route="/v1/calibrate") == 3
    assert service.metric("sirocco_request_seconds_sum", route="/v1/calibrate") > 0


@pytest.mark.parametrize("repeats", [1, 50])
def test_scores_are_counted_by_the_level_that_served_them(service, version, repeats):
    """On the scalar path and on the vectorised one."""
    campaigns = ["shoes", "hats", "unseen"] * repeats
    columns = {"campaigns": campaigns, "scores": [0.5] * len(campaigns)}
    service.http.post("/v1/calibrate", json={"target": "click", **columns})
    service.http.post("/v1/calibrate", json={"target": "conversion", **columns})

    assert service.metrics("sirocco_scores_total") == {
        (("level", "campaign"), ("target", "click")): 2 * repeats,
        (("level", "target"), ("target", "click")): repeats,
        (("level", "identity"), ("target", "conversion")): 3 * repeats,
    }


def test_events_are_counted_by_type_and_result(service):
    now = time.time()
    events = [
        impression(now),
        impression(now, id="1"),
        impression(now, id="1"),
        impression(now, score=2),
        impression(now - 100 * HOUR_SECONDS),
        impression(now + 100 * HOUR_SECONDS),
        click(now, "1"),
        click(now, ""),
        outcome(now),
        {"type": "behaviour"},
        7,
    ]
    service.http.post("/v1/events", json=events)

    counted = service.metrics("sirocco_events_total")

    assert {(dict(labels)["type"], dict(labels)["result"]): n for labels, n in counted.items()} == {
        ("impression", "accepted"): 3,
        ("impression", "invalid"): 1,
        ("impression", "late"): 1,
        ("impression", "future"): 1,
        ("click", "accepted"): 1,
        ("click", "invalid"): 1,
        ("outcome", "accepted"): 1,
        ("behaviour", "invalid"): 1,
        ("unknown", "invalid"): 1,
    }
    assert service.metric("sirocco_duplicate_events_total") == 1


def test_strangers_cannot_multiply_series(service):
    """Random campaigns, paths, targets and types leave the number of series as it is."""
    rng = Random(7)

    def knock() -> None:
        word = rng.randbytes(8).hex()
        for path in PATHS_OF_STRANGERS:
            service.http.get(path.format(word))
        asked = {"campaign": word, "scores": [0.5]}
        service.http.post("/v1/calibrate", json={"target": "click", **asked})
        service.http.post("/v1/calibrate", json={"target": word, **asked})
        now = time.time()
        events = [impression(now, campaign=word), outcome(now, target=word), {"type": word}]
        service.http.post("/v1/events", json=events)

    def series() -> int:
        return service.http.get("/metrics").text.count("\nsirocco_")

    knock()
    series()
    before = series()
    for _ in range(50):
        knock()

    assert series() == before


def test_the_text_format_is_prometheus_own(shared_service):
    answer = shared_service.http.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "_created" not in answer.text
    assert "process_resident_memory_bytes" in answer.text


def test_every_application_counts_for_itself():
    """Two in one process do not share a registry."""
    layout = MetricLayout.of([], ["click"])
    first, second = (Metrics(layout, SharedCounters.alone(layout)) for _ in range(2))

    first.count_duplicates(3)

    assert second.registry.get_sample_value("sirocco_duplicate_events_total") == 0
