"""Sums by field, by pair, and by campaign and value: exactly once beside the bins, and bounded."""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import redis

from app.storage.batch import Cell, EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import Block, decode_block, decode_blocks
from app.storage.clicks import OpenClick
from app.storage.event_columns import EventColumns, FieldValues, columns_of, pack_fields
from app.storage.integrity.damage import Damage
from app.storage.keys import TargetHour, shard_of
from app.storage.statistics.breakdowns import DeclaredFields, named
from calibrators import BinsTable
from calibrators.fields import sums
from calibrators.fields.columns import unpack_fields
from calibrators.fields.sums import OTHER, SEPARATOR
from calibrators.samples import Floats, Integers
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.interrupted_redis import Died, InterruptedRedis, die
from tests.storage.packing import encoded, marked

CAMPAIGNS = ("a", "b", "größe")
DECLARED = DeclaredFields(("device", "placement"), ("device*placement",), frozenset({"click"}))
LONG = "x" * 256
SAID: tuple[FieldValues | None, ...] = (
    None,
    {"device": "ios"},
    {"device": "android", "placement": "top"},
    {"placement": LONG},
    {"placement": "größe", "device": "ios"},
)

Row = tuple[str, float, float, float, FieldValues | None]


def drawn_rows(seed: int, count: int) -> list[Row]:
    """Campaign, score, count, positive and fields of impressions."""
    draw = random.Random(seed)
    return [
        (draw.choice(CAMPAIGNS), draw.random(), 1.0, 0.0, draw.choice(SAID)) for _ in range(count)
    ]


def sent(rows: list[Row]) -> list[Row]:
    """As `batch_of` sends them: the last third of them are clicks."""
    third = len(rows) // 3
    return [*rows[: 2 * third], *((*row[:2], 0.0, 1.0, row[4]) for row in rows[2 * third :])]


def batch_of(rows: list[Row], ids: str = "") -> EventBatch:
    """A third one by one, a third as columns, all with ids, and a third as clicks."""
    batch, third = EventBatch(), len(rows) // 3
    for number, (campaign, score, count, positive, said) in enumerate(rows[:third]):
        batch.add("click", HOUR, campaign, score, count, positive, f"e{ids}{number}", fields=said)
    some = rows[third : 2 * third]
    columns = EventColumns(
        CAMPAIGNS,
        np.array([CAMPAIGNS.index(row[0]) for row in some]),
        np.full(third, HOUR),
        np.array([row[1] for row in some]),
        np.zeros(third),
        [f"c{ids}{number}" for number in range(third)],
        fields=columns_of([row[4] for row in some]),
    )
    batch.add_columns("click", columns)
    for place, (campaign, score, _, _, said) in enumerate(rows[2 * third :]):
        click = OpenClick(f"k{ids}{place}", campaign, HOUR * 3600.0)
        batch.add_click(place, click, opens=False, cell=Cell("click", HOUR, score, fields=said))
    return batch


def halved(target: str, campaigns: Any, rows: Integers, scores: Floats) -> Floats:
    """The maps in force: those of `a` predict half of what all others do."""
    is_a = np.array([name == "a" for name in campaigns])[rows]
    return np.where(is_a, scores / 2, scores)


def expected_of(rows: Iterable[Row]) -> dict[str, BinsTable]:
    """The breakdowns as the tables of their rules have them, event by event."""
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    for campaign, score, count, positive, said in rows:
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
    tables = {}
    for name, events in found.items():
        names, *columns = zip(*events, strict=True)
        arrays = (np.array(column) for column in columns)
        tables[name] = BinsTable.from_columns(names, np.arange(len(names)), *arrays)
    return tables


@pytest.fixture
def store(redis_client) -> BinsStore:
    return store_of(redis_client)


def store_of(client: redis.Redis, **more: Any) -> BinsStore:
    store = BinsStore(client, TTL_SECONDS, fields=DECLARED, **more)
    store.fold_with(halved)
    return store


def summed(store: BinsStore) -> dict[str, BinsTable]:
    return named(store.field_tables("click", HOUR))


def test_every_sum_has_each_event_once_whatever_is_repeated(append, redis_client):
    rows = drawn_rows(1, 300)
    for fold_bytes in (1, 1 << 20):
        redis_client.flushall()
        store = store_of(redis_client, fold_bytes=fold_bytes)
        append(batch_of(rows))
        append(batch_of(rows))
        assert store.fold() == len(rows)
        append(batch_of(rows))
        assert store.fold() == 0

        assert summed(store) == expected_of(sent(rows))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fold_that_dies_neither_doubles_nor_loses(append, store, redis_url, moment):
    rows = drawn_rows(3, 90)
    append(batch_of(rows))
    dying: Any = {moment: die}
    with pytest.raises(Died):
        store_of(InterruptedRedis(redis_url, "commit_fold", **dying)).fold()

    store.fold()

    assert summed(store) == expected_of(sent(rows))


def test_without_declared_fields_nothing_is_summed_and_blocks_are_as_they_were(
    append, redis_client
):
    append(batch_of([(*row[:4], None) for row in drawn_rows(2, 90)]))
    versions = {
        block[4]
        for key in redis_client.keys("*:log:*")
        for block in redis_client.lrange(key, 0, -1)
    }
    append(batch_of(drawn_rows(4, 90), "more"))
    plain = BinsStore(redis_client, TTL_SECONDS)
    plain.fold()
    names = {name for key in redis_client.keys("*:bins:*") for name in redis_client.hkeys(key)}

    assert (versions, names) == ({2}, {b"table", b"folds", b"from"})
    assert summed(plain) == {}


def test_rows_beyond_the_bounds_count_as_others(append, store, monkeypatch):
    for bound in ("MOST_VALUES", "MOST_PAIRS", "MOST_CAMPAIGN_VALUES"):
        monkeypatch.setattr(sums, bound, 2)
    rows = drawn_rows(6, 300)
    for first in range(0, 300, 60):
        append(batch_of(rows[first : first + 60], str(first)))
        store.fold()
    thirds = [row for first in range(0, 300, 60) for row in sent(rows[first : first + 60])]
    found, whole = summed(store), expected_of(thirds)

    assert max(len(table) for table in found.values()) <= 2 + 2 + 1
    for name, table in found.items():
        assert (table.total().sums == whole[name].total().sums).all()


@pytest.mark.parametrize("by", ["reading", "folding"])
def test_a_damaged_sum_is_set_aside_and_nothing_else(append, store, redis_client, by):
    key = TargetHour(shard_of("a"), "click", HOUR).bins
    append(batch_of(drawn_rows(7, 90)))
    store.fold()
    before, bins = summed(store), store.hour("click", HOUR)
    redis_client.hset(key, "field:device", redis_client.hget(key, "field:placement") or b"")
    # Of fields that nobody declares any more, one is as it was, and one's name is damaged.
    data = redis_client.hget(key, "campaign:device") or b""
    redis_client.hset(key, "campaign:devize", data)
    if by == "folding":
        append(batch_of([("a", 0.5, 1.0, 0.0, None)] * 3))
        store.fold()
    found = summed(store)

    assert Damage(redis_client).counts()["breakdown"] == 2
    assert b"campaign:devize" not in redis_client.hkeys(key)
    if by == "reading":
        assert {**found, "field:device": before["field:device"]} == before
        assert store.hour("click", HOUR) == bins


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
