"""Closing clicks, giving up on those that never come, and counting both."""

import logging

import pytest

from app.storage import keys
from app.storage.keys import shard_of
from tests.storage.clicks import AT, RULES, append_by, behaviour, click, did, feature_kinds, of
from tests.storage.contents import contents

DUE = AT + RULES.post_click_seconds


@pytest.fixture
def send(redis_url):
    """Appends events by the rules of these tests."""
    return lambda *events: append_by(redis_url, RULES, of(*events))


def ids(found):
    return sorted(one.click_id for one in found)


def test_clicks_are_due_after_their_window(send, clicks):
    send(click("1"), click("2", at=AT + 1), click("3", at=AT + 2))

    assert clicks.begin_close(DUE - 0.25, 10) == []
    assert ids(clicks.begin_close(DUE, 10)) == ["1"]
    assert ids(clicks.begin_close(DUE + 1.5, 10)) == ["1", "2"]


def test_each_step_may_be_repeated(send, clicks, redis_client):
    """From the first mark on the same clicks are handed out, and they are removed once."""
    send(click("1"), click("2"), did(AT + 5, "1"))
    begun = clicks.begin_close(DUE, 10)
    send(did(AT + 6, "1"), did(AT + 6, "2"))

    assert clicks.begin_close(DUE, 10) == begun
    assert [one.behaviours for one in sorted(begun, key=lambda one: one.click_id)] == [
        [behaviour(AT + 5)],
        [],
    ]
    assert clicks.finish_close(begun) == 2
    closed = contents(redis_client)
    assert clicks.finish_close(begun) == 0
    assert clicks.begin_close(DUE, 10) == []
    assert contents(redis_client) == closed
    counts = clicks.counts()
    assert (counts["open"], counts["closed"]) == (0, 2)
    assert not list(redis_client.scan_iter("*:click:*"))


def test_of_clicks_that_two_closed_each_counts_once(send, clicks):
    send(click("1"), click("2"))
    begun = clicks.begin_close(DUE, 10)

    assert clicks.finish_close(begun[:1]) == 1
    assert clicks.finish_close(begun) == 1
    assert clicks.counts()["closed"] == 2
    assert clicks.finish_close([]) == 0


def test_no_more_than_the_limit_are_handed_out(send, clicks, monkeypatch):
    monkeypatch.setattr("app.storage.clicks.CLICKS_AT_ONCE", 3)
    send(*(click(str(number), at=AT + number) for number in range(100)))

    assert clicks.begin_close(DUE + 100, 0) == []
    assert len(clicks.begin_close(DUE + 100, 7)) == 7
    begun = clicks.begin_close(DUE + 49, 1000)
    assert ids(begun) == sorted(map(str, range(50)))
    assert clicks.finish_close(begun) == 50
    assert clicks.counts()["open"] == 50


def test_a_click_that_cannot_be_read_stops_no_other(send, clicks, redis_client, caplog):
    """It is set aside, logged and counted once; its hash is left to be looked at."""
    send(click("1"), click("2"))
    broken = keys.click(shard_of("1"), "1")
    redis_client.hset(broken, "at", "noon")

    with caplog.at_level(logging.ERROR):
        assert ids(clicks.begin_close(DUE, 10)) == ["2"]
        assert ids(clicks.begin_close(DUE, 10)) == ["2"]

    assert caplog.text.count("open click b'1' set aside") == 1
    assert (clicks.counts()["damaged"], clicks.counts()["open"]) == (1, 1)
    assert redis_client.ttl(broken) > 0


def test_a_click_that_expired_is_counted_and_forgotten(send, clicks, redis_client, caplog):
    send(click("1"), click("2"))
    redis_client.delete(keys.click(shard_of("1"), "1"))

    assert ids(clicks.begin_close(DUE, 10)) == ["2"]
    assert "expired before it was closed" in caplog.text
    assert (clicks.counts()["expired"], clicks.counts()["open"]) == (1, 1)


def test_behaviours_that_wait_too_long_are_orphans_once(send, clicks, redis_client):
    now = float(redis_client.time()[0])
    send(did(AT, "1"), did(AT + 1, "1"), did(AT, "2"))

    assert clicks.expire_waiting(now + 99) == 0
    assert clicks.counts()["waiting"] == 2
    assert clicks.expire_waiting(now + 105) == 3
    assert clicks.expire_waiting(now + 105) == 0

    counts = clicks.counts()
    assert (counts["waiting"], counts["orphans"]) == (0, 3)
    assert not list(redis_client.scan_iter("*:click:*"))


def test_the_wait_begins_with_the_first_behaviour(send, clicks, redis_client):
    send(did(AT))
    waiting = keys.waiting(shard_of("1"))
    redis_client.zadd(waiting, {"1": 50.0})

    send(did(AT + 1))

    assert redis_client.zscore(waiting, "1") == 50.0
    assert clicks.expire_waiting(50.0) == 2


def test_a_click_that_came_in_time_leaves_no_orphans(send, clicks):
    send(did(AT))
    send(click())

    assert clicks.expire_waiting(1e10) == 0
    assert clicks.counts()["orphans"] == 0
    assert clicks.begin_close(DUE, 10)[0].behaviours == [behaviour(AT)]


def test_many_waits_end_at_once(redis_url, clicks, monkeypatch):
    monkeypatch.setattr("app.storage.clicks.CLICKS_AT_ONCE", 2)
    rules = RULES.__class__(max_waiting=1000)
    append_by(redis_url, rules, of(*(did(AT, str(number)) for number in range(100))))

    assert clicks.expire_waiting(1e10) == 100
    assert clicks.counts()["orphans"] == 100


def test_an_empty_store_counts_nothing(clicks, redis_client):
    assert set(clicks.counts().values()) == {0}
    assert feature_kinds(redis_client) == {}
