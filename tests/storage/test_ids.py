"""How ids are kept: what they cost, for how long, and how those of before are honoured."""

import asyncio

import numpy as np
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from app.events.rejections import OpenTimes, Untimely
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.event_columns import hash_ids, stored_id
from app.storage.event_log import Appended, EventLog
from app.storage.ids import UNFILTERED, IdFilter, IdFilters, IdLife, IdPacker, blocks_of
from app.storage.integrity.damage import Damage
from app.storage.keys import SHARDS, TargetHour, shard_of
from app.storage.redis.client import open_async_redis
from tests.storage.conftest import HOUR, TTL_SECONDS
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
def test_packed_ids_are_known_and_cost_twelve_bytes(long, append, redis_client, store):
    append(of_one_campaign(range(MANY), long=long))
    assert IdPacker(redis_client).pack() == MANY
    assert set(redis_client.scan_iter(f"*:{PLACE.name}")) == {
        name.encode() for name in (PLACE.packed_ids, PLACE.log)
    }
    assert redis_client.memory_usage(PLACE.packed_ids, samples=0) < 12 * MANY

    assert append(of_one_campaign(range(MANY + 5), long=long)) == Appended(5, MANY)
    assert append(of_one_campaign(range(MANY + 5), long=long)) == Appended(0, MANY + 5)
    assert store.fold() == MANY + 5


def test_ids_are_packed_when_they_are_many(append, redis_client):
    packer = IdPacker(redis_client)
    append(of_one_campaign(range(63)))
    assert packer.pack() == 0
    append(of_one_campaign(range(18_000)))
    assert packer.pack() == 18_000
    append(of_one_campaign(range(20_999)))
    assert packer.pack() == 0, "less than a sixth is new"
    append(of_one_campaign(range(21_000)))
    assert packer.pack() == 3_000
    assert redis_client.hget(PLACE.packed_ids, "ids") == b"21000"
    assert append(of_one_campaign(range(21_000))) == Appended(0, 21_000)


def test_an_hour_that_goes_on_costs_at_most_twenty_bytes_an_id(append, redis_client):
    packer = IdPacker(redis_client)
    for done in range(60, 9001, 60):
        append(of_one_campaign(range(done - 60, done)))
        packer.pack()
        used = [redis_client.memory_usage(key, samples=0) for key in redis_client.keys("*:ids*")]
        assert done < 400 or sum(used) < 20 * done


@pytest.mark.parametrize(
    ("field", "value"),
    [("blocks", "junk"), ("blocks", "nan"), ("blocks", "99999999"), ("ids", "x"), ("0", b"odd")],
)
def test_packed_ids_that_are_damaged_are_set_aside(append, redis_client, field, value):
    """They end no worker, and events of their hour are stored."""
    append(of_one_campaign(range(100)))
    packer = IdPacker(redis_client)
    assert packer.pack() == 100
    redis_client.hset(PLACE.packed_ids, field, value)

    assert append(of_one_campaign(range(100, 300))).accepted == 200
    assert packer.pack() == 0
    assert packer.pack() == 200

    assert redis_client.hget(PLACE.packed_ids, "ids") == b"200"
    assert Damage(redis_client).counts()["counter"] == 1


def test_packed_ids_live_as_long_as_they_did(append, redis_client):
    append(of_one_campaign(range(2000)))
    redis_client.expire(PLACE.ids, 100)
    IdPacker(redis_client).pack()
    assert 90 < redis_client.ttl(PLACE.packed_ids) <= 100

    append(of_one_campaign(range(1)))

    assert redis_client.ttl(PLACE.packed_ids) > TTL_SECONDS - 60


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["move_ids", "HSET", "finish_packing"])
def test_a_packing_that_dies_forgets_no_id(step, moment, append, redis_url, redis_client):
    append(of_one_campaign(range(2000)))
    with pytest.raises(Died), InterruptedRedis(redis_url, step, **{moment: die}) as dying:
        IdPacker(dying).pack()
    assert append(of_one_campaign(range(3500))) == Appended(1500, 2000)


def test_a_packing_that_comes_second_forgets_no_id(append, redis_url, redis_client):
    """Even where as many ids are moved as it has read."""
    append(of_one_campaign(range(2000)))

    def overtaken() -> None:
        IdPacker(redis_client).pack()
        assert append(of_one_campaign(range(4000))) == Appended(2000, 2000)
        with pytest.raises(Died), InterruptedRedis(redis_url, "move_ids", after=die) as dying:
            IdPacker(dying).pack()

    with InterruptedRedis(redis_url, "finish_packing", before=overtaken) as slow:
        assert IdPacker(slow).pack() == 0
    assert append(of_one_campaign(range(4000))) == Appended(0, 4000)


def test_hashes_are_found_only_where_one_begins(append, redis_client):
    (hashed,) = hash_ids([stored_id("e1", 1.0)])
    redis_client.hset(PLACE.packed_ids, mapping={"blocks": 1, "0": b"1234" + hashed + b"5678"})
    batch = EventBatch()
    batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, "e1")
    assert append(batch) == Appended(1, 0)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_a_filter_rules_out_no_hash_that_is_packed(kept, others, seed):
    drawn = np.random.default_rng(seed).integers(0, 2**64, kept + others, np.uint64)
    known = IdFilter.of(np.unique(drawn[:kept]), b"made")
    suspects = known.suspects(drawn.astype("<u8").tobytes())
    assert set(range(kept)) <= set(suspects) <= set(range(kept + others))
    assert IdFilter().suspects(drawn.tobytes()) == list(range(kept + others))


def test_a_filter_rules_out_most_others():
    drawn = np.random.default_rng(2).integers(0, 2**64, 40_000, np.uint64)
    known = IdFilter.of(np.unique(drawn[:20_000]), b"made")
    assert len(known.bits) == 20_000
    assert len(known.suspects(drawn[20_000:].astype("<u8").tobytes())) < 0.055 * 20_000


def test_the_filters_of_the_latest_hours_are_kept():
    filters = IdFilters(most_bytes=10)
    logs = [TargetHour(shard, "click", HOUR + shard) for shard in range(4)]
    for log in logs[:3]:
        filters.put(log, b"made", bytes(5))
    assert [bool(filters.of(log).made) for log in logs] == [False, True, True, False]
    filters.put(logs[0], b"made", bytes(5))
    assert not filters.of(logs[0]).made, "there is no room beside later hours"
    filters.put(logs[3], b"made", bytes(11))
    assert not filters.of(logs[3]).made, "there is never room for it"
    assert not filters.is_due(logs[3], UNFILTERED + 10), "it is not read again at once"
    assert filters.is_due(logs[3], 1)
    filters.put(logs[2], None, None)
    assert not filters.of(logs[2]).made, "its ids are not packed any more"


def test_a_filter_is_read_once_enough_ids_have_missed_it():
    filters = IdFilters()
    assert not filters.is_due(PLACE, UNFILTERED - 1)
    assert filters.is_due(PLACE, 1)
    assert not filters.is_due(PLACE, 1000), "requests that come meanwhile do not read it, too"
    filters.put(PLACE, None, None)
    assert not filters.is_due(PLACE, 1000), "nor is it asked for again at once where there is none"
    assert filters.is_due(PLACE, 1 << 14)


def test_packed_ids_are_known_by_their_filter_and_without_it(in_one_log, redis_client):
    """One process sends all: with the filter, with that of older blocks, and with none."""
    packer = IdPacker(redis_client)

    async def send(log):
        found = [await log.append(of_one_campaign(range(2000)))]
        packer.pack()
        found += [await log.append(of_one_campaign(range(100))) for _ in range(2)]
        found.append(await log.append(of_one_campaign(range(1900, 4000))))
        packer.pack()
        found.append(await log.append(of_one_campaign(range(4100))))
        return [*found, await log.append(of_one_campaign(range(4100)))]

    assert in_one_log(send) == [
        Appended(2000, 0),
        Appended(0, 100),
        Appended(0, 100),
        Appended(2000, 100),
        Appended(100, 4000),
        Appended(0, 4100),
    ]


def test_what_a_filter_rules_out_is_looked_for_where_the_blocks_are_others(
    in_one_log, redis_client
):
    """Hashes that no filter knows are put into the blocks, to see who looks for them."""

    async def send(log):
        await log.append(of_one_campaign(range(2000)))
        IdPacker(redis_client).pack()
        await log.append(of_one_campaign(range(100)))
        _put_into_all_blocks(redis_client, range(2000, 2200))
        ruled_out = await log.append(of_one_campaign(range(2000, 2100)))
        redis_client.hset(PLACE.packed_ids, "made", "another")
        return [ruled_out, await log.append(of_one_campaign(range(2100, 2200)))]

    ruled_out, looked_for = in_one_log(send)
    assert ruled_out.accepted > 80
    assert looked_for == Appended(0, 100)


def _put_into_all_blocks(client: redis.Redis, ids: range) -> None:
    hashes = b"".join(hash_ids([stored_id(f"{number:036}", 1.0) for number in ids]))
    for number in range(int(client.hget(PLACE.packed_ids, "blocks") or 0)):
        block = client.hget(PLACE.packed_ids, str(number)) or b""
        client.hset(PLACE.packed_ids, str(number), block + hashes)


@pytest.mark.parametrize(
    "stored",
    [{"made": "another", "bloom": ""}, {"filter": bytes(4000)}],
    ids=["unreadable", "of two bytes an id"],
)
def test_a_filter_that_nobody_can_read_fails_no_request(in_one_log, redis_client, stored):
    """Those of two bytes an id were stored before there were filters of one, under another name."""

    async def send(log):
        await log.append(of_one_campaign(range(2000)))
        IdPacker(redis_client).pack()
        redis_client.hdel(PLACE.packed_ids, "bloom")
        redis_client.hset(PLACE.packed_ids, mapping=stored)
        for _ in range(2):
            assert await log.append(of_one_campaign(range(2000))) == Appended(0, 2000)
        return await log.append(of_one_campaign(range(2100)))

    assert in_one_log(send) == Appended(100, 2000)


def test_every_hash_is_in_the_block_that_its_first_bytes_say():
    hashes = np.unique(np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64))
    blocks = blocks_of(hashes)
    found = [np.frombuffer(block, "<u8") for block in blocks]
    for number, block in enumerate(found):
        assert (block % 2**32 % len(blocks) == number).all()
    assert np.array_equal(np.sort(np.concatenate(found)), hashes)


def test_ids_that_were_stored_as_they_are_still_count_once(
    append, redis_client, store, impressions
):
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
def test_ids_live_until_no_event_of_their_hour_is_admitted(window, future):
    settings = Settings(window_hours=window, future_seconds=future)
    life = IdLife(0, window, future)
    for shard in range(SHARDS):
        ends = HOUR * 3600 + life.seconds(TargetHour(shard, "click", HOUR), HOUR * 3600.0)
        OpenTimes.at(ends - future - 660, settings).hour("occurred_at", HOUR * 3600.0)
        with pytest.raises(Untimely):
            OpenTimes.at(ends - future - 60, settings).hour("occurred_at", HOUR * 3600.0)
    assert life.seconds(PLACE, (HOUR + 10_000) * 3600.0) >= 60, "an hour that was closed meanwhile"


def test_keys_and_ids_have_lives_of_their_own(redis_url, redis_client, impressions):
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
