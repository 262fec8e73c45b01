"""The operator's routes, the documentation, and paths that do not exist."""

import json
from pathlib import Path

import pytest

from app.settings import Settings
from tests.api.problems import problem
from tests.api.running_service import serving

ROUTES = {
    ("/v1/calibrate", "post"),
    ("/v1/events", "post"),
    ("/v1/campaigns", "get"),
    ("/v1/campaigns/{campaign}", "get"),
    ("/v1/maps/{target}/{campaign}", "get"),
    ("/v1/atlas/{target}", "get"),
    ("/v1/atlas/{target}/ids", "get"),
    ("/v1/admin/retrain", "post"),
    ("/v1/admin/pccem/train", "post"),
    ("/v1/admin/jobs/{job_id}", "get"),
    ("/v1/admin/versions", "get"),
    ("/v1/admin/overrides", "get"),
    ("/v1/admin/overrides/{target}/{campaign}", "put"),
    ("/v1/admin/overrides/{target}/{campaign}", "delete"),
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
}


def test_a_living_process_answers(shared_service):
    answer = shared_service.http.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_a_service_on_a_store_is_ready_and_names_its_version(service, atlas):
    before = service.http.get("/readyz")
    version = service.publish({"click": atlas})
    after = service.http.get("/readyz")

    assert (before.status_code, before.json()) == (200, {"status": "ready", "version": "none"})
    assert (after.status_code, after.json()) == (200, {"status": "ready", "version": version})


def test_a_service_that_never_reached_its_store_is_starting_but_calibrates(tmp_path: Path):
    with serving(Settings(port=0), f"unix://{tmp_path}/none.sock") as service:
        answer = service.http.get("/readyz")
        asked = {"target": "click", "campaign": "a", "scores": [0.5]}

        assert answer.json() == {"status": "starting", "version": "none"}
        assert answer.status_code == 503
        assert service.http.post("/v1/calibrate", json=asked).json()["probabilities"] == [0.5]
        assert service.metric("sirocco_store_up") == 0


def test_the_root_leads_to_the_documentation(shared_service):
    answer = shared_service.http.get("/")

    assert (answer.status_code, answer.headers["location"]) == (307, "/docs")
    assert "openapi.json" in shared_service.http.get("/docs").text


def test_every_route_is_documented(shared_service):
    """The hot routes too, though they read their bodies themselves."""
    paths = shared_service.http.get("/openapi.json").json()["paths"]

    assert {(path, method) for path, methods in paths.items() for method in methods} == ROUTES


def test_bodies_are_documented_without_dangling_references(shared_service):
    document = shared_service.http.get("/openapi.json").json()
    posts = {
        path: methods["post"] for path, methods in document["paths"].items() if "post" in methods
    }

    bodies = {path: post["requestBody"]["content"] for path, post in posts.items()}

    assert "#/components/schemas" not in json.dumps(bodies)
    calibrate = bodies["/v1/calibrate"]["application/json"]["schema"]
    assert calibrate["properties"].keys() == {"target", "campaigns", "campaign", "scores", "rows"}
    events = bodies["/v1/events"]["application/json"]["schema"]["items"]["anyOf"]
    assert {kind["title"] for kind in events} == {
        "Impression",
        "Click",
        "Behaviour",
        "Conversion",
        "TargetOutcome",
    }
    columns = "application/vnd.sirocco.columns"
    assert bodies["/v1/events"].keys() == {"application/json", "application/x-ndjson", columns}
    assert bodies["/v1/calibrate"].keys() == {"application/json", columns}
    assert (
        bodies["/v1/admin/retrain"]["application/json"]["schema"]["additionalProperties"] is False
    )


def test_the_documented_examples_are_accepted(shared_service):
    document = shared_service.http.get("/openapi.json").json()
    body = document["paths"]["/v1/calibrate"]["post"]["requestBody"]["content"]["application/json"]

    assert shared_service.http.post("/v1/calibrate", json=body["example"]).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1", "/" + "x" * 10_000, "/v1/atlas/a/b", "/%ff"]
)
def test_an_unknown_path_is_not_found(refusing, path):
    problem(refusing.http.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/calibrate"),
        ("DELETE", "/v1/events"),
        ("POST", "/healthz"),
        ("PUT", "/v1/campaigns"),
    ],
)
def test_a_wrong_method_is_not_allowed(refusing, method, path):
    answer = refusing.http.request(method, path)

    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"]
