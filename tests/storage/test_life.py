"""Times to live: nothing of a request or an hour stays for ever, and every write renews; but what
was acknowledged stays until it is folded."""

from collections.abc import Callable

import numpy as np
import pytest
import redis

from app.storage.keys import DAMAGE, SHARDS, TargetHour, hours, logs, shard_of
from calibrators import BinsTable
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.shards import by_shard

CAMPAIGN = "campaign-0"
PLACE = TargetHour(shard_of(CAMPAIGN), "click", HOUR)
INDEXES = {name(shard).encode() for shard in range(SHARDS) for name in (logs, hours)}
"""They name what lives: `test_indexes_forget_what_expired`."""
LASTING = {*INDEXES, DAMAGE.encode()}

JUDGED = BinsTable.from_columns([CAMPAIGN], np.zeros(1, int), np.ones(1), np.ones(1), np.ones(1))


def lives(client: redis.Redis) -> dict[bytes, int]:
    """Seconds left of every key but the indexes; -1 is for ever."""
    return {key: client.ttl(key) for key in client.scan_iter() if key not in LASTING}


@pytest.fixture
def write(append, store, impressions) -> Callable[[], None]:
    """Writes keys of every kind that events leave behind."""

    def write() -> None:
        append(impressions(200), "key", "print")
        append(impressions(200, "id"))
        append(impressions(50))

    return write


def test_every_key_of_events_has_a_life(write, store, redis_client):
    write()
    found = lives(redis_client)
    kinds = {key.split(b":")[2] for key in found}
    assert kinds == {b"request", b"log", b"ids"}
    for key, left in found.items():
        assert (left == -1) if b":log:" in key else (TTL_SECONDS - 60 < left <= TTL_SECONDS)

    redis_client.rpush(PLACE.log, b"damaged")
    store.fold()
    store.write_calibrated("click", HOUR, by_shard(JUDGED))
    kinds = {key.split(b":")[2] for key in lives(redis_client)}
    assert kinds == {b"request", b"ids", b"bins", b"judged", b"damaged", b"folding"}
    assert all(TTL_SECONDS - 60 < left <= TTL_SECONDS for left in lives(redis_client).values())


def test_writes_renew_the_life_of_what_they_write_to(append, store, redis_client, impressions):
    """An hour that still takes events must not expire under them."""

    def write(ids: str) -> None:
        redis_client.rpush(PLACE.log, b"damaged")
        append(impressions(200, ids))
        store.fold()
        append(impressions(200, ids + ids))
        store.write_calibrated("click", HOUR, by_shard(JUDGED))

    write("a")
    for key in lives(redis_client):
        if b":log:" not in key:
            redis_client.expire(key, 10)
    write("b")

    assert {key.split(b":")[2] for key in lives(redis_client)} == {
        b"log",
        b"ids",
        b"bins",
        b"judged",
        b"damaged",
        b"folding",
    }
    lasting = {key: left for key, left in lives(redis_client).items() if b":log:" not in key}
    assert all(left > TTL_SECONDS - 60 for left in lasting.values())


def test_a_fold_keeps_the_hour_for_as_long_as_its_bins(append, store, redis_client, impressions):
    append(impressions(200))
    now, _ = redis_client.time()
    redis_client.zadd(hours(PLACE.shard), {PLACE.member: now + 10})

    store.fold()

    expiry = redis_client.zscore(hours(PLACE.shard), PLACE.member)
    assert expiry is not None
    assert expiry - now >= TTL_SECONDS


def test_a_request_with_known_ids_renews_the_life_of_the_ids(append, redis_client, impressions):
    append(impressions(200, "a"))
    redis_client.expire(PLACE.ids, 10)

    append(impressions(200, "a"))

    assert redis_client.ttl(PLACE.ids) > TTL_SECONDS - 60


def test_indexes_forget_what_expired(append, store, redis_client, impressions):
    """A log may expire before anyone folds it."""
    append(impressions(200))
    for key in lives(redis_client):
        redis_client.delete(key)

    assert store.fold() == 0

    assert not any(redis_client.exists(logs(shard)) for shard in range(SHARDS))
