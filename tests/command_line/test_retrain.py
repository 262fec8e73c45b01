"""`sirocco retrain` against a running API, with the test as its worker."""

from collections.abc import Callable, Iterator
from threading import Thread
from time import monotonic, sleep, time
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest

from app.cli.serving import client
from app.cli.serving.client import ServiceClient
from app.errors import CommandError
from app.storage import keys
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.storage.versions import Versions
from tests.api.running_service import RunningService, eventually

TRAINED = {"version": "000001-ab", "source": "model", "seconds": 1.5, "refused": None}
REFUSED = {"version": "000002-cd", "source": "model", "seconds": 1.5, "refused": "log loss .3"}
NOTHING = {"version": None, "source": None, "refused": "12 clicks: at least 1000 are needed"}


@pytest.fixture
def worked(service: RunningService) -> Iterator[Callable[..., list[Any]]]:
    """Answers the next job; returns the list that it will be in."""
    threads = []

    def answer(**outcome: Any) -> list[Any]:
        taken: list[Any] = []
        thread = Thread(target=take, args=(taken, outcome))
        threads.append(thread)
        thread.start()
        return taken

    def take(taken: list[Any], outcome: dict[str, Any]) -> None:
        jobs = Jobs(service.store)
        while (job := jobs.take(1.0)) is None:
            sleep(0.01)
        taken.append(job)
        jobs.finish(job.id, 2.0, **outcome)

    yield answer
    for thread in threads:
        thread.join(30)


def test_models_are_trained_and_what_came_of_it_is_told(called, service, worked):
    targets = {"conversion": TRAINED, "install": NOTHING, "sale": REFUSED}
    taken = worked(result={"as_of": 1.0, "targets": targets})

    run = called("retrain", "--pccem", "--url", service.url)

    assert (taken[0].kind, taken[0].request) == ("train", {})
    assert run.returncode == 0
    assert run.stdout.splitlines() == [
        "conversion: 000001-ab is out, labels from model",
        "sale: 000002-cd is out, labels from model",
    ]
    assert "install: nothing to train on: 12 clicks" in run.stderr
    assert "sale: no new model: log loss .3" in run.stderr


def test_one_target_is_trained_as_of_a_moment(called, service, worked):
    taken = worked(result={"as_of": 1.0, "targets": {"conversion": TRAINED}})
    asked = ("--target", "conversion", "--as-of", "2025-03-01T00:00:00Z", "--json")

    run = called("retrain", "--pccem", *asked, "--url", service.url)

    assert taken[0].request == {"target": "conversion", "as_of": 1_740_787_200.0}
    assert orjson.loads(run.stdout)["result"]["targets"] == {"conversion": TRAINED}


def test_a_training_that_fails_is_an_error(called, service, worked):
    worked(error="OSError: the disk is full")

    run = called("retrain", "--pccem", "--url", service.url)

    assert run.returncode == 1
    assert "the training failed: OSError: the disk is full" in run.stderr


def test_one_need_not_wait_for_it(called, service):
    run = called("retrain", "--pccem", "--timeout", "0", "--url", service.url)

    assert "is queued" in run.stderr
    Jobs(service.store).take(1.0)


def test_campaigns_have_no_models_of_their_own(refused, service):
    said = refused("retrain", "--pccem", "--campaign", "a", "--url", service.url)

    assert "leave out --campaign" in said


CLICK = {"fitted": 1200, "skipped": {}, "calibrator": "pooled", "overridden": {"sir": 2}}
HELD = {"passed": 1190, "kept": 3, "parent": 0, "bounded": 7, "target": "kept"}
ALL_PASSED = {"passed": 1, "kept": 0, "parent": 0, "bounded": 0, "target": "passed"}


def test_what_the_guard_held_back_is_told(called, service, worked):
    worked(result={"version": "000003-ef", "targets": {"click": {**CLICK, "guard": HELD}}})

    run = called("retrain", "--url", service.url)

    assert run.stdout == "version 000003-ef is out\n"
    assert run.stderr.splitlines() == [
        "click: 1,200 maps by pooled",
        "click: campaigns with sir of their own: 2",
        "click: held back by the guard: 3 kept, 7 bounded, and the target's own map kept",
    ]


@pytest.mark.parametrize("guarded", [None, ALL_PASSED])
def test_where_nothing_was_held_back_nothing_is_said(called, service, worked, guarded):
    fitted = {"fitted": 1, "skipped": {}, "calibrator": "sir", "overridden": {}, "guard": guarded}
    targets = {"click": fitted, "conversion": {"source": "none"}}
    worked(result={"version": "000003-ef", "targets": targets})

    run = called("retrain", "--url", service.url)

    assert run.stderr.splitlines() == ["click: 1 map by sir"]


def test_only_what_was_asked_for_is_told_and_what_is_frozen_is_no_new_map(called, service, worked):
    worked(result={"version": "000003-ef", "targets": {"click": CLICK, "conversion": CLICK}})
    one = called("retrain", "--target", "click", "--url", service.url)
    worked(result={"version": "000003-ef", "targets": {"click": {**CLICK, "frozen": True}}})
    frozen = called("retrain", "--target", "click", "--url", service.url)

    assert [line.split(":")[0] for line in one.stderr.splitlines()] == ["click", "click"]
    assert frozen.stderr == "click: frozen, so its maps stay\n"


OUT = {"version": "000003-ef", "targets": {"click": CLICK}, "held": None}
WAITING = {"version": "000004-aa", "reasons": {"click": "campaigns-lost"}}


def test_a_refit_that_is_held_says_why_and_how_it_is_approved(called, service, worked):
    worked(result={"version": None, "targets": {}, "held": WAITING})

    run = called("retrain", "--url", service.url)

    assert (run.returncode, run.stdout) == (1, "")
    assert "held for approval (click: campaigns-lost)" in run.stderr
    assert "sirocco retrain --approve 000004-aa" in run.stderr

    worked(result={"version": None, "targets": {}, "held": WAITING})
    as_json = called("retrain", "--url", service.url, "--json")
    assert (as_json.returncode, orjson.loads(as_json.stdout)["result"]["held"]) == (1, WAITING)
    assert "held for approval" in as_json.stderr


@pytest.mark.parametrize("named", [True, False])
def test_what_is_held_is_approved_or_rejected(called, service, worked, named):
    versions = Versions(service.store, 8)
    held = service.hold()
    which = [held] if named else []
    approved = worked(result=OUT)
    approval = called("retrain", "--approve", *which, "--url", service.url)
    rejected = worked(result={"rejected": held})
    rejection = called("retrain", "--reject", *which, "--url", service.url)
    versions.reject()

    jobs = [(job.kind, job.request["version"]) for job in (*approved, *rejected)]
    assert jobs == [("approve", held), ("reject", held)]
    assert (approval.stdout, rejection.stdout) == (
        "version 000003-ef is out\n",
        f"{held} is dropped\n",
    )


@pytest.mark.parametrize("given", [("--approve", "--reject"), ("000001-ab",)])
def test_a_version_needs_one_decision(refused, service, given):
    assert "give --approve or --reject" in refused("retrain", *given, "--url", service.url)


def test_an_approval_that_fails_is_called_that(service):
    jobs = Jobs(service.store)
    job = jobs.submit("approve", {"version": "000001-ab"}, 1.0)
    jobs.take(2.0)
    jobs.finish(job.id, 3.0, error="VersionChanged: frozen")

    with ServiceClient(service.url) as client, pytest.raises(CommandError) as failed:
        client.finished({"id": job.id, "kind": job.kind}, 60)

    assert str(failed.value) == "the approval failed: VersionChanged: frozen"


def test_nothing_held_is_an_error(called, service):
    run = called("retrain", "--approve", "--url", service.url)

    assert (run.returncode, "no version waits for approval" in run.stderr) == (1, True)


def test_what_the_worker_is_at_is_told_while_it_lasts(called, service):
    """Nobody is asked whether a worker runs while one refits."""
    jobs = Jobs(service.store)
    queued = jobs.submit("retrain", {}, 1.0)
    assert jobs.take(2.0) == jobs.get(queued.id)
    jobs.advance(queued.id, "fitting click", 0.5)
    with ServiceClient(service.url) as client, pytest.raises(CommandError) as late:
        client.finished({"id": queued.id}, 0.01)

    assert "is still running after 0.01 s: fitting click" in str(late.value)
    assert jobs.finish(queued.id, 3.0, error="the test is over")


def test_an_overloaded_service_is_asked_again_when_it_says(service, monkeypatch):
    shedder = service.app.state.resources.shedder
    usual, pauses = shedder.most_requests, []

    def heed(seconds):
        pauses.append(seconds)
        shedder.most_requests = usual

    monkeypatch.setattr(shedder, "most_requests", 0)
    monkeypatch.setattr(client, "time", SimpleNamespace(sleep=heed, monotonic=monotonic))

    with ServiceClient(service.url) as asking:
        assert asking.read("admin", "versions")["held"] is None

    assert pauses == [1.0]


def test_what_is_only_read_is_asked_for_again_while_the_store_does_not_answer(service, monkeypatch):
    """A change may have been made."""
    silent = {"type": "urn:sirocco:problem:store-unavailable", "detail": "silent"}
    sent, asked = ServiceClient._sent, []

    def seldom(self, method, path, *rest):
        asked.append(method)
        if len(asked) != 2:
            request = httpx.Request(method, f"{service.url}{path}")
            return httpx.Response(503, headers={"Retry-After": "0"}, json=silent, request=request)
        return sent(self, method, path, *rest)

    monkeypatch.setattr(ServiceClient, "_sent", seldom)
    with ServiceClient(service.url) as asking:
        assert asking.read("admin", "versions")["held"] is None
        with pytest.raises(CommandError, match="503: silent"):
            asking.change("retrain")

    assert asked == ["GET", "GET", "POST"]


def test_a_busy_worker_is_not_asked_for(service):
    """What waits says what the worker is at, whose sign of life every API process reads."""
    jobs, heartbeat = Jobs(service.store), Heartbeat(service.store, 60)
    queued = jobs.submit("retrain", {"target": "click"}, 1.0)
    heartbeat.write({"at": time(), "phase": "fitting install", "progress": {"click": 0.25}})
    eventually(lambda: service.metric("sirocco_refit_progress_ratio", target="click") == 0.25)
    with ServiceClient(service.url) as client, pytest.raises(CommandError) as late:
        client.finished({"id": queued.id}, 0.01)

    assert "is still queued after 0.01 s: waits for the worker: fitting install" in str(late.value)
    heartbeat.write({"at": time(), "phase": "idle", "progress": {}})
    at = f"/v1/admin/jobs/{queued.id}"
    idle = "waits for the worker, which is idle"
    eventually(lambda: service.http.get(at).json()["progress"] == idle)
    assert jobs.cancel(queued.id, 2.0).status == "cancelled"
    # No other test has a worker that is at work.
    service.store.delete(keys.HEARTBEAT)
    eventually(lambda: not service.metrics("sirocco_refit_progress_ratio"))


def test_a_job_is_cancelled(called, service):
    jobs = Jobs(service.store)
    queued = jobs.submit("retrain", {}, 1.0)

    run = called("retrain", "--cancel", queued.id, "--url", service.url)
    again = called("retrain", "--cancel", queued.id, "--json", "--url", service.url)

    assert (run.returncode, run.stderr) == (0, f"job {queued.id} is cancelled\n")
    assert (again.returncode, orjson.loads(again.stdout)["status"]) == (0, "cancelled")
    assert jobs.take(2.0) is None
    done = jobs.submit("retrain", {}, 3.0)
    jobs.take(4.0)
    jobs.finish(done.id, 5.0, result={"version": "000001-0", "targets": {}})
    late = called("retrain", "--cancel", done.id, "--url", service.url)
    assert (late.returncode, late.stdout) == (0, "")
    assert late.stderr == f"job {done.id} is done already, and stays so\n"


def test_a_cancelled_refit_is_an_error_for_who_waits(called, service, worked):
    worked(cancelled=True)

    run = called("retrain", "--url", service.url)

    assert (run.returncode, "the refit was cancelled" in run.stderr) == (1, True)
