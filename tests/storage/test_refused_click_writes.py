"""A store that refuses writes: nothing of a request is half stored, and closing frees memory."""

from collections.abc import Iterator

import pytest
import redis

from app.storage.clicks import OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.errors import StorageUnavailable
from tests.storage.clicks import AT, CELL, RULES, append_by, behaviour, click, conversion, did, of
from tests.storage.contents import contents

REQUESTS = {
    "click": [click("2", features={"age": 3.0})],
    "immediate click": [click("2")],
    "click that is waited for": [click("3")],
    "behaviour": [did(AT + 5)],
    "behaviour that waits": [did(AT + 5, "4")],
    "conversion": [conversion(AT + 5)],
    "all": [click("2"), did(AT + 5), did(AT + 5, "4"), conversion(AT + 5), click(campaign="b")],
}


@pytest.fixture
def full(redis_client) -> Iterator[redis.Redis]:
    """A store that is full as soon as it is told so, and has room again afterwards."""
    yield redis_client
    redis_client.config_set("maxmemory", 0)


@pytest.mark.parametrize("key", [(), ("key", "print")], ids=["without key", "with key"])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_refused_leaves_nothing_and_may_be_sent_again(name, key, full, redis_url):
    append_by(redis_url, RULES, of(click(), did(AT - 1, "3"), did(AT + 1, "3")))
    stored = contents(full)
    opens = name != "immediate click"
    full.config_set("maxmemory", 1)

    with pytest.raises(StorageUnavailable, match="maxmemory"):
        append_by(redis_url, RULES, of(*REQUESTS[name], cell=CELL, opens=opens), *key)

    assert contents(full) == stored
    full.config_set("maxmemory", 0)
    answer = append_by(redis_url, RULES, of(*REQUESTS[name], cell=CELL, opens=opens), *key)
    assert answer.accepted == len(REQUESTS[name]) - len(answer.refused)
    assert answer.duplicates == 0


def test_a_full_store_is_emptied_all_the_same(full, redis_url):
    """Each of these steps frees memory: refused, they would leave it full for ever."""
    append_by(redis_url, RULES, of(click(), did(AT + 1), did(AT, "2"), conversion(AT)))
    clicks, log = OpenClicks(full), ConversionLog(full)
    full.config_set("maxmemory", 1)

    (due,) = clicks.begin_close(1e10, 10)
    assert due.behaviours == [behaviour(AT + 1)]
    assert clicks.finish_close([due]) == 1
    assert clicks.expire_waiting(1e10) == 1
    (place,) = log.pending()
    assert log.drop(place, log.read(place)[0])

    counts = clicks.counts()
    assert (counts["closed"], counts["orphans"]) == (1, 1)


@pytest.mark.parametrize("harm", ["damaged", "expired"])
def test_a_full_store_lets_broken_clicks_go(harm, full, redis_url):
    append_by(redis_url, RULES, of(click()))
    (key,) = full.scan_iter("*:click:*")
    if harm == "damaged":
        full.hset(key, "at", "noon")
    else:
        full.delete(key)
    full.config_set("maxmemory", 1)

    assert OpenClicks(full).begin_close(1e10, 10) == []

    assert OpenClicks(full).counts()[harm] == 1
    assert OpenClicks(full).counts()["open"] == 0
