"""How ids are kept: what they cost, for how long, and how those of before are honoured."""

import asyncio

import numpy as np
import pytest
import redis

from app.events.admission import OpenTimes, Untimely
from app.settings import Settings
from app.storage import Appended, BinsStore, EventBatch, EventLog, open_async_redis
from app.storage.event_columns import hash_ids, stored_id
from app.storage.ids import IdLife, IdPacker, blocks_of
from app.storage.keys import SHARDS, TargetHour, shard_of
from tests.storage.conftest import HOUR, TTL_SECONDS, Append, Impressions
from tests.storage.interrupted_redis import Died, InterruptedRedis, die

PLACE = TargetHour(shard_of("a"), "click", HOUR)
MANY = 20_000


def of_one_campaign(ids: range, *, long: bool = False) -> EventBatch:
    batch = EventBatch()
    for number in ids:
        name = f"{number:036}" + "x" * 99 * long
        batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, name)
    return batch


@pytest.mark.parametrize("long", [False, True])
def test_packed_ids_are_known_and_cost_ten_bytes(
    long: bool, append: Append, redis_client: redis.Redis, store: BinsStore
) -> None:
    append(of_one_campaign(range(MANY), long=long))
    assert IdPacker(redis_client).pack(HOUR + 1) == MANY
    assert set(redis_client.scan_iter(f"*:{PLACE.name}")) == {
        name.encode() for name in (PLACE.packed_ids, PLACE.log)
    }
    assert redis_client.memory_usage(PLACE.packed_ids, samples=0) < 10.5 * MANY

    assert append(of_one_campaign(range(MANY + 5), long=long)) == Appended(5, MANY)
    assert append(of_one_campaign(range(MANY + 5), long=long)) == Appended(0, MANY + 5)
    assert store.fold() == MANY + 5


def test_ids_are_packed_when_their_hour_is_over_and_they_are_many(
    append: Append, redis_client: redis.Redis
) -> None:
    packer = IdPacker(redis_client)
    append(of_one_campaign(range(999)))
    assert packer.pack(HOUR + 1) == 0
    append(of_one_campaign(range(16_000)))
    assert packer.pack(HOUR) == 0
    assert packer.pack(HOUR + 1) == 16_000
    append(of_one_campaign(range(17_999)))
    assert packer.pack(HOUR + 1) == 0, "less than an eighth is new"
    append(of_one_campaign(range(18_000)))
    assert packer.pack(HOUR + 1) == 2_000
    assert redis_client.hget(PLACE.packed_ids, "ids") == b"18000"
    assert append(of_one_campaign(range(18_000))) == Appended(0, 18_000)


def test_packed_ids_live_as_long_as_they_did(append: Append, redis_client: redis.Redis) -> None:
    append(of_one_campaign(range(2000)))
    redis_client.expire(PLACE.ids, 100)
    IdPacker(redis_client).pack(HOUR + 1)
    assert 90 < redis_client.ttl(PLACE.packed_ids) <= 100

    append(of_one_campaign(range(1)))

    assert redis_client.ttl(PLACE.packed_ids) > TTL_SECONDS - 60


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["move_ids", "HSET", "finish_packing"])
def test_a_packing_that_dies_forgets_no_id(
    step: str, moment: str, append: Append, redis_url: str, redis_client: redis.Redis
) -> None:
    append(of_one_campaign(range(2000)))
    with pytest.raises(Died), InterruptedRedis(redis_url, step, **{moment: die}) as dying:
        IdPacker(dying).pack(HOUR + 1)
    assert append(of_one_campaign(range(3500))) == Appended(1500, 2000)


def test_a_packing_that_comes_second_forgets_no_id(
    append: Append, redis_url: str, redis_client: redis.Redis
) -> None:
    """Even where as many ids are moved as it has read."""
    append(of_one_campaign(range(2000)))

    def overtaken() -> None:
        IdPacker(redis_client).pack(HOUR + 1)
        assert append(of_one_campaign(range(4000))) == Appended(2000, 2000)
        with pytest.raises(Died), InterruptedRedis(redis_url, "move_ids", after=die) as dying:
            IdPacker(dying).pack(HOUR + 1)

    with InterruptedRedis(redis_url, "finish_packing", before=overtaken) as slow:
        assert IdPacker(slow).pack(HOUR + 1) == 0
    assert append(of_one_campaign(range(4000))) == Appended(0, 4000)


def test_hashes_are_found_only_where_one_begins(append: Append, redis_client: redis.Redis) -> None:
    hashed = hash_ids([stored_id("e1", 1.0)])[-8:]
    redis_client.hset(PLACE.packed_ids, mapping={"blocks": 1, "0": b"1234" + hashed + b"5678"})
    batch = EventBatch()
    batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, "e1")
    assert append(batch) == Appended(1, 0)


def test_every_hash_is_in_the_block_that_its_first_bytes_say() -> None:
    hashes = np.unique(np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64))
    blocks = blocks_of(hashes)
    found = [np.frombuffer(block, "<u8") for block in blocks]
    for number, block in enumerate(found):
        assert (block % 2**32 % len(blocks) == number).all()
    assert np.array_equal(np.sort(np.concatenate(found)), hashes)


def test_ids_that_were_stored_as_they_are_still_count_once(
    append: Append, redis_client: redis.Redis, store: BinsStore, impressions: Impressions
) -> None:
    """As they were stored before there were hashes, long ones included."""
    for number in range(300):
        held = TargetHour(shard_of(f"campaign-{number % 50}"), "click", HOUR)
        redis_client.sadd(held.seen, stored_id(f"e{number}", 1.0))
    redis_client.sadd(PLACE.seen, stored_id("e" * 200, 1.0))

    assert append(impressions(400, "e"), "key", "print") == Appended(100, 300)
    assert append(impressions(400, "e"), "key", "print") == Appended(0, 400)
    assert append(impressions(400, "e")) == Appended(0, 400)
    long = EventBatch()
    long.add("click", HOUR, "a", 0.25, 1.0, 0.0, "e" * 200)
    assert append(long) == Appended(0, 1)
    assert store.fold() == 100


@pytest.mark.parametrize("window", [1, 24])
@pytest.mark.parametrize("future", [0.0, 300.0])
def test_ids_live_until_no_event_of_their_hour_is_admitted(window: int, future: float) -> None:
    settings = Settings(window_hours=window, future_seconds=future)
    life = IdLife(0, window, future)
    for shard in range(SHARDS):
        ends = HOUR * 3600 + life.seconds(TargetHour(shard, "click", HOUR), HOUR * 3600.0)
        OpenTimes.at(ends - future - 660, settings).hour("occurred_at", HOUR * 3600.0)
        with pytest.raises(Untimely):
            OpenTimes.at(ends - future - 60, settings).hour("occurred_at", HOUR * 3600.0)
    assert life.seconds(PLACE, (HOUR + 10_000) * 3600.0) >= 60, "an hour that was closed meanwhile"


def test_keys_and_ids_have_lives_of_their_own(
    redis_url: str, redis_client: redis.Redis, impressions: Impressions
) -> None:
    async def send() -> list[Appended]:
        async with open_async_redis(redis_url) as client:
            life = IdLife(0, 2, 0.0)
            log = EventLog(client, 99, key_seconds=50, id_life=life, clock=lambda: HOUR * 3600.0)
            first = await log.append(impressions(9, "e"), "key", "print")
            assert redis_client.ttl("sirocco:{maps}:request:key") in range(40, 51)
            redis_client.delete("sirocco:{maps}:request:key")
            return [first, await log.append(impressions(10, "e"), "key", "print")]

    assert asyncio.run(send()) == [Appended(9, 0), Appended(1, 9)]
    lives = [redis_client.ttl(key) for key in redis_client.scan_iter("*:ids:*")]
    assert all(3 * 3600 < left <= 3 * 3600 + 660 for left in lives)
