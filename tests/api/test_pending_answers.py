"""Small requests with events: admitted at once, answered once they are stored, without a task of
the server's own, and with the same bytes as by one."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Timer
from unittest.mock import patch

import httpx
import pytest

from app.api.hot_path import SLICED, HotPath
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.storage.event_log import EventLog
from tests.api.events import click, impression, lines
from tests.api.raw_connection import chunked, get, parsed_heads, post, raw
from tests.api.running_service import eventually, serving
from tests.api.test_prompt_answers import check_is_answered_as_by_a_task

PATH = "/v1/events"
NOW = time.time()
SHOWN = impression(NOW, score=0.25)
ONE = json.dumps([SHOWN]).encode()
MANY = json.dumps([SHOWN] * 30).encode()
MIXED = json.dumps(
    [SHOWN, {**SHOWN, "campaign": ""}, {**SHOWN, "occurred_at": 1e9}, {"type": "other"}, SHOWN]
).encode()
PIECES = chunked(PATH, b"%x\r\n" % len(ONE) + ONE + b"\r\n", b"0\r\n\r\n")
LAST = "Connection: close"
REQUESTS = {
    "one": post(PATH, ONE, LAST),
    "many": post(PATH, MANY, LAST),
    "lines": post(PATH, lines([SHOWN] * 3), "Content-Type: application/x-ndjson", LAST),
    "lines that nobody announced": post(PATH, lines([SHOWN] * 3), LAST),
    "in chunks": PIECES + get("/healthz", LAST),
    "packed": post(PATH, gzip.compress(ONE, mtime=0), "Content-Encoding: gzip", LAST),
    "good and broken": post(PATH, MIXED, LAST),
    "all broken": post(PATH, b'[{"type": "other"}]', LAST),
    "too late": post(PATH, json.dumps([{**SHOWN, "occurred_at": 1e9}]).encode(), LAST),
    "nothing": post(PATH, b"[]", LAST),
    "no JSON": post(PATH, b"[{", LAST),
    "no columns": post(PATH, b"x", f"Content-Type: {COLUMNS}", LAST),
    "of another type": post(PATH, ONE, "Content-Type: text/plain", LAST),
    "a bad key": post(PATH, ONE, f"Idempotency-Key: {'k' * 256}", LAST),
    "a behaviour of no click": post(
        PATH,
        json.dumps(
            [{"type": "behaviour", "click_id": "x", "occurred_at": NOW, "name": "?", "value": 1}]
        ).encode(),
        LAST,
    ),
    "who waits to be asked": post(PATH, ONE, "Expect: 100-continue", LAST),
    "one after the other": post(PATH, ONE) + post("/v1/calibrate") + post(PATH, MIXED, LAST),
    "with an id": post(PATH, ONE, "X-Request-Id: r1", LAST),
}


@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_the_answer_is_the_one_of_a_task(shared_service, sent):
    check_is_answered_as_by_a_task(shared_service, sent)


@pytest.fixture
def calls(monkeypatch):
    """Paths of the requests for which the server has made a task."""
    called, call = [], HotPath.__call__

    def counted(self, scope, *given):
        called.append(scope.get("path"))
        return call(self, scope, *given)

    monkeypatch.setattr(HotPath, "__call__", counted)
    return called


def test_no_task_is_made_and_a_head_is_parsed_once(service, calls):
    with parsed_heads() as parsed, raw(service) as connection:
        for body in (ONE, ONE, MANY, MIXED):
            connection.send(post(PATH, body))
            assert connection.answer().status == 200

    assert len(parsed) == 1
    assert PATH not in calls
    hour = int(NOW // 3600)
    assert service.bins("click", hour).total().total_count == 1 + 1 + 30 + 2


def test_many_events_let_others_have_a_turn_in_a_task(service, calls):
    body = json.dumps([SHOWN] * 100).encode()
    assert len(body) >= SLICED

    assert service.http.post(PATH, content=body).json()["accepted"] == 100
    assert PATH in calls


def test_a_key_and_clicks_need_no_task_of_the_server(service, calls):
    clicked = [click(NOW, "c1", score=0.25, impression_at=NOW)]
    keyed = {"Idempotency-Key": "k"}

    first, second = (service.http.post(PATH, json=clicked, headers=keyed).json() for _ in range(2))
    other = service.http.post(PATH, json=[SHOWN], headers=keyed)

    assert [(each["accepted"], each["duplicates"]) for each in (first, second)] == [(1, 0), (0, 1)]
    assert other.status_code == 409
    assert PATH not in calls


@contextmanager
def held(service):
    """The store takes nothing meanwhile."""
    service.store.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        yield service.app.state.resources.shedder
    finally:
        service.store.execute_command("CLIENT", "UNPAUSE")


def test_who_has_gone_had_the_events_stored(service):
    with held(service) as shedder, raw(service) as connection:
        connection.send(post(PATH, ONE))
        eventually(lambda: shedder.in_flight == 1)
        connection.drop()
        eventually(lambda: service.metric("sirocco_connections") == 1)

    eventually(lambda: shedder.in_flight == 0)
    assert service.bins("click", int(NOW // 3600)).total().total_count == 1
    assert service.metric("sirocco_requests_total", route=PATH, code="200") == 1


def test_what_comes_before_the_answer_waits_its_turn(service):
    with held(service) as shedder, raw(service) as connection:
        connection.send(post(PATH, ONE))
        eventually(lambda: shedder.in_flight == 1)
        connection.send(post("/v1/calibrate") + post(PATH, ONE) + get("/healthz"))
        time.sleep(0.05)
        service.store.execute_command("CLIENT", "UNPAUSE")

        assert [connection.answer().status for _ in range(4)] == [200] * 4


def test_a_server_that_ends_answers_first(settings, redis_url, redis_client):
    with ThreadPoolExecutor(1) as caller, serving(settings, redis_url) as service:
        redis_client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        shedder = service.app.state.resources.shedder
        waiting = caller.submit(httpx.post, f"{service.url}{PATH}", json=[SHOWN], timeout=60)
        eventually(lambda: shedder.in_flight == 1)
        ending = Timer(0.3, redis_client.execute_command, ["CLIENT", "UNPAUSE"])
        ending.start()

    assert waiting.result().json()["accepted"] == 1
    assert waiting.result().headers["connection"] == "close"


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k"}])
def test_a_fault_of_ours_is_answered_and_logged(service, caplog, key):
    class Broken(EventLog):
        def _parts(self, *given):
            raise ZeroDivisionError

    with patch.object(EventLog, "_parts", Broken._parts):
        answer = service.http.post(PATH, json=[SHOWN], headers=key)

    assert answer.status_code == 500
    assert answer.headers["connection"] == "close"
    assert "ZeroDivisionError" in caplog.text
    assert service.app.state.resources.shedder.in_flight == 0
    assert service.http.post(PATH, json=[SHOWN]).status_code == 200
