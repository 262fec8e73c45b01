"""The operator's routes, and paths that do not exist."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from app.settings import Settings
from app.storage import keys
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.worker import refit
from app.worker.loop import Worker
from tests.api.problems import problem
from tests.api.running_service import RunningService, eventually, serving

HOUR = 400_000


def test_a_living_process_answers(shared_service):
    answer = shared_service.http.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_a_service_on_a_store_is_ready_and_names_its_version(service, atlas):
    before = service.http.get("/readyz")
    version = service.publish({"click": atlas})
    after = service.http.get("/readyz")

    assert (before.status_code, before.json()) == (200, {"status": "ready", "version": "none"})
    assert (after.status_code, after.json()) == (200, {"status": "ready", "version": version})


def test_a_service_that_never_reached_its_store_is_starting_but_calibrates(tmp_path):
    with serving(Settings(port=0), f"unix://{tmp_path}/none.sock") as service:
        answer = service.http.get("/readyz")
        asked = {"target": "click", "campaign": "a", "scores": [0.5]}

        assert answer.json() == {"status": "starting", "version": "none"}
        assert answer.status_code == 503
        assert service.http.post("/v1/calibrate", json=asked).json()["probabilities"] == [0.5]
        assert service.metric("sirocco_store_up") == 0


@pytest.fixture
def refitted(service: RunningService) -> Callable[[], dict[str, Any]]:
    """Has a worker run a refit, and returns `/readyz` once it shows the worker's sign of life."""
    settings = service.settings.model_copy(update={"clock": "event", "lease_seconds": 600})
    worker = Worker(settings, service.store, lambda: HOUR * 3600.0, "test")
    assert worker._lease.acquire()

    def run() -> dict[str, Any]:
        Jobs(service.store).submit("refit", {"as_of": HOUR * 3600.0}, time.time())
        worker.step()
        failed = Heartbeat(service.store, 60).read()["consecutive_failures"]
        refresher = service.app.state.resources.refresher
        eventually(lambda: refresher.failed_refits == failed)
        return service.http.get("/readyz").json()

    return run


@pytest.mark.slow
def test_two_failed_refits_in_a_row_degrade_until_one_works(service, refitted, monkeypatch):
    in_a_row = "sirocco_worker_consecutive_failures"
    good = refitted()
    monkeypatch.delattr(refit, "refit_target")

    once, shown_once = refitted(), service.metric(in_a_row)
    twice, shown_twice = refitted(), service.metric(in_a_row)
    monkeypatch.undo()
    mended = refitted()

    assert (good["status"], once["status"], mended["status"]) == ("ready", "ready", "ready")
    assert (twice["status"], twice["reason"]) == ("degraded", "refits-failing")
    assert "reason" not in mended
    assert (shown_once, shown_twice, service.metric(in_a_row)) == (1, 2, 0)
    assert service.metric("sirocco_worker_failures_total") == 2


@pytest.fixture
def failing(lasting: RunningService) -> RunningService:
    """Two refits in a row have failed, as its worker says."""
    Heartbeat(lasting.store, 60).write({"at": time.time(), "consecutive_failures": 2})
    eventually(lambda: lasting.http.get("/readyz").json()["status"] == "degraded")
    return lasting


@pytest.mark.parametrize("junk", [b"", b"\xff", b"[1]", b"{}", b'{"consecutive_failures": 9}'])
def test_a_heartbeat_that_is_none_says_nothing(failing, junk):
    failing.store.set(keys.HEARTBEAT, junk)

    eventually(lambda: failing.http.get("/readyz").json()["status"] == "ready")
    assert failing.metric("sirocco_worker_consecutive_failures") is None


@pytest.mark.parametrize("junk", ["many", None, [2], {"a": 2}])
def test_a_count_of_failures_that_is_none_says_nothing(failing, junk):
    Heartbeat(failing.store, 60).write({"at": time.time(), "consecutive_failures": junk})

    eventually(lambda: failing.http.get("/readyz").json()["status"] == "ready")


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1", "/" + "x" * 10_000, "/v1/atlas/a/b", "/%ff"]
)
def test_an_unknown_path_is_not_found(refusing, path):
    problem(refusing.http.get(path), 404, "not-found")
