"""Calibrators of single campaigns: set, listed page by page, and taken back."""

import time

import pytest

from app.api.admin import next_refit_at
from app.settings import Settings
from app.storage.jobs import Jobs
from app.storage.overrides import MOST, Overrides
from calibrators.registry import METHODS
from tests.api.problems import broken_rule, problem
from tests.api.running_service import serving

PATH = "/v1/admin/overrides"
HOUR = 3600.0
BY_EVENTS = Settings(clock="event")


@pytest.fixture
def own(lasting):
    """A service without any."""
    lasting.store.delete("sirocco:{maps}:overrides")
    return lasting


@pytest.mark.parametrize("calibrator", METHODS)
def test_a_campaign_gets_a_calibrator_of_its_own(own, calibrator):
    before = time.time()

    answer = own.http.put(f"{PATH}/click/shoes", json={"calibrator": calibrator})

    content = answer.json()
    assert answer.status_code == 200
    assert before < content.pop("next_refit_at") <= time.time() + HOUR + 120
    assert content == {"target": "click", "campaign": "shoes", "calibrator": calibrator}
    assert Overrides(own.store).read() == {"click": {"shoes": calibrator}}


@pytest.mark.parametrize("campaign", ["a/b", "a%20b%3F", "%2F", "click:a", "ä", "c" * 256])
def test_any_campaign_can_have_one(own, campaign):
    path = f"{PATH}/conversion/{campaign}"
    name = own.http.put(path, json={"calibrator": "sir"}).json()["campaign"]

    listed = own.http.get(PATH, params={"target": "conversion"}).json()["overrides"]
    gone = own.http.delete(path)

    assert listed == [{"campaign": name, "calibrator": "sir"}]
    assert gone.json()["calibrator"] == own.settings.calibrator_of("conversion")
    assert Overrides(own.store).read() == {}


def test_a_deleted_one_leaves_the_campaign_to_its_target(redis_url):
    settings = Settings(port=0, calibrator="pooled", target_calibrators={"click": "platt"})
    with serving(settings, redis_url) as service:
        service.http.put(f"{PATH}/click/shoes", json={"calibrator": "sir"})

        answer = service.http.delete(f"{PATH}/click/shoes")

    assert answer.status_code == 200
    assert answer.json()["calibrator"] == "platt"
    assert answer.json()["next_refit_at"] > time.time()


@pytest.mark.parametrize("path", ["click/hats", "click:shoes/x", "view/shoes"])
def test_what_does_not_exist_cannot_be_deleted(own, path):
    """A colon of a target must not reach another campaign's."""
    stored = Overrides(own.store)
    stored.put("click", "shoes:x/x", "sir")

    content = problem(own.http.delete(f"{PATH}/{path}"), 404, "not-found")

    assert content["detail"].endswith("has no calibrator of its own")
    assert stored.read() == {"click": {"shoes:x/x": "sir"}}


def test_those_of_a_former_target_can_be_found_and_deleted(own):
    Overrides(own.store).put("view", "shoes", "sir")

    listed = own.http.get(PATH, params={"target": "view"}).json()
    answer = own.http.delete(f"{PATH}/view/shoes").json()

    assert listed["overrides"] == [{"campaign": "shoes", "calibrator": "sir"}]
    assert (answer["calibrator"], answer["next_refit_at"]) == (None, None)
    assert Overrides(own.store).read() == {}


def test_a_refit_of_the_campaign_can_be_asked_for_at_once(service):
    path = f"{PATH}/click/shoes?retrain=true"
    answers = [service.http.put(path, json={"calibrator": "sir"}), service.http.delete(path)]

    job = Jobs(service.store).take(1.0)
    assert (job.kind, job.request) == ("retrain", {"target": "click", "campaigns": ["shoes"]})
    assert [answer.json()["job"]["id"] for answer in answers] == [job.id] * 2
    assert answers[0].json()["job"]["status"] == "queued"


def test_pages_hold_every_override_once(own):
    names = sorted({*"abc", "a/b", "a b?&=#", "ä", "%2F"})
    stored = Overrides(own.store)
    for name in names:
        stored.put("click", name, "sir")
    stored.put("conversion", "other", "platt")

    for limit in (1, 2, 5, 1000):
        found, after = [], ""
        while after is not None:
            page = own.http.get(PATH, params={"limit": limit, "after": after}).json()
            assert (page["target"], page["total"]) == ("click", len(names))
            assert page["targets"] == {"click": len(names), "conversion": 1}
            found += [row["campaign"] for row in page["overrides"]]
            after = page["next"]
        assert found == names


def test_without_any_the_list_is_empty(own):
    assert own.http.get(PATH).json() == {
        "target": "click",
        "total": 0,
        "targets": {},
        "overrides": [],
        "next": None,
    }


@pytest.mark.parametrize(
    ("path", "body", "field", "rule", "value"),
    [
        ("click/a", {}, "calibrator", "is required", None),
        ("click/a", {"calibrator": "nope"}, "calibrator", "must be one of pooled, ", '"nope"'),
        ("click/a", {"calibrator": "bbq"}, "calibrator", "must be one of pooled, ", '"bbq"'),
        ("click/a", {"calibrator": 7}, "calibrator", "must be one of pooled, ", "7"),
        ("click/a", {"calibrator": "sir", "x": 1}, "x", "unknown field", None),
        ("click/", {"calibrator": "sir"}, "campaign", "must have 1 to 256 bytes", '""'),
        ("click/" + "x" * 300, {"calibrator": "sir"}, "campaign", "1 to 256", f'"{"x" * 60}...'),
        ("click/a?retrain=x", {"calibrator": "sir"}, "retrain", "must be a valid boolean", '"x"'),
    ],
)
def test_every_broken_rule_is_named(refusing, path, body, field, rule, value):
    broken_rule(refusing.http.put(f"{PATH}/{path}", json=body), field, rule, value)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff"])
def test_what_is_no_json_is_refused(refusing, body):
    problem(refusing.http.put(f"{PATH}/click/a", content=body), 400, "malformed-json")


def test_a_body_without_an_object_is_refused(refusing):
    broken_rule(refusing.http.put(f"{PATH}/click/a", json=["sir"]), "body", "expected", '["sir"]')


@pytest.mark.parametrize("target", ["view", "click:a"])
def test_an_unknown_target_is_not_found(refusing, target):
    asked = refusing.http.put(f"{PATH}/{target}/a", json={"calibrator": "sir"})

    for answer in (asked, refusing.http.get(PATH, params={"target": target})):
        assert "known are click, conversion" in problem(answer, 404, "not-found")["detail"]


def test_there_cannot_be_too_many(own):
    rows = {f"click:{number}": "sir" for number in range(MOST)}
    own.store.hset("sirocco:{maps}:overrides", mapping=rows)

    refused = own.http.put(f"{PATH}/click/one-more", json={"calibrator": "sir"})
    changed = own.http.put(f"{PATH}/click/7", json={"calibrator": "platt"})

    assert "the most there may be" in problem(refused, 409, "too-many-overrides")["detail"]
    assert changed.status_code == 200
    assert own.http.get(PATH, params={"limit": 1}).json()["total"] == MOST


def test_without_the_store_nothing_is_acknowledged(redis_server):
    with serving(Settings(port=0, redis_timeout_seconds=0.1), "redis://127.0.0.1:1") as service:
        answers = [
            service.http.put(f"{PATH}/click/a", json={"calibrator": "sir"}),
            service.http.delete(f"{PATH}/click/a"),
            service.http.get(PATH),
        ]

    for answer in answers:
        problem(answer, 503, "store-unavailable")
        assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("given", "target", "now", "expected"),
    [
        ({}, "click", 0.0, 120.0),
        ({}, "click", 119.0, 120.0),
        ({}, "click", 120.0, HOUR + 120),
        ({}, "click", HOUR + 1, HOUR + 120),
        ({"refit_delay_seconds": 0}, "click", HOUR, 2 * HOUR),
        ({"refit_minutes": 15}, "click", 120.0, 900.0),
        ({"refit_minutes": 15}, "click", 2700.0, HOUR + 120),
        ({"refit_minutes": 1}, "click", 10.0, 60.0),
        ({"refit_minutes": 1}, "click", 3599.0, HOUR + 60),
        ({"refit_minutes": 15}, "conversion", 120.0, HOUR + 120),
    ],
)
def test_the_next_refit_is_that_of_the_schedule(given, target, now, expected):
    """Whole hours wait for their late events, for at most the time from refit to refit."""
    assert next_refit_at(Settings(**given), target, now) == expected


def test_by_the_events_clock_only_jobs_refit():
    assert next_refit_at(BY_EVENTS, "click", 0.0) is None
