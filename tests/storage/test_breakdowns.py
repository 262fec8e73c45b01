"""Breakdowns: sums by arm, by unit, of money, by field, by pair, and by campaign and value: exactly
once beside the bins, and those by field bounded."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import redis

from app.storage.batch import Cell, EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import (
    LARGEST_WEIGHT,
    NO_TERMS,
    TERMS,
    Block,
    Terms,
    decode_block,
    decode_blocks,
)
from app.storage.clicks import OpenClick
from app.storage.event_columns import EventColumns, FieldValues, columns_of, pack_fields
from app.storage.integrity.damage import Damage
from app.storage.keys import BREAKDOWNS, TargetHour, shard_of
from app.storage.statistics.breakdowns import DeclaredFields, named
from calibrators import BinsTable
from calibrators.arms import ARMS
from calibrators.fields import sums
from calibrators.fields.columns import unpack_fields
from calibrators.fields.sums import OTHER, SEPARATOR
from calibrators.samples import Floats
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.interrupted_redis import Died, InterruptedRedis, die
from tests.storage.packing import encoded, marked

CAMPAIGNS = ("a", "b", "größe")
DECLARED = DeclaredFields(("device", "placement"), ("device*placement",), frozenset({"click"}))
KEY = TargetHour(shard_of("a"), "click", HOUR).bins
ONE = np.ones(1)
SAID: tuple[FieldValues | None, ...] = (
    None,
    {"device": "ios"},
    {"device": "android", "placement": "top"},
    {"placement": "x" * 256},
    {"placement": "größe", "device": "ios"},
)

Row = tuple[str, float, float, float, Terms, FieldValues | None]


def drawn_rows(seed: int, count: int) -> list[Row]:
    """Campaign, score, count, positive, terms and fields of impressions; some have none."""
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
        (
            draw.choice(CAMPAIGNS),
            draw.random(),
            1.0,
            0.0,
            draw.choice([one, NO_TERMS]),
            draw.choice(SAID),
        )
        for one in terms
    ]


def sent(rows: list[Row]) -> list[Row]:
    """As `batch_of` sends them: the last third of them are clicks."""
    third = len(rows) // 3
    return [*rows[: 2 * third], *((*row[:2], 0.0, 1.0, *row[4:]) for row in rows[2 * third :])]


def batch_of(rows: list[Row], ids: str = "") -> EventBatch:
    """A third one by one, a third as columns, all with ids, and a third as clicks."""
    batch, third = EventBatch(), len(rows) // 3
    for number, (campaign, score, count, positive, terms, said) in enumerate(rows[:third]):
        given = None if terms == NO_TERMS else terms
        event = "click", HOUR, campaign, score, count, positive, f"e{ids}{number}"
        batch.add(*event, terms=given, fields=said)
    some = rows[third : 2 * third]
    columns = EventColumns(
        CAMPAIGNS,
        np.array([CAMPAIGNS.index(row[0]) for row in some]),
        np.full(third, HOUR),
        np.array([row[1] for row in some]),
        np.zeros(third),
        [f"c{ids}{number}" for number in range(third)],
        np.array([row[4] for row in some], TERMS),
        fields=columns_of([row[5] for row in some]),
    )
    batch.add_columns("click", columns)
    for place, (campaign, score, _, _, terms, said) in enumerate(rows[2 * third :]):
        cell = Cell("click", HOUR, score, None if terms == NO_TERMS else terms, said)
        click = OpenClick(f"k{ids}{place}", campaign, HOUR * 3600.0)
        batch.add_click(place, click, opens=False, cell=cell)
    return batch


def halved(target: str, block: Block) -> Floats:
    """The maps in force: those of `a` predict half of what all others do."""
    is_a = np.array([name == "a" for name in block.campaigns])[block.rows]
    return np.where(is_a, block.scores / 2, block.scores)


def table_of(rows: Iterable[tuple[str, float, float, float]]) -> BinsTable:
    names, *columns = zip(*rows, strict=True)
    return BinsTable.from_columns(names, np.arange(len(names)), *map(np.array, columns))


def expected_of(rows: Iterable[Row]) -> dict[str, BinsTable]:
    """The breakdowns by terms as the table of their rules has them, event by event."""
    found: dict[str, list[tuple[str, float, float, float]]] = {name: [] for name in BREAKDOWNS}
    for campaign, score, count, positive, terms, _ in rows:
        bucket, bid, money = str(terms.bucket), terms.bid, (terms.cost, terms.value)
        of_unit = terms.bucket >= 0
        if terms.arm < len(ARMS):
            found[ARMS[terms.arm]].append((campaign, score, count, positive))
        if bid > 0:
            found["bid"].append((campaign, score, bid * count, bid * positive))
        if max(money) > 0:
            found["money"].append((campaign, 0.0, *money))
        if of_unit:
            found["units"].append((bucket, 0.0, count, positive))
        if of_unit and max(money) > 0:
            found["unit_money"].append((bucket, 0.0, *money))
    return {name: table_of(counted) for name, counted in found.items()}


def expected_by_field(rows: Iterable[Row]) -> dict[str, BinsTable]:
    """The same of those by field."""
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    for campaign, score, count, positive, _, said in rows:
        device, placement = ((said or {}).get(name, OTHER) for name in DECLARED.names)
        event = (score / 2 if campaign == "a" else score, count, positive)
        named_rows = {
            "field:device": device,
            "field:placement": placement,
            "pair:device*placement": device + SEPARATOR + placement,
            "campaign:device": campaign + SEPARATOR + device,
            "campaign:placement": campaign + SEPARATOR + placement,
        }
        for name, row in named_rows.items():
            found.setdefault(name, []).append((row, *event))
    return {name: table_of(events) for name, events in found.items()}


@pytest.fixture
def store(redis_client) -> BinsStore:
    return store_of(redis_client)


def store_of(client: redis.Redis, **more: Any) -> BinsStore:
    store = BinsStore(client, TTL_SECONDS, fields=DECLARED, **more)
    store.fold_with(halved)
    return store


def breakdown(store: BinsStore, name: str) -> BinsTable:
    tables = list(store.breakdown("click", name, HOUR, HOUR + 1))
    names = [campaign for table in tables for campaign in table.campaigns]
    assert len(names) == len(set(names))
    return BinsTable.merge(tables)


def breakdowns(store: BinsStore) -> dict[str, BinsTable]:
    return {name: breakdown(store, name) for name in BREAKDOWNS}


def by_field(store: BinsStore) -> dict[str, BinsTable]:
    return named(store.field_tables("click", HOUR))


def test_every_breakdown_has_each_event_once_whatever_is_repeated(append, redis_client):
    rows = drawn_rows(1, 300)
    for fold_bytes in (1, 1 << 20):
        redis_client.flushall()
        store = store_of(redis_client, fold_bytes=fold_bytes)
        append(batch_of(rows))
        append(batch_of(rows))
        assert store.fold() == len(rows)
        append(batch_of(rows))
        assert store.fold() == 0

        assert breakdowns(store) == expected_of(sent(rows))
        assert by_field(store) == expected_by_field(sent(rows))


def test_a_breakdown_of_many_hours_is_the_sum_of_theirs(append, store):
    batch, hours = EventBatch(), (HOUR, HOUR + 1, HOUR + 40)
    for hour in hours:
        for campaign in CAMPAIGNS:
            event = "click", hour, campaign, 0.5, 1.0, 0.0
            batch.add(*event, terms=Terms(bucket=7, bid=2.0))
    append(batch)
    store.fold()

    for name in ("bid", "units"):
        each = (store.breakdown("click", name, hour, hour + 1) for hour in hours)
        whole = BinsTable.merge(store.breakdown("click", name, HOUR, HOUR + 41))
        assert whole == BinsTable.merge(map(BinsTable.merge, each))
        assert whole.total().total_count == len(hours) * len(CAMPAIGNS) * (1 + (name == "bid"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fold_that_dies_neither_doubles_nor_loses(append, store, redis_url, moment):
    rows = drawn_rows(3, 90)
    append(batch_of(rows))
    dying: Any = {moment: die}
    with pytest.raises(Died):
        store_of(InterruptedRedis(redis_url, "commit_fold", **dying)).fold()

    store.fold()

    assert breakdowns(store) == expected_of(sent(rows))
    assert by_field(store) == expected_by_field(sent(rows))


def test_what_nobody_says_or_declares_leaves_blocks_and_bins_as_they_were(append, redis_client):
    append(batch_of([(*row[:4], NO_TERMS, None) for row in drawn_rows(2, 90)]))
    logs = (redis_client.lrange(key, 0, -1) for key in redis_client.keys("*:log:*"))
    versions = {block[4] for blocks in logs for block in blocks}
    append(batch_of([(*row[:4], NO_TERMS, row[5]) for row in drawn_rows(4, 90)], "more"))
    plain = BinsStore(redis_client, TTL_SECONDS)
    plain.fold()
    names = {name for key in redis_client.keys("*:bins:*") for name in redis_client.hkeys(key)}

    assert (versions, names) == ({2}, {b"table", b"folds", b"from"})
    assert not any(map(len, breakdowns(plain).values()))
    assert by_field(plain) == {}


def test_rows_beyond_the_bounds_count_as_others(append, store, monkeypatch):
    for bound in ("MOST_VALUES", "MOST_PAIRS", "MOST_CAMPAIGN_VALUES"):
        monkeypatch.setattr(sums, bound, 2)
    rows = drawn_rows(6, 300)
    for first in range(0, 300, 60):
        append(batch_of(rows[first : first + 60], str(first)))
        store.fold()
    thirds = [row for first in range(0, 300, 60) for row in sent(rows[first : first + 60])]
    found, whole = by_field(store), expected_by_field(thirds)

    assert max(len(table) for table in found.values()) <= 2 + 2 + 1
    for name, table in found.items():
        assert (table.total().sums == whole[name].total().sums).all()


@pytest.mark.parametrize("by", ["reading", "folding"])
def test_a_damaged_breakdown_is_set_aside_and_nothing_else(append, store, redis_client, by):
    append(batch_of(drawn_rows(4, 90)))
    store.fold()
    before, bins = {**breakdowns(store), **by_field(store)}, store.hour("click", HOUR)
    for name, other in (("bid", "money"), ("field:device", "field:placement")):
        redis_client.hset(KEY, name, redis_client.hget(KEY, other) or b"")
    # Of fields that nobody declares any more, one is as it was, and one's name is damaged.
    redis_client.hset(KEY, "campaign:devize", redis_client.hget(KEY, "campaign:device") or b"")
    if by == "folding":
        append(batch_of([("a", 0.5, 1.0, 0.0, Terms(bid=2.0), None)] * 3, "more"))
        store.fold()
    found = {**breakdowns(store), **by_field(store)}

    assert Damage(redis_client).counts()["breakdown"] == 3
    assert b"campaign:devize" not in redis_client.hkeys(KEY)
    assert {"a", "b"} & {*found["bid"].campaigns} == ({"a", "b"} if by == "folding" else {"b"})
    if by == "reading":
        damaged = {name: before[name] for name in ("bid", "field:device")}
        assert {**found, **damaged} == before
        assert store.hour("click", HOUR) == bins


def test_a_breakdown_whose_name_is_damaged_is_noticed(append, store, redis_client):
    append(batch_of(drawn_rows(5, 90)))
    store.fold()
    redis_client.hset(KEY, "bie", redis_client.hget(KEY, "bid") or b"")
    redis_client.hdel(KEY, "bid")

    breakdown(store, "bid")

    assert Damage(redis_client).counts()["breakdown"] == 1
    assert b"bie" not in redis_client.hkeys(KEY)


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


def test_fields_of_a_block_come_back_from_it_and_from_many_at_once():
    said = [SAID[place % len(SAID)] for place in range(40)]
    ones = np.ones(40)
    block = Block(("a",), np.zeros(40, np.uint32), ones / 2, ones, ones * 0, None, columns_of(said))
    data = encoded(block)
    marks = bytes([1, 0] * 20)
    (run, *others) = decode_blocks([data, data, marked(data, marks)])

    def values(found: Block, name: str) -> list[str]:
        names, codes = (found.fields or {})[name]
        return [names[code] for code in codes.tolist()]

    for name in DECLARED.names:
        expected = [(one or {}).get(name, OTHER) for one in said]
        assert values(decode_block(data), name) == expected
        assert [values(one, name) for one in (run, *others)].count(expected[1::2]) == 1
    assert data[4] == 4


def test_bytes_of_fields_that_no_writer_would_write_are_refused():
    packed = pack_fields(columns_of(list(SAID)))
    for at in range(len(packed)):
        for data in (packed[:at], packed[:at] + bytes([packed[at] ^ 0x80]) + packed[at + 1 :]):
            try:
                found = unpack_fields(data, len(SAID))
            except ValueError:
                continue
            assert all(len(column.codes) == len(SAID) for column in found.values())
    with pytest.raises(ValueError, match="points beyond"):
        unpack_fields(packed[:-2] + b"\xff\xff", len(SAID))
