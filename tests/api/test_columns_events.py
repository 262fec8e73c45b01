"""`POST /v1/events` in binary columns: stores the same, and refuses the same, as in JSON."""

import json
import math
import time

import pytest

from app.storage.bins import BinsStore
from app.storage.keys import BREAKDOWNS
from calibrators import Atlas, CalibrationMap
from tests.api.conftest import alone
from tests.api.events import HOUR_SECONDS, NONE_REJECTED
from tests.api.problems import problem
from tests.api.running_service import serving
from tests.columns.bodies import (
    IMPRESSIONS,
    ONE_CAMPAIGN,
    clicks_body,
    impressions_body,
    numbers,
    outcomes_body,
    texts,
)
from tests.columns.bodies import body as raw_body
from tests.columns.both_forms import KINDS, Form, Row, each_wrong, in_columns, in_json
from tests.storage.contents import damaged_blocks

PATH = "/v1/events"
COLUMNS = "application/vnd.sirocco.columns"
HALF = CalibrationMap.proportional(0.5)
AS_OF = 1_700_000_000.0 // HOUR_SECONDS * HOUR_SECONDS


@pytest.fixture(scope="module")
def counting(settings):
    """A service at the events' clock, whose version says where the open times begin."""
    with alone(settings, clock="event", targets=("click", "view")) as service:
        service.publish({}, as_of=AS_OF)
        yield service


def post(service, body):
    return service.http.post(PATH, content=body, headers={"Content-Type": COLUMNS})


def post_json(service, sent):
    # `json` writes NaN and Infinity as strangers do.
    return service.http.post(PATH, content=json.dumps(sent))


def stored(service, targets=("click", "view")):
    """Everything that is stored, as it adds up, and forgotten then."""
    store = BinsStore(service.store, service.settings.ttl_seconds)
    store.fold()
    tables = {
        (target, hour): store.hour(target, hour).to_bytes()
        for target in targets
        for hour in store.hours(target)
    }
    assert damaged_blocks(store) == 0
    # Sums by arm, by unit and of money stand beside the bins.
    beside = {
        key: service.store.hmget(key, BREAKDOWNS)
        for key in service.store.scan_iter("sirocco:{[0-9]*:bins:*")
    }
    for key in service.store.scan_iter("sirocco:{[0-9]*"):
        service.store.delete(key)
    return tables, beside


def check_same(service, body, sent):
    """Answer and store are the same for both bodies, to the last bit."""
    in_columns, tables = post(service, body), stored(service)
    in_json, expected = post_json(service, sent), stored(service)

    assert (in_columns.status_code, in_columns.json()) == (in_json.status_code, in_json.json())
    assert tables == expected


def impressions_of(rows):
    return [
        {"type": "impression", "campaign": name, "occurred_at": at, "scores": {"click": score}}
        for name, score, at in rows
    ]


GOOD = Row("shoes", 0.5, AS_OF, AS_OF, "1", "ann", 1, 1.0, 2.0, 3.0)
WRONG = {
    "campaign": ["", "hats"],
    "score": [math.nan, 1.5],
    "occurred_at": [0.0, math.inf],
    "other": [-math.inf, 1e308],
    "arm": [3],
    "value": [-1.0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeats", [1, 10])
def test_events_are_stored_and_refused_as_in_json(counting, kind, repeats):
    """With ids, units and money; few, and as many as are admitted at once."""
    good = GOOD._replace(other=0.25) if kind == "outcome" else GOOD
    rows = [*each_wrong(good, **WRONG), good._replace(event_id="2")] * repeats

    check_same(counting, in_columns(Form(kind), rows), in_json(Form(kind), rows))


@pytest.mark.parametrize("target", ["view", "conversion", "other"])
def test_outcomes_of_other_targets_are_counted_as_in_json(counting, target):
    """Of delayed and unknown targets none is, for the same reason."""
    form, rows = (
        Form("outcome", units=False, money=False, target=target),
        [GOOD._replace(other=1.0)] * 50,
    )

    check_same(counting, in_columns(form, rows), in_json(form, rows))


def test_names_that_stand_twice_are_one_campaign(counting):
    """A caller may send a name for each row, and number them."""
    rows = [("shoes", 0.5, AS_OF), ("hats", 0.25, AS_OF), ("shoes", 0.75, AS_OF)]
    body = bytearray(
        impressions_body([0.5, 0.25, 0.75], [AS_OF] * 3, campaigns=["shoes", "hats!", "shoe!"])
    )
    place = body.index(b"shoeshats!shoe!")
    body[place : place + 15] = b"shoeshats!shoes"
    rows[1] = ("hats!", *rows[1][1:])

    check_same(counting, bytes(body), impressions_of(rows))


def test_without_immediate_clicks_impressions_are_refused_as_in_json(settings, redis_url):
    """Where the target `click` is delayed."""
    no_clicks = settings.model_copy(update={"targets": ("view",), "clock": "event"})
    rows = [("shoes", 0.5, AS_OF)] * 50
    with serving(no_clicks, redis_url) as service:
        check_same(
            service,
            impressions_body([0.5] * 50, [AS_OF] * 50, campaigns=["shoes"] * 50),
            impressions_of(rows),
        )


def test_interned_campaigns_are_stored_by_name(service, atlas):
    service.publish({"click": atlas})
    dictionary = service.ids()[0]
    now = time.time()
    body = impressions_body([0.25, 0.5, 0.5], [now] * 3, campaigns=[2, 1, 2], dictionary=dictionary)

    answer = post(service, body).json()

    table = service.bins("click", int(now // HOUR_SECONDS))
    assert answer == {"accepted": 3, "duplicates": 0, **NONE_REJECTED}
    assert {name: bins.total_count for name, bins in table} == {"shoes": 2, "hats": 1}


def test_interned_campaigns_of_a_former_list_are_stored_by_name(service, atlas):
    """Also one that lost its map meanwhile."""
    service.publish({"click": atlas})
    dictionary = service.ids()[0]
    service.publish({})
    now = time.time()
    body = impressions_body([0.5], [now], campaigns=[1], dictionary=dictionary, flags=ONE_CAMPAIGN)

    assert post(service, body).json()["accepted"] == 1
    assert service.bins("click", int(now // HOUR_SECONDS)).campaigns == ("hats",)


def test_ids_of_no_campaign_are_refused(service):
    """0, and those of the maps that serve new campaigns of a version; their neighbours count."""
    service.publish({"click": Atlas.build(dict.fromkeys(("\x1ev2", "hats"), HALF))})
    now, dictionary = time.time(), service.ids()[0]
    body = impressions_body([0.5] * 3, [now] * 3, campaigns=[1, 0, 2], dictionary=dictionary)

    answer = post(service, body).json()

    assert answer["accepted"] == 1
    assert [rejected["index"] for rejected in answer["rejected"]] == [0, 1]
    errors = {rejected["error"] for rejected in answer["rejected"]}
    assert errors == {
        "campaign: must be the id of one; 0 and empty names stand for any without a map of its own"
    }


@pytest.mark.parametrize(
    ("more", "status", "slug"),
    [
        ({"announced": {"version": 9}}, 415, "unsupported-columns-version"),
        ({"campaigns": [1], "dictionary": 1}, 409, "unknown-dictionary"),
        ({"announced": {"rows": 50_001}}, 413, "too-many-events"),
        ({"announced": {"rows": 0}}, 422, "broken-rule"),
        ({"announced": {"magic": b"JSON"}}, 422, "broken-rule"),
    ],
)
def test_a_body_that_cannot_be_is_refused_whole(refusing, more, status, slug):
    body = impressions_body([0.5], [AS_OF], **{"campaigns": ["a"], **more})

    problem(post(refusing, body), status, slug)


def test_an_id_beyond_the_list_refuses_the_request(refusing):
    dictionary = refusing.ids()[0]

    answer = post(refusing, impressions_body([0.5], [AS_OF], campaigns=[1], dictionary=dictionary))

    assert problem(answer, 422, "broken-rule")["field"] == "campaigns[0]"


def test_outcomes_of_an_unknown_target_have_no_ids(refusing):
    answer = post(
        refusing, outcomes_body([0.5], [AS_OF], [1.0], campaigns=[0], dictionary=1, target="other")
    )

    assert problem(answer, 422, "broken-rule")["field"] == "target"


def test_future_events_of_columns_are_rejected_by_the_wall_clock(service):
    now = time.time()
    body = impressions_body([0.5, 0.5], [now + 3600, now], campaigns=["a", "a"])

    answer = post(service, body).json()

    assert answer["accepted"] == 1
    (rejected,) = answer["rejected"]
    assert rejected["index"] == 0
    assert rejected["error"].startswith(f"occurred_at = {now + 3600}: future, after ")


def test_events_of_columns_are_counted_by_type_and_result(service):
    now = time.time()
    scores = [0.5] * 49 + [1.5]

    post(service, impressions_body(scores, [now] * 50, campaigns=["a"] * 50))
    post(service, outcomes_body(scores, [now] * 50, [1.0] * 50, campaigns=["a"] * 50))

    for event_type in ("impression", "outcome"):
        counted = service.metrics("sirocco_events_total")
        results = {
            dict(labels)["result"]: number
            for labels, number in counted.items()
            if dict(labels)["type"] == event_type and number
        }
        assert results == {"accepted": 49, "invalid": 1}


def test_a_large_request_is_stored_whole(counting):
    """Off the event loop, over all shards and several hours."""
    number = 6_000
    names = [f"campaign-{row % 500}" for row in range(number)]
    times = [AS_OF - row % 3 * HOUR_SECONDS for row in range(number)]
    scores = [row / number for row in range(number)]

    check_same(
        counting,
        impressions_body(scores, times, campaigns=names),
        impressions_of(list(zip(names, scores, times, strict=True))),
    )


def test_a_click_of_a_version_owns_its_id_as_in_json(service):
    """By the campaign alone: the same click in the other form is a repeat."""
    at = time.time()
    click = {"type": "click", "click_id": "c", "campaign": "a", "occurred_at": at}
    as_json = {**click, "impression_at": at - 1, "scores": {"click": 0.1}, "model_version": "v2"}
    body = clicks_body([0.1], [at], [at - 1], ["c"], campaigns=["a\x1ev2"])

    first, again = post(service, body).json(), service.http.post(PATH, json=[as_json]).json()

    assert (first["accepted"], again["duplicates"], again["rejected_total"]) == (1, 1, 0)


def test_one_campaign_may_be_any_of_the_names(counting):
    """The second here."""
    sections = texts(["hats", "shoes"]) + numbers("I", [1])
    sections += numbers("d", [0.25, 0.5]) + numbers("d", [AS_OF, AS_OF])
    announced = {"names": 2, "names_bytes": 9}

    body = raw_body(IMPRESSIONS, 2, sections, flags=ONE_CAMPAIGN, announced=announced)

    check_same(counting, body, impressions_of([("shoes", 0.25, AS_OF), ("shoes", 0.5, AS_OF)]))
