"""Redis dies or freezes: calibration goes on, events are refused whole, and all comes back."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.settings import Settings
from app.storage.redis.server import EmbeddedRedis
from calibrators import Atlas
from tests.api.events import HOUR_SECONDS, NONE_REJECTED, click, impression
from tests.api.problems import problem
from tests.api.running_service import RunningService, eventually, serving

SETTINGS = Settings(port=0, refresh_seconds=0.01)
HASTE = 0.5
"""Seconds, for a store that is frozen: one that runs may take as long on a busy machine."""
ASKED = {"target": "click", "campaigns": ["shoes", "unseen"], "scores": [0.6, 0.3]}


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="sirocco-test-") as name:
        yield Path(name)


@pytest.fixture
def own_redis(folder: Path) -> Iterator[EmbeddedRedis]:
    """A server that only this test uses, so that only this test misses it."""
    with EmbeddedRedis(folder) as server:
        yield server


@pytest.fixture
def service(own_redis: EmbeddedRedis) -> Iterator[RunningService]:
    with serving(SETTINGS, own_redis.url) as running:
        yield running


@pytest.fixture
def hasty(own_redis: EmbeddedRedis) -> Iterator[RunningService]:
    """The same that does not wait for the store for long."""
    settings = SETTINGS.model_copy(update={"redis_timeout_seconds": HASTE})
    with serving(settings, own_redis.url) as running:
        yield running


def send(server: EmbeddedRedis, number: signal.Signals) -> None:
    assert server.process_id is not None
    os.kill(server.process_id, number)
    if number == signal.SIGKILL:
        eventually(lambda: server.exit_code is not None)


def status(service: RunningService) -> str:
    return str(service.http.get("/readyz").json()["status"])


def readiness(service: RunningService) -> tuple[str, list[str]]:
    found = service.http.get("/readyz").json()
    return found["status"], found.get("reasons", [])


def check_degraded(service: RunningService, version: str) -> None:
    """What is promised while the store is away."""
    eventually(lambda: status(service) == "degraded")
    readyz = service.http.get("/readyz")
    answer = service.http.post("/v1/calibrate", json=ASKED)
    assert (readyz.status_code, readyz.json()["version"]) == (200, version)
    assert answer.json() == {"probabilities": pytest.approx([0.5, 0.6]), "version": version}
    assert service.http.get("/healthz").status_code == 200
    assert service.http.get("/v1/campaigns").json()["total"] == 2
    assert service.http.get("/v1/atlas/click").status_code == 200
    assert service.metric("sirocco_store_up") == 0
    for method, path, body in (
        ("POST", "/v1/events", [impression(time.time())]),
        ("POST", "/v1/admin/retrain", {}),
        ("GET", "/v1/admin/jobs/1", None),
        ("GET", "/v1/admin/versions", None),
    ):
        refused = service.http.request(method, path, json=body)
        problem(refused, 503, "store-unavailable")
        assert refused.headers["retry-after"] == "1"
        told = (
            "does not answer, so this cannot be read; ask again"
            if method == "GET"
            else "does not answer or is full, so this is not acknowledged; send it again"
        )
        assert refused.json()["detail"] == f"the store {told}"
    counted = service.metrics("sirocco_events_total")
    assert not counted, "what is not stored is not counted as accepted"


def check_recovered(service: RunningService) -> None:
    """Nothing of the refused requests is there, and the next ones are stored."""
    hour = int(time.time() // HOUR_SECONDS)
    assert len(service.bins("click", hour)) == 0
    event = impression(time.time())
    key = {"Idempotency-Key": "recovered"}
    eventually(lambda: service.http.post("/v1/events", json=[event], headers=key).is_success)
    again = service.http.post("/v1/events", json=[event], headers=key)
    assert again.json() == {"accepted": 0, "duplicates": 1, **NONE_REJECTED}
    assert service.bins("click", int(event["occurred_at"] // HOUR_SECONDS)).total().total_count == 1
    assert service.metric("sirocco_store_up") == 1


def test_a_killed_store_is_survived_and_found_again(folder, atlas):
    with ExitStack() as running:
        with EmbeddedRedis(folder) as server:
            service = running.enter_context(serving(SETTINGS, server.url))
            version = service.publish({"click": atlas})
            send(server, signal.SIGKILL)
            check_degraded(service, version)

        running.enter_context(EmbeddedRedis(folder))
        eventually(lambda: status(service) == "ready")
        assert service.serving == version
        check_recovered(service)
        assert service.publish({"click": Atlas.empty()}) != version


def test_a_frozen_store_is_survived_and_found_again(hasty, own_redis, atlas):
    """No request waits longer than the timeout; none of them waits twice."""
    version = hasty.publish({"click": atlas})

    send(own_redis, signal.SIGSTOP)
    try:
        check_degraded(hasty, version)
    finally:
        send(own_redis, signal.SIGCONT)

    eventually(lambda: status(hasty) == "ready")


def test_calibration_does_not_wait_for_requests_that_wait_for_the_store(own_redis):
    """The event loop is free while a frozen store lets an event request hang."""
    settings = SETTINGS.model_copy(update={"redis_timeout_seconds": 1.0})
    with serving(settings, own_redis.url) as service, ThreadPoolExecutor(1) as pool:

        def answers_meanwhile() -> bool:
            """At once, unless the machine has the five wait for longer than the store does."""
            hanging = pool.submit(service.http.post, "/v1/events", json=[impression(time.time())])
            for _ in range(5):
                assert service.http.post("/v1/calibrate", json=ASKED).status_code == 200
            is_free = not hanging.done()
            assert hanging.result().status_code == 503
            return is_free

        send(own_redis, signal.SIGSTOP)
        try:
            eventually(answers_meanwhile)
        finally:
            send(own_redis, signal.SIGCONT)


def test_a_retry_with_the_same_key_is_stored_once_whatever_became_of_the_first(hasty, own_redis):
    """A request that timed out on a frozen store may be stored when the store wakes up."""
    now = time.time()
    events, key = [impression(now), click(now, "1")], {"Idempotency-Key": "one"}
    send(own_redis, signal.SIGSTOP)
    try:
        first = hasty.http.post("/v1/events", json=events, headers=key)
    finally:
        send(own_redis, signal.SIGCONT)
    eventually(lambda: status(hasty) == "ready")

    eventually(lambda: hasty.http.post("/v1/events", json=events, headers=key).status_code == 200)

    assert first.status_code == 503
    bins = hasty.bins("click", int(now // HOUR_SECONDS)).total()
    assert (bins.total_count, bins.total_positives) == (1, 1)


def test_a_wiped_store_gets_back_what_is_served(service, atlas):
    """It is as it was, under a new number, and nobody is told that all is well."""
    version = service.publish({"click": atlas})

    service.store.flushall()

    eventually(lambda: service.serving != version)
    eventually(lambda: readiness(service) == ("degraded", ["store-emptied"]))
    answer = service.http.post("/v1/calibrate", json=ASKED).json()
    listed = service.http.get("/v1/admin/versions").json()
    assert answer["version"] == listed["serving"] == f"000002-{version[-8:]}"
    assert [row["version"] for row in listed["versions"]] == [listed["serving"]]
    assert service.publish({"click": atlas}) == f"000003-{version[-8:]}"
    eventually(lambda: readiness(service) == ("ready", []))
