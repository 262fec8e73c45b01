"""The history of a target: tables by hour, in blocks of campaigns, read when they are asked for."""

import numpy as np
import pytest

from app.storage.bins import TABLES_AT_ONCE, hour_blocks
from app.storage.keys import SHARDS, TargetHour, shard_of
from calibrators import BinsTable
from calibrators.bins.table import HourTables
from tests.storage.conftest import HOUR
from tests.storage.test_bins_store import events


def table(seed: int, campaigns: int) -> BinsTable:
    """Some campaigns of names that do not come in the order of their numbers."""
    rng = np.random.default_rng(seed)
    names = [f"campaign-{number}" for number in range(campaigns)]
    rows = rng.integers(0, campaigns, 300)
    return BinsTable.from_columns(names, rows, rng.random(300), np.ones(300), rng.random(300))


def by_hour(blocks: list[HourTables], hour: int) -> BinsTable:
    return BinsTable.merge(block[hour] for block in blocks if hour in block)


def test_its_hours_are_those_of_the_store(append, store):
    for hour in range(HOUR, HOUR + 4):
        append(events(hour, campaigns=30 + hour - HOUR))
    append(events(HOUR, "view"))
    store.fold()

    blocks = list(store.history("click", HOUR + 1, HOUR + 3))

    assert {hour for block in blocks for hour in block} == {HOUR + 1, HOUR + 2}
    for hour in (HOUR + 1, HOUR + 2):
        assert by_hour(blocks, hour) == store.hour("click", hour)


def test_no_campaign_is_in_two_blocks(append, store):
    for hour in (HOUR, HOUR + 1):
        append(events(hour, campaigns=60))
    store.fold()

    blocks = list(store.history("click", HOUR, HOUR + 2))

    names = [{name for table in block.values() for name in table.campaigns} for block in blocks]
    assert len(blocks) > 1
    assert len(set.union(*names)) == sum(map(len, names)) == 60


def test_it_is_read_anew_each_time(append, store):
    append(events(HOUR))
    store.fold()
    history = store.history("click", HOUR, HOUR + 1)
    before = by_hour(list(history), HOUR).total().total_count
    append(events(HOUR))
    store.fold()

    assert by_hour(list(history), HOUR).total().total_count == 2 * before


def test_of_more_hours_than_are_read_at_once_none_is_left_out(append, store):
    hours = range(HOUR, HOUR + TABLES_AT_ONCE + 2)
    for hour in hours:
        append(events(hour, campaigns=1))
    store.fold()

    (block,) = store.history("click", HOUR - 3, HOUR + 2 * TABLES_AT_ONCE)

    assert set(block) == set(hours)


def test_without_events_there_are_no_blocks(store):
    assert list(store.history("click", HOUR, HOUR + 3)) == []


def test_damaged_bins_are_set_aside_and_named(append, store, redis_client):
    append(events(HOUR))
    store.fold()
    place = TargetHour(shard_of("campaign-0"), "click", HOUR)
    redis_client.hset(place.bins, "table", b"damaged")

    assert by_hour(list(store.history("click", HOUR, HOUR + 1)), HOUR).bins("campaign-0").empty
    about = {"kind": "bins", "shard": place.shard, "target": "click", "hour": HOUR}
    assert store.damage.emptied() == [about]
    assert store.damage.emptied() == []


@pytest.mark.parametrize("campaigns", [1, 7, 20, 1000])
def test_blocks_of_any_size_are_the_tables(campaigns):
    tables = {hour: table(hour, 20 + hour) for hour in range(3)}

    blocks = list(hour_blocks({hour: one.packed for hour, one in tables.items()}, campaigns))

    sizes = [len({name for one in block.values() for name in one.campaigns}) for block in blocks]
    assert max(sizes) <= campaigns
    assert max(sizes) - min(sizes) <= 1
    for hour, one in tables.items():
        assert by_hour(blocks, hour) == one


def test_a_shard_is_read_when_its_first_block_is_asked_for(append, store, redis_client):
    append(events(HOUR, campaigns=100))
    store.fold()
    blocks = iter(store.history("click", HOUR, HOUR + 1))
    next(blocks)
    for shard in range(1, SHARDS):
        redis_client.delete(TargetHour(shard, "click", HOUR).bins)

    assert list(blocks) == []
