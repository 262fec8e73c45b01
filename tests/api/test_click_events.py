"""`POST /v1/events` of clicks, behaviours and conversions: in any order, once, or refused."""

import json
import time

import pytest

from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClicks
from app.storage.conversions import ConversionLog
from tests.api.events import (
    HOUR_SECONDS,
    NONE_REJECTED,
    behaviour,
    conversion,
    delayed_click,
    lines,
)
from tests.api.problems import problem
from tests.api.running_service import serving

PATH = "/v1/events"


@pytest.fixture
def now() -> float:
    return float(int(time.time()))


def post(service, *events, **headers):
    answer = service.http.post(PATH, json=list(events), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def accepted(number, duplicates=0):
    return {"accepted": number, "duplicates": duplicates, **NONE_REJECTED}


def error(content):
    (rejected,) = content["rejected"]
    return rejected["error"]


def closed(service):
    return OpenClicks(service.store).begin_close(1e10, 100)


def conversions(service):
    log = ConversionLog(service.store)
    return [one for place in log.pending() for one in log.read(place)[1]]


def positives(service, now, campaign="shoes"):
    """Clicks in the bins of the hour."""
    table = service.bins("click", int(now // HOUR_SECONDS))
    return table.bins(campaign).positives.sum() / 1e9


@pytest.mark.parametrize("at_once", [False, True])
def test_events_of_a_click_may_come_before_it(service, now, at_once):
    """In any order and split: storage/test_clicks_exactly_once.py."""
    events = [
        conversion(now - 20, "1", value=99),
        behaviour(now - 30, "1", "session_seconds", 12.5),
        delayed_click(now - 60, "1", features={"age": 3, "os": "x"}),
    ]

    for request in [events] if at_once else [[event] for event in events]:
        assert post(service, *request) == accepted(len(request))

    (one,) = closed(service)
    assert (one.click_id, one.campaign, one.clicked_at) == ("1", "shoes", now - 60)
    assert one.scores == {"click": 0.25, "conversion": 0.125}
    assert one.features == {"age": 3.0, "os": "x"}
    assert one.behaviours == [("session_seconds", now - 30, 12.5)]
    assert conversions(service) == [StoredConversion("1", "conversion", now - 20, 99.0)]
    assert positives(service, now - 60) == 1


def test_a_feature_that_changes_type_is_refused(service, now):
    post(service, delayed_click(now, "1", features={"age": 3}))

    content = post(service, delayed_click(now, "2", features={"age": "3"}))

    assert error(content) == 'features.age = "3": must be a number, as it was in earlier clicks'
    assert len(closed(service)) == 1
    assert positives(service, now) == 1


def test_names_of_features_are_bounded(settings, redis_url, now):
    with serving(settings.model_copy(update={"max_features": 2}), redis_url) as service:
        post(service, delayed_click(now, "1", features={"a": 1, "b": 1}))

        content = post(service, delayed_click(now, "2", features={"c": 1}))

        rule = "a new name, and 2 are known already, the most there may be"
        assert error(content) == f"features.c = 1.0: {rule}"
        assert post(service, delayed_click(now, "2", features={"b": 1})) == accepted(1)


def test_the_waiting_room_is_bounded(settings, redis_url, now):
    with serving(settings.model_copy(update={"max_waiting": 1}), redis_url) as service:
        content = post(service, behaviour(now, "1"), behaviour(now, "2"), behaviour(now, "1"))

        assert (content["accepted"], content["duplicates"]) == (1, 1)
        assert error(content).startswith('click_id = "2": full, behaviours wait for 1 unknown')
        labels = (("result", "full"), ("type", "behaviour"))
        assert service.metrics("sirocco_events_total")[labels] == 1


def test_rejections_of_every_kind_come_in_the_order_of_the_request(service, now):
    events = [
        behaviour(now, "1", "speed"),
        delayed_click(now, "1", campaign="hats"),
        conversion(now - 90 * 24 * HOUR_SECONDS, "1"),
        behaviour(now - 1, "1"),
        behaviour(now + 9999, "1"),
        delayed_click(now, "1"),
    ]

    content = service.http.post(PATH, content=lines(*events)).json()

    assert content["accepted"] == 1
    assert [rejected["index"] for rejected in content["rejected"]] == [0, 2, 3, 4, 5]


def test_what_the_store_refuses_is_no_broken_request(service, now):
    """422 is for what breaks the schema, whatever the store knows."""
    post(service, delayed_click(now, "1"))

    assert post(service, delayed_click(now, "1", campaign="hats"))["accepted"] == 0


def test_by_the_events_clock_old_clicks_are_replayed(event_clock_service):
    service, at = event_clock_service, 1_600_000_000.0

    content = post(service, delayed_click(at, "1"), behaviour(at + 1, "1"), conversion(at + 9, "1"))

    assert content == accepted(3)
    assert closed(service)[0].behaviours == [("page_views", at + 1, 1.0)]


@pytest.mark.parametrize("click_id", ["\0", "%s", "é" * 256, 'a"b', "1:2", "{07}"])
def test_ids_may_hold_any_characters(service, now, click_id):
    events = [delayed_click(now, click_id), behaviour(now, click_id), conversion(now, click_id)]

    assert post(service, *events) == accepted(3)
    assert [one.click_id for one in closed(service)] == [click_id]


@pytest.mark.parametrize("as_lines", [False, True])
def test_half_a_surrogate_is_refused(refusing, now, as_lines):
    body = json.dumps(delayed_click(now, "X"), ensure_ascii=True).replace("X", "\\ud800")

    answer = refusing.http.post(PATH, content=body if as_lines else f"[{body}]")

    assert answer.status_code in (400, 422)
    problem(answer, answer.status_code, "broken-events" if as_lines else "malformed-json")
