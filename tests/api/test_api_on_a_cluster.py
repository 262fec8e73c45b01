"""What one Redis answers, a cluster of three masters and three replicas answers: every route that
reads, what admins change, and the page."""

import time
from collections.abc import Iterator

import orjson
import pytest
from playwright.sync_api import expect

from tests.api.furnished import BUSY, HOURS, REFITTED, furnish
from tests.api.running_service import RunningService, eventually, serving
from tests.storage.several_servers import cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OTHERS = 100
JSON_LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture
def furnished(settings) -> Iterator[RunningService]:
    refitted = settings.model_copy(update=REFITTED)
    with cluster() as made, serving(refitted, made.url) as service:
        furnish(service, OTHERS)
        yield service


def test_the_api_and_the_page(furnished, browser):
    """One cluster for all, because it takes seconds to come up."""
    every_route_that_reads(furnished)
    the_page(furnished, browser)
    bins_that_are_loaded(furnished)
    changes_by_admins(furnished)
    keys_and_what_they_may(furnished)


def every_route_that_reads(service):
    versions = service.http.get("/v1/admin/versions").json()["versions"]
    names = {
        "{campaign}": "shoes",
        "{target}": "click",
        "{version}": versions[-1]["version"],
        "{job_id}": service.http.get("/v1/admin/jobs").json()["jobs"][0]["id"],
    }
    paths = [
        path
        for path, operations in service.http.get("/openapi.json").json()["paths"].items()
        # There is no experiment yet.
        if "get" in operations and not path.endswith("analysis")
    ]
    found = {}
    for path in paths:
        asked = path
        for name, value in names.items():
            asked = asked.replace(name, value)
        found[asked] = service.http.get(asked).status_code

    assert len(found) > 20
    assert {path: status for path, status in found.items() if status != 200} == {}
    assert service.http.get("/readyz").json()["status"] == "ready"
    hours = service.http.get("/v1/reliability/click/shoes").json()["hours"]
    assert len(hours) == HOURS


def the_page(service, browser):
    page = browser.new_page()
    page.goto(f"{service.url}/#/campaigns/click")
    expect(page.get_by_role("status")).to_contain_text(f"{OTHERS + len(BUSY):,} campaigns")
    page.close()


def bins_that_are_loaded(service):
    hour, billion = int(time.time() // 3600) - 1, 1_000_000_000
    row = {"hour": hour, "target": "click", "campaign": "new", "cell": 2213, "count": 3 * billion}
    content = orjson.dumps({**row, "score_sum": 30_200_000, "positives": billion})
    path = "/v1/admin/bins?source=warehouse&partition=p"
    for _ in range(2):
        assert service.http.post(path, content=content, headers=JSON_LINES).is_success
    assert service.bins("click", hour).bins("new").total_count == 3.0


def changes_by_admins(service):
    def changed(method, path, body=None):
        answer = service.http.request(method, f"/v1/admin/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    older = service.http.get("/v1/admin/versions").json()["versions"][-1]["version"]
    changed("PUT", "overrides/click/shoes", {"calibrator": "beta"})
    assert len(service.http.get("/v1/admin/overrides").json()["overrides"]) == 1
    changed("DELETE", "overrides/click/shoes")
    changed("POST", "freeze", {"target": "click"})
    changed("POST", "unfreeze", {"target": "click"})
    changed("POST", "experiments", {"target": "click", "shares": {"raw": 0.1}})
    changed("POST", "experiments/stop", {"target": "click"})
    job = changed("POST", "retrain", {"target": "click"})["id"]
    changed("POST", f"jobs/{job}/cancel")
    version = changed("POST", "rollback", {"version": older})["version"]
    eventually(lambda: service.serving == version)


def keys_and_what_they_may(service):
    made = service.http.post("/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).json()
    head = {"Authorization": f"Bearer {made['token']}"}
    eventually(lambda: service.http.get("/v1/status").status_code == 401)
    ends = f"/v1/admin/keys/{made['key']['id']}"
    turned = service.http.post(f"{ends}/rotate", json={"grace_seconds": 60}, headers=head).json()
    new = {"Authorization": f"Bearer {turned['token']}"}
    eventually(lambda: service.http.get("/v1/status", headers=new).is_success)
    service.http.post(f"{ends}/revoke", headers=new)
    eventually(lambda: service.http.get("/v1/status", headers=head).status_code == 401)
    audit = service.http.get("/v1/admin/audit/verify", headers=new).json()
    assert (audit["entries"] > 8, audit["wrong"]) == (True, None)
