"""`POST /v1/events`: what is accepted is stored, and adds up to the right bins."""

import gzip
import json
import time

import pytest

from tests.api.events import HOUR_SECONDS, NONE_REJECTED, click, impression, lines, outcome
from tests.api.problems import problem
from tests.api.running_service import serving

PATH = "/v1/events"
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def now() -> float:
    return time.time()


def hour_of(seconds: float) -> int:
    return int(seconds // HOUR_SECONDS)


def totals(service, target, hour, campaign="shoes"):
    """Count, positives and score of one campaign's hour."""
    bins = service.bins(target, hour).bins(campaign)
    return bins.total_count, bins.total_positives, pytest.approx(bins.total_score)


def accepted(number, duplicates=0):
    return {"accepted": number, "duplicates": duplicates, **NONE_REJECTED}


def test_an_impression_is_a_trial_and_its_click_a_success(service, now):
    """The click finds its impression's hour by `impression_at` and its cell by its score."""
    shown, clicked = now - HOUR_SECONDS, now
    events = [
        impression(shown, score=0.25, bid=1.5, cost=0, id="i1"),
        impression(shown, score=0.75),
        click(clicked, "i1", score=0.25, impression_at=shown, features={"age": 3, "os": "x"}),
    ]

    answer = service.http.post(PATH, json=events)

    assert (answer.status_code, answer.json()) == (200, accepted(3))
    assert answer.headers["content-type"] == "application/json"
    scores, outcomes, weights = service.bins("click", hour_of(shown)).bins("shoes").samples()
    assert scores == pytest.approx([0.25, 0.75])
    assert outcomes.tolist() == [1.0, 0.0]
    assert weights.tolist() == [1.0, 1.0]
    assert len(service.bins("click", hour_of(clicked))) == 0


@pytest.mark.parametrize("headers", [{}, NDJSON, {"Content-Type": "application/json"}])
def test_lines_of_objects_are_events_whatever_they_are_called(service, now, headers):
    """NDJSON is known by its media type or by not being an array; empty lines are none."""
    body = b"\n" + lines(impression(now), outcome(now)) + b"\r\n\n"

    assert service.http.post(PATH, content=body, headers=headers).json() == accepted(2)
    assert totals(service, "click", hour_of(now)) == (2, 1, 0.5)


def test_an_array_sent_as_lines_is_one_broken_line(refusing, now):
    """Who says NDJSON gets NDJSON: an array on a line is no event."""
    answer = refusing.http.post(PATH, content=json.dumps([impression(now)]), headers=NDJSON)

    content = problem(answer, 422, "broken-events")
    assert "expected object, got array" in content["rejected"][0]["error"]


@pytest.mark.parametrize("as_lines", [False, True])
def test_events_may_be_gzip(service, now, as_lines):
    events = [impression(now), outcome(now)]
    body = lines(*events) if as_lines else json.dumps(events).encode()
    headers = {"Content-Encoding": "gzip", **(NDJSON if as_lines else {})}

    answer = service.http.post(PATH, content=gzip.compress(body), headers=headers)

    assert answer.json() == accepted(2)
    assert totals(service, "click", hour_of(now)) == (2, 1, 0.5)


@pytest.mark.parametrize("as_lines", [False, True])
def test_good_events_are_stored_beside_bad_ones(service, now, as_lines):
    """The answer names the index and the reason of every rejected event, in order."""
    year = 365 * 24 * HOUR_SECONDS
    events = [
        impression(now, score=1.7),
        impression(now),
        impression(now - year),
        7,
        {**outcome(now), "target": "conversion"},
        click(now, ""),
        impression(now + year),
        outcome(now),
        impression(now, speed=9),
    ]
    body = lines(*events) if as_lines else json.dumps(events).encode()

    answer = service.http.post(PATH, content=body)

    content = answer.json()
    assert answer.status_code == 200
    assert (content["accepted"], content["duplicates"]) == (2, 0)
    reasons = {rejected["index"]: rejected["error"] for rejected in content["rejected"]}
    assert list(reasons) == [0, 2, 3, 4, 5, 6, 8]
    assert reasons[0] == "scores.click = 1.7: must be a number in [0, 1]"
    assert "late, the window begins at" in reasons[2]
    assert reasons[3] == "event = 7: expected object, got number"
    assert reasons[4].startswith('target = "conversion": outcomes are taken for the immediate')
    assert reasons[5] == 'click_id = "": must have 1 to 256 characters'
    assert "future, after" in reasons[6]
    assert reasons[8] == "speed: unknown field"
    assert totals(service, "click", hour_of(now)) == (2, 1, 0.5)


def test_a_line_that_is_no_json_costs_only_itself(service, now):
    body = b"\n".join([b"{", lines(impression(now)), b'"\xff"', b"[" * 100_000])

    content = service.http.post(PATH, content=body, headers=NDJSON).json()

    assert content["accepted"] == 1
    assert [rejected["index"] for rejected in content["rejected"]] == [0, 2, 3]
    assert content["rejected"][1]["error"].startswith("not UTF-8")
    assert "too deeply" in content["rejected"][2]["error"]


def test_events_that_are_all_late_are_no_broken_request(service, now):
    """422 is for what breaks the schema; late events are well-formed."""
    answer = service.http.post(PATH, json=[impression(now - 100 * HOUR_SECONDS)])

    assert answer.status_code == 200
    assert answer.json()["accepted"] == 0
    assert len(answer.json()["rejected"]) == 1
    assert service.stored_keys == []


def test_keys_are_kept_for_an_hour_and_ids_until_their_hour_is_closed(service, now, redis_client):
    events = [impression(now, id="e1"), impression(now, id="e2")]
    service.http.post(PATH, json=events, headers={"Idempotency-Key": "k"})
    closes = (hour_of(now) + 1 + 24) * 3600

    assert 3000 < redis_client.ttl("sirocco:{maps}:request:k") <= 3600
    lives = [redis_client.ttl(key) for key in redis_client.scan_iter("*:ids:*")]
    # By clocks that differ by up to five minutes, and one shard after the other.
    assert all(closes <= now + left <= closes + 300 + 60 + 600 for left in lives)
    assert lives

    redis_client.delete("sirocco:{maps}:request:k")
    again = service.http.post(PATH, json=events, headers={"Idempotency-Key": "k"})
    assert again.json() == accepted(0, duplicates=2)


@pytest.mark.parametrize("number", [1, 2000])
def test_an_idempotency_key_belongs_to_one_body(service, now, number):
    """Of any size: a large one is read in slices."""
    key = {"Idempotency-Key": "one"}
    service.http.post(PATH, json=[impression(now)] * number, headers=key)

    answer = service.http.post(PATH, json=[impression(now, score=0.5)] * number, headers=key)

    assert "'one'" in problem(answer, 409, "idempotency-conflict")["detail"]
    assert totals(service, "click", hour_of(now)) == (number, 0, 0.25 * number)


def test_other_immediate_targets_are_counted_by_outcomes(settings, redis_url, now):
    """Where `click` is no target, impressions and clicks are refused with a clear word."""
    with serving(settings.model_copy(update={"targets": ("view",)}), redis_url) as service:
        events = [outcome(now, target="view"), {**impression(now), "scores": {"view": 0.5}}]
        content = service.http.post(PATH, json=events).json()

        assert content["accepted"] == 1
        assert content["rejected"][0]["error"] == (
            "type: the target click is not immediate here; send outcomes"
        )
        assert totals(service, "view", hour_of(now)) == (1, 1, 0.25)


def test_a_large_request_is_stored_as_a_small_one_is(service, now):
    """Bodies that are worked on off the event loop add up the same."""
    events = [impression(now, campaign=f"c{number % 7}") for number in range(10_000)]

    assert service.http.post(PATH, json=events).json() == accepted(10_000)
    assert service.bins("click", hour_of(now)).total().total_count == 10_000
