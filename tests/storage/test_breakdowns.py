"""Breakdowns: sums by arm, by unit and of money, exactly once beside the bins."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import redis

from app.storage.batch import Cell, EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import LARGEST_WEIGHT, NO_TERMS, TERMS, Block, Terms, decode_block
from app.storage.clicks import OpenClick
from app.storage.event_columns import EventColumns
from app.storage.integrity.damage import Damage
from app.storage.keys import BREAKDOWNS, TargetHour, shard_of
from calibrators import BinsTable
from calibrators.arms import ARMS
from tests.storage.conftest import HOUR, TTL_SECONDS, Append
from tests.storage.interrupted_redis import Died, InterruptedRedis, die
from tests.storage.packing import encoded

CAMPAIGNS = ("a", "b", "größe")
ONE = np.ones(1)

Row = tuple[str, float, float, float, Terms]


def drawn_rows(seed: int, count: int) -> list[Row]:
    """Campaign, score, count, positive and terms of events; some have none."""
    draw = random.Random(seed)
    terms = (
        Terms(
            draw.choice([0, 1, 2, NO_TERMS.arm]),
            draw.choice([NO_TERMS.bucket, 0, 7, 4095]),
            *(draw.choice([0.0, 0.25, 3.5]) for _ in range(3)),
        )
        for _ in range(count)
    )
    return [
        (draw.choice(CAMPAIGNS), draw.random(), 1.0, 0.0, draw.choice([one, NO_TERMS]))
        for one in terms
    ]


def batch_of(rows: list[Row], first_click: int = 0) -> EventBatch:
    """A third one by one, a third as columns, all with ids, and a third as clicks."""
    batch, third = EventBatch(), len(rows) // 3
    for number, (campaign, score, count, positive, terms) in enumerate(rows[:third]):
        given = None if terms == NO_TERMS else terms
        batch.add("click", HOUR, campaign, score, count, positive, f"e{number}", given)
    some = rows[third : 2 * third]
    columns = EventColumns(
        CAMPAIGNS,
        np.array([CAMPAIGNS.index(row[0]) for row in some]),
        np.full(third, HOUR),
        np.array([row[1] for row in some]),
        np.zeros(third),
        [f"c{number}" for number in range(third)],
        np.array([row[4] for row in some], TERMS),
    )
    batch.add_columns("click", columns)
    for place, (campaign, score, _, _, terms) in enumerate(rows[2 * third :]):
        cell = Cell("click", HOUR, score, None if terms == NO_TERMS else terms)
        click = OpenClick(f"k{first_click + place}", campaign, HOUR * 3600.0)
        batch.add_click(place, click, opens=False, cell=cell)
    return batch


def expected_of(name: str, rows: Iterable[Row]) -> BinsTable:
    """The breakdown as the table of its rules has it, event by event."""
    found = []
    for campaign, score, count, positive, terms in rows:
        bucket, bid, money = str(terms.bucket), terms.bid, (terms.cost, terms.value)
        of_arm = terms.arm < len(ARMS) and ARMS[terms.arm] == name
        of_unit = terms.bucket >= 0
        entry: dict[str, tuple[bool, str, float, float, float]] = {
            **dict.fromkeys(ARMS, (of_arm, campaign, score, count, positive)),
            "bid": (bid > 0, campaign, score, bid * count, bid * positive),
            "money": (max(money) > 0, campaign, 0.0, *money),
            "units": (of_unit, bucket, 0.0, count, positive),
            "unit_money": (of_unit and max(money) > 0, bucket, 0.0, *money),
        }
        found.append(entry[name])
    counted = [one[1:] for one in found if one[0]]
    columns = (np.array(column) for column in list(zip(*counted, strict=True))[1:])
    return BinsTable.from_columns([one[0] for one in counted], np.arange(len(counted)), *columns)


def breakdown(store: BinsStore, name: str) -> BinsTable:
    tables = list(store.breakdown("click", name, HOUR, HOUR + 1))
    names = [campaign for table in tables for campaign in table.campaigns]
    assert len(names) == len(set(names))
    return BinsTable.merge(tables)


def breakdowns(store: BinsStore) -> dict[str, BinsTable]:
    return {name: breakdown(store, name) for name in BREAKDOWNS}


def sent(rows: list[Row]) -> list[Row]:
    """The last third of them are clicks."""
    third = len(rows) // 3
    return [*rows[: 2 * third], *((*row[:2], 0.0, 1.0, row[4]) for row in rows[2 * third :])]


def test_every_breakdown_has_each_event_once_whatever_is_repeated(append, redis_client):
    rows, found = drawn_rows(1, 300), []
    for fold_bytes in (1, 1 << 20):
        redis_client.flushall()
        store = BinsStore(redis_client, TTL_SECONDS, fold_bytes=fold_bytes)
        append(batch_of(rows))
        append(batch_of(rows))
        assert store.fold() == len(rows)
        append(batch_of(rows))
        assert store.fold() == 0
        found.append(breakdowns(store))

    assert found[0] == found[1] == {name: expected_of(name, sent(rows)) for name in BREAKDOWNS}


def test_events_without_terms_leave_the_blocks_and_bins_as_they_were(append, store, redis_client):
    plain = [(*row[:4], NO_TERMS) for row in drawn_rows(2, 90)]
    versions = [key[1] for key in _stored(append, redis_client, plain)]
    store.fold()
    fields = {field for key in redis_client.keys("*:bins:*") for field in redis_client.hkeys(key)}

    assert (set(versions), fields) == ({2}, {b"table", b"folds", b"from"})
    assert not any(map(len, breakdowns(store).values()))


def _stored(append: Append, client: redis.Redis, rows: list[Row]) -> Iterator[tuple[bytes, int]]:
    append(batch_of(rows))
    for key in client.keys("*:log:*"):
        yield from ((key, block[4]) for block in client.lrange(key, 0, -1))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fold_that_dies_neither_doubles_nor_loses(append, store, redis_url, moment):
    rows = drawn_rows(3, 90)
    append(batch_of(rows))
    dying: Any = {moment: die}
    with pytest.raises(Died):
        BinsStore(InterruptedRedis(redis_url, "commit_fold", **dying), TTL_SECONDS).fold()

    store.fold()

    assert breakdowns(store) == {name: expected_of(name, sent(rows)) for name in BREAKDOWNS}


@pytest.mark.parametrize("by", ["reading", "folding"])
def test_a_damaged_breakdown_is_set_aside_and_nothing_else(append, store, redis_client, by):
    rows, key = drawn_rows(4, 90), TargetHour(shard_of("a"), "click", HOUR).bins
    append(batch_of(rows))
    store.fold()
    before, bins = breakdowns(store), store.hour("click", HOUR)
    redis_client.hset(key, "bid", redis_client.hget(key, "money") or b"")
    if by == "folding":
        append(batch_of([("a", 0.5, 1.0, 0.0, Terms(bid=2.0))] * 3, first_click=1000))
        store.fold()
    found = breakdowns(store)

    assert Damage(redis_client).counts()["breakdown"] == 1
    assert {"a", "b"} & {*found["bid"].campaigns} == ({"a", "b"} if by == "folding" else {"b"})
    if by == "reading":
        assert {**found, "bid": before["bid"]} == before
        assert store.hour("click", HOUR) == bins


def test_a_breakdown_whose_name_is_damaged_is_noticed(append, store, redis_client):
    key = TargetHour(shard_of("a"), "click", HOUR).bins
    append(batch_of(drawn_rows(5, 90)))
    store.fold()
    redis_client.hset(key, "bie", redis_client.hget(key, "bid") or b"")
    redis_client.hdel(key, "bid")

    breakdown(store, "bid")

    assert Damage(redis_client).counts()["breakdown"] == 1
    assert b"bie" not in redis_client.hkeys(key)


def test_a_sum_that_no_cell_holds_never_stops_the_bins(append, store, redis_client):
    count = 9300
    columns = EventColumns(
        ("a",),
        np.zeros(count, np.intp),
        np.full(count, HOUR),
        np.full(count, 0.5),
        np.zeros(count),
        None,
        np.array([Terms(bid=LARGEST_WEIGHT, cost=1.0)], TERMS).repeat(count),
    )
    batch = EventBatch()
    batch.add_columns("click", columns)
    append(batch)

    assert store.fold() == count
    assert store.hour("click", HOUR).total().total_count == count
    assert breakdown(store, "money").totals()[0].tolist() == [count]
    assert len(breakdown(store, "bid")) == 0
    assert Damage(redis_client).counts()["breakdown"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"arm": 3},
        {"bucket": -2},
        {"bucket": 4096},
        {"bid": -0.5},
        {"cost": float("nan")},
        {"value": LARGEST_WEIGHT * 2},
    ],
)
def test_terms_that_no_event_has_are_damage(bad):
    terms = np.array([NO_TERMS._replace(**bad)], TERMS)
    block = Block(("a",), np.zeros(1, np.uint32), ONE / 2, ONE, ONE, terms)
    fine = encoded(replace(block, terms=np.array([Terms(2, 4095, 1.0, 2.0, 3.0)], TERMS)))

    assert decode_block(fine).terms is not None
    with pytest.raises(ValueError, match=r"must be in|are 0 to"):
        decode_block(encoded(block))
