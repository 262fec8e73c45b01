"""The short cut of the hot routes and the framework's own way give the same answers."""

import gzip
import json
import time
from collections.abc import Iterator

import pytest

from app.api import application
from app.settings import Settings
from tests.api.events import impression
from tests.api.running_service import RunningService, serving

QUESTION = json.dumps({"target": "click", "campaign": "a", "scores": [0.5, 0.25]})
CALIBRATE = [
    ("/v1/calibrate", QUESTION, {}),
    ("/v1/calibrate?explain=true", QUESTION, {}),
    ("/v1/calibrate?explain=maybe", QUESTION, {}),
    ("/v1/calibrate", "{}", {}),
    ("/v1/calibrate", "{", {}),
    ("/v1/calibrate", QUESTION, {"Content-Type": "text/plain"}),
    ("/v1/calibrate", gzip.compress(QUESTION.encode()), {"Content-Encoding": "gzip"}),
    ("/v1/calibrate", QUESTION, {"Content-Encoding": "gzip"}),
    ("/v1/calibrate", b" " * 9_000_000, {}),
]
EVENTS = [
    ("/v1/events", json.dumps([impression(time.time())]), {}),
    ("/v1/events", json.dumps([impression(time.time()), 7]), {}),
    ("/v1/events", "[7]", {}),
    ("/v1/events", "[]", {}),
    ("/v1/events", "[", {}),
    ("/v1/events", "[7]", {"Idempotency-Key": ""}),
    ("/v1/events", json.dumps([impression(1e9)]), {}),
]


@pytest.fixture
def framework_service(
    settings: Settings, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningService]:
    """The same application without the short cut."""
    monkeypatch.setattr(application, "_hot_routes", dict)
    with serving(settings, redis_url) as running:
        yield running


def test_both_ways_give_the_same_answers(service, framework_service):
    for path, body, headers in CALIBRATE + EVENTS:
        answers = [
            running.http.post(path, content=body, headers=headers)
            for running in (service, framework_service)
        ]
        hot, slow = ((a.status_code, dict(a.headers), a.content) for a in answers)
        assert hot == slow, path


def test_both_ways_count_under_the_same_route(service, framework_service):
    for running in (service, framework_service):
        running.http.post("/v1/calibrate", content=QUESTION)
        running.http.post("/v1/events", content="[7]")

    counted = service.metrics("sirocco_requests_total")

    assert counted == framework_service.metrics("sirocco_requests_total")
    assert {dict(labels)["route"] for labels in counted} == {"/v1/calibrate", "/v1/events"}


@pytest.mark.parametrize("path", ["/v1/calibrate", "/v1/events"])
def test_other_methods_take_the_frameworks_way(shared_service, path):
    assert shared_service.http.get(path).status_code == 405
    assert shared_service.http.options(path).status_code == 405
