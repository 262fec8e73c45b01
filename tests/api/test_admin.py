"""Refits on demand, their jobs, and the list of versions."""

import time

import pytest

from app.settings import Settings
from app.storage.jobs import QUEUE_LIMIT, Jobs
from calibrators import Atlas
from tests.api.problems import broken_rule, problem
from tests.api.running_service import serving

PATH = "/v1/admin/retrain"
TRAIN = "/v1/admin/pccem/train"
LAST = "9999-12-31T23:59:59+00:00"
WITHIN = "must be within SIROCCO_WINDOW_HOURS (24) before"


def test_a_refit_is_queued_as_a_job(service):
    started = time.time()
    wanted = {"target": "click", "campaigns": ["b", "a", "b"], "as_of": "2025-03-01T00:00:00Z"}
    wanted |= {"allow_past": True}

    answer = service.http.post(PATH, json=wanted)

    job = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/admin/jobs/{job['id']}"
    assert started <= job.pop("created_at") <= time.time()
    assert job == {
        "id": job["id"],
        "kind": "retrain",
        "request": {"target": "click", "campaigns": ["a", "b"], "as_of": 1_740_787_200.0},
        "status": "queued",
        "started_at": None,
        "finished_at": None,
        "result": None,
        "error": None,
        "progress": None,
        "fraction": None,
        "cancel_requested_at": None,
    }


@pytest.mark.parametrize("path", [PATH, TRAIN])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"target": null}'])
def test_an_empty_request_means_everything(lasting, path, body):
    """Of a training: every delayed target."""
    assert lasting.http.post(path, content=body).json()["request"] == {}


def test_a_job_tells_how_it_goes(service):
    """Queued, running, then done with its result or failed with its error."""
    jobs = Jobs(service.store)
    first = service.http.post(PATH, json={"target": "click"}).headers["location"]
    second = service.http.post(PATH).headers["location"]

    assert service.http.get(first).json()["status"] == "queued"
    taken = jobs.take(2.0)
    jobs.advance(taken.id, "fitting click", 0.5)
    running = service.http.get(first).json()
    assert (running["status"], running["started_at"]) == ("running", 2.0)
    assert (running["progress"], running["fraction"]) == ("fitting click", 0.5)
    jobs.finish(taken.id, 3.0, result={"version": "1"})
    jobs.finish(jobs.take(4.0).id, 5.0, error="it broke")
    done, failed = service.http.get(first).json(), service.http.get(second).json()
    assert (done["status"], done["finished_at"], done["result"]) == ("done", 3.0, {"version": "1"})
    assert (failed["status"], failed["error"]) == ("failed", "it broke")


@pytest.mark.parametrize("job_id", ["000099", "x" * 10_000, "%00"])
def test_an_unknown_job_is_not_found(refusing, job_id):
    content = problem(refusing.http.get(f"/v1/admin/jobs/{job_id}"), 404, "not-found")

    assert "there is no such job" in content["detail"]


def test_a_full_queue_refuses_more(service):
    for hour in range(QUEUE_LIMIT):
        service.http.post(PATH, json={"as_of": time.time() - hour})

    answer = service.http.post(PATH)

    problem(answer, 429, "queue-full")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("wanted", "field", "rule", "value"),
    [
        ({"target": "view"}, "target", "must be a target: click, conversion", '"view"'),
        ({"target": 7}, "target", "must be a string", "7"),
        ({"campaigns": []}, "campaigns", "has 0 items; must have 1 to 10000", None),
        ({"campaigns": ["a"] * 10_001}, "campaigns", "has 10001 items; must have", None),
        ({"campaigns": ["a", ""]}, "campaigns[1]", "must have 1 to 256 bytes", '""'),
        ({"campaigns": ["x" * 10_000]}, "campaigns[0]", "must have 1 to", f'"{"x" * 60}...'),
        ({"campaigns": "a"}, "campaigns", "must be an array of strings", '"a"'),
        ({"campaigns": [7]}, "campaigns[0]", "must be a string", "7"),
        ({"as_of": "now"}, "as_of", "must be a time: RFC 3339 with a time zone", '"now"'),
        ({"as_of": LAST}, "as_of", "must be in the years 2000 to 2099", f'"{LAST}"'),
        ({"as_of": 4_000_000_000}, "as_of", "must not be in the future", '"4000000000.0"'),
        ({"as_of": 978_307_200}, "as_of", WITHIN, '"2001-01-01T00:00:00+00:00"'),
        ({"as_of": 978_307_200, "allow_past": 1}, "allow_past", "must be true or false", "1"),
        ({"when": 1}, "when", "unknown field", None),
    ],
)
def test_every_broken_rule_is_named(refusing, wanted, field, rule, value):
    broken_rule(refusing.http.post(PATH, json=wanted), field, rule, value)


def test_delayed_targets_are_refitted_too(lasting):
    answer = lasting.http.post(PATH, json={"target": "conversion"})

    assert answer.json()["request"] == {"target": "conversion"}


def test_a_training_is_queued_as_a_job(lasting):
    wanted = {"target": "conversion", "as_of": "2025-03-01T00:00:00Z"}

    answers = [lasting.http.post(TRAIN, json=wanted) for _ in range(2)]

    job = answers[0].json()
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].headers["location"] == f"/v1/admin/jobs/{job['id']}"
    assert (job["kind"], job["status"]) == ("train", "queued")
    assert job["request"] == {"target": "conversion", "as_of": 1_740_787_200.0}
    assert answers[1].json()["id"] == job["id"]


@pytest.mark.parametrize(
    ("wanted", "field", "rule", "value"),
    [
        ({"target": "click"}, "target", "must be a delayed target: conversion", '"click"'),
        ({"target": 7}, "target", "must be a string", "7"),
        ({"campaigns": ["a"]}, "campaigns", "unknown field", None),
        ({"as_of": "now"}, "as_of", "must be a time: RFC 3339 with a time zone", '"now"'),
        ({"as_of": 4_000_000_000}, "as_of", "must not be in the future", '"4000000000.0"'),
    ],
)
def test_every_broken_rule_of_a_training_is_named(refusing, wanted, field, rule, value):
    broken_rule(refusing.http.post(TRAIN, json=wanted), field, rule, value)


def test_without_delayed_targets_there_is_nothing_to_train(redis_url):
    with serving(Settings(port=0, delayed_targets=()), redis_url) as service:
        answer = service.http.post(TRAIN, json={"target": "conversion"})

    broken_rule(answer, "target", "must be a delayed target: there is none", '"conversion"')


def test_by_the_events_clock_any_moment_can_be_refitted(event_clock_service):
    answer = event_clock_service.http.post(PATH, json={"as_of": 4_000_000_000})

    assert answer.json()["request"] == {"as_of": 4_000_000_000.0}


def test_versions_are_listed_newest_first(service, atlas):
    older = service.publish({"click": Atlas.empty()}, as_of=1.0)
    newer = service.publish({"click": atlas}, as_of=2.0)

    content = service.http.get("/v1/admin/versions").json()

    assert content["serving"] == newer
    assert [(row["version"], row["as_of"]) for row in content["versions"]] == [
        (newer, 2.0),
        (older, 1.0),
    ]
    assert content["versions"][0]["atlases"]["click"]["bytes"] == len(atlas.to_bytes())


def test_by_the_events_clock_the_window_ends_with_their_newest_hour(event_clock_service):
    """Events of 2020 make refits as of 2020 possible, and older ones need a word more."""
    newest = 1_577_836_800
    event = {"type": "outcome", "campaign": "a", "target": "click", "score": 0.5, "outcome": 1}
    stored = event_clock_service.http.post("/v1/events", json=[{**event, "occurred_at": newest}])
    assert stored.json()["accepted"] == 1

    within = event_clock_service.http.post(PATH, json={"as_of": newest - 22 * 3600})
    before = event_clock_service.http.post(PATH, json={"as_of": newest - 24 * 3600})
    allowed = {"as_of": newest - 24 * 3600, "allow_past": True}

    assert within.status_code == 202
    broken_rule(before, "as_of", "before 2020-01-01T01:00:00+00:00", '"2019-12-31T00:00:00+00:00"')
    assert event_clock_service.http.post(PATH, json=allowed).status_code == 202


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_on_the_version_that_is_held_is_a_job(lasting, decision):
    held = lasting.hold()
    listed = lasting.http.get("/v1/admin/versions").json()["held"]

    answer = lasting.http.post(f"/v1/admin/versions/{held}/{decision}")
    other = lasting.http.post(f"/v1/admin/versions/{held}x/{decision}")

    assert (listed["version"], listed["reasons"]) == (held, {"click": "no-maps"})
    job = answer.json()
    assert (answer.status_code, job["kind"], job["request"]) == (202, decision, {"version": held})
    assert "is not held for approval" in problem(other, 404, "not-found")["detail"]


def test_before_the_first_version_the_list_is_empty(shared_service):
    content = shared_service.http.get("/v1/admin/versions").json()

    none = {"click": None, "conversion": None}
    assert content == {
        "serving": "none",
        "calibrators": none,
        "versions": [],
        "rolled_back": None,
        "held": None,
        "frozen": {},
    }


def test_the_calibrators_of_the_version_that_serves_are_told(lasting, atlas):
    lasting.publish({"click": atlas}, {"targets": {"click": {"calibrator": "pooled"}}})

    content = lasting.http.get("/v1/admin/versions").json()

    assert content["calibrators"] == {"click": "pooled", "conversion": None}


def test_a_job_is_cancelled_again_and_again_and_the_audit_log_says_by_whom(lasting):
    job = lasting.http.post(PATH, json={"target": "click"}).json()
    path = f"/v1/admin/jobs/{job['id']}/cancel"

    answers = [lasting.http.post(path) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.json()["status"] for answer in answers} == {"cancelled"}
    entry = lasting.http.get("/v1/admin/audit").json()["entries"][0]
    assert (entry["what"], entry["target"]) == ("cancel-job", f"job {job['id']}")
    problem(lasting.http.post("/v1/admin/jobs/999999/cancel"), 404, "not-found")
