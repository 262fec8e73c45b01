"""Who gets in: every route with and without a key, campaigns of others, limits, the admin port."""

import gzip
import json
import logging
import re
import time

import httpx
import pytest

from app.access.key_store import KeyStore
from app.access.keys import Scope
from app.storage.redis.client import open_redis
from calibrators import Atlas, CalibrationMap
from calibrators.evidence import bound_of
from tests.api.running_service import eventually, serving
from tests.columns import bodies
from tests.loopback import LOOPBACK
from tests.reserved_ports import reserved_port

HEALTH = {"/healthz", "/readyz"}
BOOTSTRAP = "bootstrap-" + "k" * 32
QUESTION = {"target": "click", "campaign": "shop/a", "scores": [0.5]}
FOREIGN = {**QUESTION, "campaign": "rival/a"}


class Keys:
    """Makes keys in the store, and the headers to call with."""

    def __init__(self, url):
        self.url = url

    def __call__(self, *scopes, **given):
        with open_redis(self.url) as client:
            self.key, self.token = KeyStore(client).make(frozenset(map(Scope, scopes)), **given)
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
def keys(redis_url):
    return Keys(redis_url)


@pytest.fixture
def admin(keys):
    """Makes the first key: none of the services below is open to anybody."""
    return keys("admin")


@pytest.fixture
def closed(admin, settings, redis_url):
    with serving(settings, redis_url) as running:
        yield running


@pytest.fixture
def known(closed, keys):
    """The same once the service knows the key."""

    def make(*scopes, **given):
        headers = keys(*scopes, **given)
        closed.know_keys()
        return headers

    return make


def operations(service, headers):
    """Method, path and scope of every documented route but health."""
    paths = service.http.get("/openapi.json", headers=headers).json()["paths"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            if path not in HEALTH:
                (security,) = operation["security"]
                yield method.upper(), re.sub(r"\{\w+\}", "x", path), security["key"][0], operation


def kind(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_every_route_but_health_asks_for_a_key_with_its_scope(closed, known):
    reader = known("read")
    others = {one: [s.value for s in Scope if s.value != one] for one in map(str, Scope)}
    others["read"].remove("admin")  # which includes it
    lacks = {one: known(*scopes) for one, scopes in others.items()}
    walked = list(operations(closed, reader))

    for method, path, scope, operation in walked:
        for headers in ({}, {"Authorization": "Bearer sir_x_y"}, {"Authorization": "Basic eA=="}):
            answer = closed.http.request(method, path, headers=headers)
            assert kind(answer) == (401, "no-valid-key"), path
            assert answer.headers["www-authenticate"] == 'Bearer realm="sirocco"'
        answer = closed.http.request(method, path, headers=lacks[scope])
        assert kind(answer) == (403, "missing-scope"), path
        assert answer.json()["scope"] == scope
        assert {"401", "403", "429"} <= operation["responses"].keys()
    assert {scope for _, _, scope, _ in walked} == set(map(str, Scope))
    assert len(walked) > 20


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/calibrate", {**QUESTION, "scores": [0.5] * 70_000}), ("/v1/events", [{}] * 20_000)],
)
def test_a_large_body_asks_for_a_key_as_a_small_one_does(closed, known, path, body):
    """It goes another way."""
    answers = [closed.http.post(path, json=body, headers=given) for given in ({}, known("read"))]

    assert list(map(kind, answers)) == [(401, "no-valid-key"), (403, "missing-scope")]


def test_what_is_not_documented_asks_for_a_key_too(closed):
    for path in ("/docs", "/openapi.json", "/nothing", "/v1/adminx", "/metrics/"):
        assert closed.http.get(path).status_code == 401, path
    assert closed.http.get("/v1/calibrate").status_code == 401
    free = {*HEALTH, "/", "/page/page.js"}
    assert {closed.http.get(path).status_code for path in free} == {200}


def test_a_key_opens_what_its_scopes_name(closed, known):
    headers = known("calibrate", "ingest", "read")
    event = {"type": "impression", "campaign": "a", "scores": {"click": 0.5}}
    event["occurred_at"] = time.time()

    assert closed.http.get("/metrics", headers=headers).status_code == 200
    assert closed.http.post("/v1/calibrate", json=QUESTION, headers=headers).status_code == 200
    assert closed.http.post("/v1/events", json=[event], headers=headers).json()["accepted"] == 1
    headers["Authorization"] = headers["Authorization"].replace("Bearer", "bearer ")
    assert closed.http.post("/v1/calibrate", json=QUESTION, headers=headers).status_code == 200


def test_the_first_key_closes_the_door_behind_it(service):
    refused = service.http.post("/v1/admin/keys", json={"scopes": ["read"]})
    assert kind(refused) == (409, "key-conflict")
    assert service.http.post("/v1/calibrate", json=QUESTION).status_code == 200

    made = service.http.post("/v1/admin/keys", json={"scopes": ["admin"], "name": "ops"})

    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    assert service.http.post("/v1/calibrate", json=QUESTION).status_code == 401
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    (listed,) = service.http.get("/v1/admin/keys", headers=headers).json()["keys"]
    assert listed == made.json()["key"]


@pytest.fixture
def remembered(closed, known):
    """The status of a question with a key that was answered before."""
    headers = known("calibrate")
    ask = lambda: closed.http.post("/v1/calibrate", json=QUESTION, headers=headers).status_code  # noqa: E731
    assert ask() == 200
    return ask


def test_a_revoked_key_is_refused_though_it_was_remembered(closed, remembered, keys, admin):
    assert closed.http.post(f"/v1/admin/keys/{keys.key.id}/revoke", headers=admin).is_success

    assert remembered() == 401


@pytest.mark.slow
def test_another_process_hears_of_it(closed, remembered, keys):
    KeyStore(closed.store).revoke(keys.key.id)

    eventually(lambda: remembered() == 401)


def test_rotation_and_expiry_by_routes(closed, keys, admin):
    keys("calibrate", name="bidder")
    path = f"/v1/admin/keys/{keys.key.id}"
    rotated = closed.http.post(f"{path}/rotate", headers=admin)
    refused = closed.http.post(f"{path}/rotate", json={"grace_seconds": -1}, headers=admin)
    ended = closed.http.post(f"{path}/expire", json={"at": time.time()}, headers=admin)
    unknown = closed.http.post("/v1/admin/keys/x/revoke", headers=admin)
    wrong = closed.http.post("/v1/admin/keys", json={"scopes": ["root"]}, headers=admin)
    endless = {"scopes": ["read"], "expires_at": 1_893_456_000_000}
    late = closed.http.post("/v1/admin/keys", json=endless, headers=admin)
    past = closed.http.post("/v1/admin/keys", json={**endless, "expires_at": 0}, headers=admin)
    later = closed.http.post(f"{path}/expire", json={"at": 1e13}, headers=admin)
    named = {"scopes": ["read"], "name": "n" * 9_000}
    long = closed.http.post("/v1/admin/keys", json=named, headers=admin)
    audit = closed.http.get("/v1/admin/audit", headers=admin).json()["entries"]

    assert rotated.status_code == 201
    assert rotated.json()["key"]["replaces"] == keys.key.id
    assert kind(refused) == (422, "broken-rule")
    assert ended.json()["standing"] == "expired"
    assert kind(unknown) == (404, "not-found")
    assert wrong.json()["field"] == "scopes[0]"
    assert [each.json()["field"] for each in (late, later, long)] == ["expires_at", "at", "name"]
    assert past.json()["detail"].startswith("expires_at = 0")
    assert max(len(entry["target"]) for entry in audit) == 101


def test_when_a_key_ends_is_a_gauge(closed, keys, admin):
    keys("calibrate", expires_at=time.time() + 3600)
    shown = 'sirocco_key_seconds_left{scope="calibrate"} 35'

    eventually(lambda: shown in closed.http.get("/metrics", headers=admin).text)


def test_a_bound_key_sees_its_own_campaigns_alone(closed, known):
    names = ["rival/a", "shop/a", "shop/b"]
    maps = {name: CalibrationMap.proportional(0.5) for name in names}
    headers = known("calibrate", "ingest", "read", campaigns=("shop/",))
    closed.publish({"click": Atlas.build(maps)})

    def answer(method, path, **given):
        return closed.http.request(method, path, headers=headers, **given)

    assert answer("POST", "/v1/calibrate", json=QUESTION).json()["probabilities"] == [0.25]
    assert kind(answer("POST", "/v1/calibrate", json=FOREIGN)) == (404, "not-found")
    listed = answer("GET", "/v1/campaigns").json()
    assert [row["campaign"] for row in listed["campaigns"]] == ["shop/a", "shop/b"]
    assert listed["total"] == 2
    assert answer("GET", "/v1/maps/click/shop/a").status_code == 200
    of_all = ("/v1/atlas/click", "/v1/atlas/click/ids", "/metrics")
    refused = [
        answer("GET", path)
        for path in (
            "/v1/campaigns/rival/a",
            "/v1/campaigns/rival/none",
            "/v1/maps/click/rival/a",
            *of_all,
        )
    ]
    assert {kind(one) for one in refused} == {(404, "not-found")}
    assert refused[0].json()["detail"] == refused[1].json()["detail"]


def test_no_route_shows_a_bound_key_the_campaigns_of_others(closed, known):
    """Whatever routes there are, and will be."""
    headers, free = known("read", campaigns=("shop/",)), known("read")
    row = {"campaign": "rival/a", "decision": "kept", "impressions": 1}
    maps = {"rival/a": CalibrationMap.proportional(0.5)}
    closed.http.headers.update(free)
    closed.publish({"click": Atlas.build(maps)}, {"targets": {"click": {"top": [row]}}})
    shown = {}

    for method, path, scope, operation in operations(closed, free):
        if scope == "read":
            full = path.replace("/x/x", "/click/rival/a").replace("/x", "/rival/a")
            full = full.replace("/atlas/rival/a", "/atlas/click")
            both = [closed.http.request(method, full, headers=given) for given in (free, headers)]
            shown[full] = [b"rival" in answer.content for answer in both]
            assert str(both[1].status_code) in operation["responses"], full

    assert len(shown) == 16
    assert not any(bound for _, bound in shown.values()), shown
    nobody = {path for path, (unbound, _) in shown.items() if not unbound}
    experiments = {"/v1/experiments", "/v1/experiments/rival/a/analysis"}
    sums = {"/v1/products", "/v1/fields", *experiments}
    versions = {"/v1/admin/versions", "/v1/admin/versions/rival/a/diff"}
    jobs = {"/v1/admin/jobs", "/v1/admin/jobs/rival/a"}
    assert nobody == {"/metrics", "/v1/status", *sums, *versions, *jobs}


def test_a_bound_key_sees_its_own_campaigns_alone_in_columns(closed, known):
    names = ["rival/a", "shop/a"]
    headers = known("calibrate", "ingest", campaigns=("shop/",))
    columns = {**headers, "Content-Type": "application/vnd.sirocco.columns"}
    ask = lambda path, body: closed.http.post(path, content=body, headers=columns).status_code  # noqa: E731
    atlas = Atlas.build({name: CalibrationMap.proportional(0.5) for name in names})
    closed.publish({"click": atlas})
    ids = closed.app.state.resources.refresher.current.ids["click"].dictionary
    interned = lambda ids_of: bodies.scores_body([0.5] * 2, campaigns=ids_of, dictionary=ids)  # noqa: E731
    clicks = lambda click_id: bodies.clicks_body(  # noqa: E731
        [0.5], [time.time()], [time.time()], [click_id], campaigns=["shop/a"]
    )

    assert ask("/v1/calibrate", bodies.scores_body([0.5], campaigns=["shop/a"])) == 200
    assert ask("/v1/calibrate", bodies.scores_body([0.5], campaigns=["rival/a"])) == 404
    assert ask("/v1/calibrate", interned([2, 0])) == 200
    assert ask("/v1/calibrate", interned([2, 1])) == 404
    assert ask("/v1/events", clicks("shop/1")) == 200
    assert ask("/v1/events", clicks("rival/1")) == 404
    for nameless in ({"campaigns": [2, 0], "dictionary": ids}, {"campaigns": ["shop/a", ""]}):
        body = bodies.impressions_body([0.5] * 2, [time.time()] * 2, **nameless)
        stored = closed.http.post("/v1/events", content=body, headers=columns).json()
        assert (stored["accepted"], stored["rejected"][0]["index"]) == (1, 1)


def events(campaign, click_id):
    now = time.time()
    shown = {"campaign": campaign, "scores": {"click": 0.5}, "occurred_at": now}
    return [
        {"type": "impression", **shown},
        {"type": "click", **shown, "click_id": click_id, "impression_at": now},
        {"type": "behaviour", "click_id": click_id, "name": "page_views", "value": 1,
         "occurred_at": now},
        {"type": "conversion", "click_id": click_id, "occurred_at": now},
        {"type": "outcome", "campaign": campaign, "target": "click", "score": 0.5, "outcome": 1,
         "occurred_at": now},
    ]  # fmt: skip


def test_a_bound_key_stores_nothing_of_others(closed, known):
    """What names a click alone is known by the click's id, which begins as the campaigns do."""
    headers = known("ingest", campaigns=("shop/",))
    send = lambda some: closed.http.post("/v1/events", json=some, headers=headers)  # noqa: E731
    assert send(events("shop/a", "shop/1")).status_code == 200
    stored = closed.stored_keys

    for event in [*events("rival/a", "rival/1"), events("shop/a", "rival/1")[1]]:
        assert kind(send([*events("shop/b", "shop/2"), event])) == (404, "not-found")
    assert closed.stored_keys == stored


@pytest.mark.parametrize("shared", [(), ("common/",)], ids=["of tenants", "of a shared prefix"])
def test_keys_do_not_share_idempotency_keys(closed, known, shared):
    for name in ("shop", "rival"):
        headers = known("ingest", campaigns=(*shared, f"{name}/")) | {"Idempotency-Key": "1"}
        sent = events(f"{name}/a", f"{name}/1")[:1]
        assert closed.http.post("/v1/events", json=sent, headers=headers).json()["accepted"] == 1


def test_a_refused_campaign_is_named_as_it_was_sent(closed, known):
    headers = known("calibrate", campaigns=("shop/",))
    columns = {"target": "click", "scores": [0.1, 0.2]}
    rows = [
        {"target": target, "campaign": name, "score": 0.1}
        for target, name in (("click", "shop/a"), ("conversion", "shop/a"), ("click", "rival/a"))
    ]
    for asked, field in (
        ({**columns, "campaigns": ["shop/a", "rival/a"]}, "campaigns[1]"),
        ({**columns, "campaign": "rival/a"}, "campaign"),
        ({"rows": rows}, "rows[2].campaign"),
    ):
        answer = closed.http.post("/v1/calibrate", json=asked, headers=headers)
        assert answer.json()["detail"] == f"{field}: unknown campaign"


def test_a_bound_key_reads_no_counts_of_all_campaigns(closed, admin, known):
    closed.publish({"click": Atlas.empty()}, {"targets": {"click": {"guard": {"passed": 9}}}})
    bound, free = known("read", campaigns=("shop/",)), known("read")
    ask = lambda headers: closed.http.get("/v1/campaigns", headers=headers)  # noqa: E731

    assert ask(free).json()["guard"] == {"passed": 9}
    assert ask(bound).json()["guard"] is None
    by_evidence = "/v1/campaigns?sort=evidence"
    found = [closed.http.get(by_evidence, headers=one).json()["bound"] for one in (free, bound)]
    assert found == [bound_of(0), None]


def test_the_longest_idempotency_key_may_be_of_a_bound_key(closed, known):
    headers = {**known("ingest", campaigns=("shop/",)), "Idempotency-Key": "k" * 255}
    sent = events("shop/a", "shop/1")[:1]
    told = [closed.http.post("/v1/events", json=sent, headers=headers).json() for _ in range(2)]
    assert [one["duplicates"] for one in told] == [0, 1]


@pytest.mark.slow
def test_a_limited_key_is_told_and_held_to_it(closed, known):
    headers = known("calibrate", "read", rate_limit=1)
    ask = lambda: closed.http.post("/v1/calibrate", json=QUESTION, headers=headers)  # noqa: E731
    refused = next(one for one in iter(ask, None) if one.status_code == 429)
    assert kind(refused) == (429, "rate-limited")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit"].startswith('"key";r=0;t=')
    taken = next(one for one in iter(ask, None) if one.status_code == 200)
    assert taken.headers["ratelimit-policy"] == '"key";q=1;w=1'
    assert "ratelimit" in closed.http.get("/v1/campaigns", headers=headers).headers


def test_a_limited_key_is_told_what_is_left_when_it_is_refused_too(closed, known):
    headers, found = known("read", campaigns=("shop/",), rate_limit=99), {}
    for path in ("/v1/atlas/click", "/v1/maps/click/rival/a", "/v1/admin/keys"):
        answer = closed.http.get(path, headers=headers)
        found[path.split("/")[2]] = answer.status_code
        assert answer.headers.get_list("ratelimit-policy") == ['"key";q=99;w=1']

    assert found == {"atlas": 404, "maps": 404, "admin": 403}


def test_a_packed_body_counts_once(settings, redis_url, keys):
    """It is met a second time, in a thread."""
    headers = keys("calibrate", rate_limit=1)
    headers["Content-Encoding"] = "gzip"
    body = gzip.compress(json.dumps(QUESTION).encode())
    with serving(settings, redis_url) as running:
        assert running.http.post("/v1/calibrate", content=body, headers=headers).is_success


def test_admin_routes_have_a_port_of_their_own(settings, redis_url, admin):
    port = reserved_port()
    given = settings.model_copy(update={"admin_port": port})
    with serving(given, redis_url) as running:
        path = f"http://127.0.0.1:{port}/v1/admin/keys"
        on_main = running.http.get("/v1/admin/keys", headers=admin)

        assert kind(on_main) == (404, "not-found")
        assert httpx.get(path, headers=admin, **LOOPBACK).status_code == 200
        assert httpx.get(path, **LOOPBACK).status_code == 401
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", **LOOPBACK).status_code == 200


def test_the_store_may_be_away_when_a_process_starts(settings, redis_url, keys, tmp_path):
    """Its keys come from the disk of the host."""
    headers = keys("calibrate")
    kept = settings.model_copy(update={"snapshot_dir": tmp_path})
    with serving(kept, redis_url) as running:
        assert running.http.post("/v1/calibrate", json=QUESTION, headers=headers).is_success

    # The same kind of store at an address where there is none.
    with serving(kept, "unix:///nowhere") as running:
        assert running.http.post("/v1/calibrate", json=QUESTION, headers=headers).is_success
        assert running.http.post("/v1/calibrate", json=QUESTION).status_code == 401


def test_admins_are_in_the_audit_log(closed, admin, atlas):
    closed.publish({"click": atlas})
    put = closed.http.put(
        "/v1/admin/overrides/click/hats",
        json={"calibrator": "sir"},
        headers={**admin, "X-Request-Id": "deploy-7"},
    )
    closed.http.put(
        "/v1/admin/overrides/click/hats", params={"retrain": True}, json={"calibrator": "pooled"},
        headers={**admin, "X-Request-Id": "not sane"},
    )  # fmt: skip
    closed.http.delete("/v1/admin/overrides/click/hats", headers=admin)
    closed.http.post("/v1/admin/retrain", json={"target": "click"}, headers=admin)
    closed.http.post("/v1/admin/pccem/train", headers=admin)
    closed.http.post("/v1/admin/keys", json={"scopes": ["read"]}, headers=admin)
    closed.http.post("/v1/admin/keys/none/revoke", headers=admin)

    found = closed.http.get("/v1/admin/audit", params={"limit": 100}, headers=admin).json()
    told = [(e["what"], e["target"], e["before"], e["after"]) for e in reversed(found["entries"])]

    assert put.headers["x-request-id"] == "deploy-7"
    assert told[:3] == [
        ("set-override", "click:hats", None, "sir"),
        ("set-override", "click:hats", "sir", "pooled"),
        ("retrain", "click", None, {"target": "click", "campaigns": ["hats"]}),
    ]
    assert [row[0] for row in told[3:]] == ["delete-override", "retrain", "train", "make-key"]
    assert {e["who"] for e in found["entries"]} == {admin_id(admin)}
    assert found["entries"][-1]["request_id"] == "deploy-7"
    assert re.fullmatch("[0-9a-f]{16}", found["entries"][-2]["request_id"])
    verified = closed.http.get("/v1/admin/audit/verify", headers=admin).json()
    assert verified == {"entries": 7, "wrong": None}


def admin_id(headers):
    return headers["Authorization"].split("_")[1]


def test_decisions_on_held_versions_are_in_the_audit_log(closed, admin, monkeypatch):
    held = {"version": "000007-ab", "reasons": {"click": "empty"}}
    monkeypatch.setattr(type(closed.app.state.resources.versions), "held", lambda _: held)
    for decision in ("approve", "reject"):
        closed.http.post(f"/v1/admin/versions/000007-ab/{decision}", headers=admin)

    entries = closed.http.get("/v1/admin/audit", headers=admin).json()["entries"]
    assert [entry["what"] for entry in entries] == ["reject", "approve"]
    assert {entry["target"] for entry in entries} == {"000007-ab"}
    assert entries[0]["before"] == held


def test_no_change_is_made_that_cannot_be_recorded(settings, redis_url, tmp_path):
    with serving(settings.model_copy(update={"audit_log": tmp_path}), redis_url) as running:
        refused = running.http.put("/v1/admin/overrides/click/hats", json={"calibrator": "sir"})
        overrides = running.http.get("/v1/admin/overrides").json()["total"]

    assert kind(refused) == (503, "audit-unwritable")
    assert overrides == 0


def test_no_secret_is_told(settings, redis_url, caplog, tmp_path):
    """Neither in logs nor in errors, OpenAPI, the audit log, nor what is stored."""
    caplog.set_level(logging.DEBUG)
    secrets = {"bootstrap_admin_key": BOOTSTRAP, "audit_log": str(tmp_path / "audit.jsonl")}
    given = type(settings)(**{**settings.model_dump(), **secrets})
    with serving(given, redis_url) as running:
        admin = {"Authorization": f"Bearer {BOOTSTRAP}"}
        made = running.http.post("/v1/admin/keys", json={"scopes": ["read"]}, headers=admin)
        token = made.json()["token"]
        answers = [
            running.http.get(path, headers={"Authorization": f"Bearer {given_key}"})
            for given_key in (token, token + "x", BOOTSTRAP)
            for path in ("/openapi.json", "/v1/admin/keys", "/v1/admin/audit", "/metrics", "/x")
        ]
        stored = [running.store.dump(name) for name in running.store.keys("*")]
    told = [
        repr(given), caplog.text, (tmp_path / "audit.jsonl").read_text(),
        *(answer.text + str(answer.headers) for answer in answers), *map(str, stored),
    ]  # fmt: skip

    secret = token.split("_", 2)[2]
    assert not [text for text in told if secret in text or BOOTSTRAP in text]
