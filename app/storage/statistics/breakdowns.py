"""Sums by arm, by unit and of money, beside the bins of an hour of an immediate target.

A breakdown is a `BinsTable` whose weights are not those of the bins, a field of the same hash, and
is written by the same commit: what counts in the bins counts in it, exactly once.

    | breakdown                      | row          | score | weight       | positive       |
    | champion, challenger, raw   | campaign     | score | count        | positive       |
    | bid                         | campaign     | score | bid x count  | bid x positive |
    | money                       | campaign     | 0     | cost         | value          |
    | units                       | bucket       | 0     | count        | positive       |
    | unit_money                  | bucket       | 0     | cost         | value          |

An impression and an outcome count 1, a click 0 and adds a positive. A cell holds sums below 9.2e9:
what would exceed that is left out of the breakdown, logged and counted as damage; bins never wait
for a breakdown.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from zlib import crc32

import numpy as np
import redis
from redis.exceptions import ResponseError

from app.storage import keys
from app.storage.blocks import Block, TermColumns, together
from app.storage.integrity.damage import Damage, Damaged, is_wrong_type
from app.storage.keys import BREAKDOWNS, TargetHour
from app.storage.redis.client import as_bytes, reaching_the_store
from calibrators.arms import ARMS
from calibrators.bins.packed_table import PackedTable
from calibrators.bins.table import BinsTable

OF_UNITS: Final = frozenset({"units", "unit_money"})
_FIELDS: Final = frozenset({"table", "folds", *BREAKDOWNS})
_TABLES_AT_ONCE: Final = 32
_log = logging.getLogger(__name__)


class Breakdowns:
    """Adds to breakdowns and reads them. One that cannot be read is set aside, logged and counted,
    and is as if it had never been; the bins beside it stay."""

    def __init__(self, client: redis.Redis, damage: Damage) -> None:
        self._client = client
        self._damage = damage

    def with_blocks(self, log: TargetHour, blocks: Sequence[Block]) -> dict[str, bytes]:
        """The bytes of each breakdown of the log that these blocks, all with terms, add to: what is
        stored now and they together."""
        block = together(blocks) if blocks else None
        if block is None or block.terms is None:
            return {}
        found = {}
        stored = self._client.hmget(log.bins, BREAKDOWNS)
        for name, data in zip(BREAKDOWNS, stored, strict=True):
            try:
                added = _table(name, block, block.terms)
                if len(added):
                    held = None if data is None else as_bytes(data)
                    before = BinsTable.merge_packed(self._read(log, name, held))
                    found[name] = BinsTable.merge((before, added)).to_bytes(_seed(log, name))
            except (OverflowError, ValueError) as error:
                _log.error("%s: %s is left as it is: %s", log.bins, name, error)
                self._damage.count(Damaged.BREAKDOWN)
        return found

    def blocks(self, target: str, name: str, hours: range) -> Iterator[BinsTable]:
        """The sum of the hours, in tables of which none has a row of another's; a shard is read
        when its first is asked for. Units are in all shards, so theirs is one table."""
        if name not in OF_UNITS:
            for shard in range(keys.SHARDS):
                yield from BinsTable.merge_in_blocks(self._shard(shard, target, name, hours))
            return
        yield BinsTable.merge(
            BinsTable.merge_packed(self._shard(shard, target, name, hours))
            for shard in range(keys.SHARDS)
        )

    @reaching_the_store()
    def _shard(self, shard: int, target: str, name: str, hours: range) -> list[PackedTable]:
        """One shard's tables whose sum is that of the hours."""
        held = [TargetHour(shard, target, hour) for hour in hours]
        tables: list[PackedTable] = []
        for at in range(0, len(held), _TABLES_AT_ONCE):
            if tables:
                tables = [BinsTable.merge_packed(tables).packed]
            for place, data in self._fields(held[at : at + _TABLES_AT_ONCE], name):
                tables += self._read(place, name, data)
        return tables

    def _fields(self, held: Sequence[TargetHour], name: str) -> Iterator[tuple[TargetHour, bytes]]:
        pipeline = self._client.pipeline(transaction=False)
        for place in held:
            pipeline.hget(place.bins, name)
            pipeline.hkeys(place.bins)
        replies = pipeline.execute(raise_on_error=False)
        for place, data, fields in zip(held, replies[::2], replies[1::2], strict=True):
            if isinstance(fields, ResponseError):
                if not is_wrong_type(fields):
                    raise fields
                continue  # who reads the bins sets it aside
            for field in fields:
                self._check_name(place, field)
            if data is not None:
                yield place, data

    def _check_name(self, place: TargetHour, field: bytes) -> None:
        """A damaged name must not hide a breakdown."""
        if field.decode(errors="replace") not in _FIELDS:
            _log.error("%s: nobody knows a field %r", place.bins, field)
            self._damage.set_field_aside(Damaged.BREAKDOWN, place, field, None)

    def _read(self, place: TargetHour, name: str, data: bytes | None) -> list[PackedTable]:
        """The stored breakdown; nothing where there is none, or none that can be read."""
        if data is None:
            return []
        try:
            return [PackedTable.from_bytes(data, seed=_seed(place, name))]
        except ValueError as error:
            _log.error("%s of %s: %s", name, place, error)
            self._damage.set_field_aside(Damaged.BREAKDOWN, place, name.encode(), data)
            return []


def _seed(place: TargetHour, name: str) -> int:
    """What the checksum begins with: none fits into another's place."""
    return crc32(name.encode(), place.checksum)


def _table(name: str, block: Block, terms: TermColumns) -> BinsTable:
    """The breakdown of one block with these terms."""
    if name in ARMS:
        return block.chosen(terms["arm"] == ARMS.index(name)).table()
    if name == "bid":
        bids = terms["bid"]
        weighted = replace(block, counts=bids * block.counts, positives=bids * block.positives)
        return weighted.chosen(bids > 0).table()
    if name in ("money", "unit_money"):
        block = replace(block, counts=terms["cost"], positives=terms["value"])
    chosen = block.counts + block.positives > 0
    if name in OF_UNITS:
        buckets, rows = np.unique(terms["bucket"], return_inverse=True)
        block = replace(block, campaigns=tuple(map(str, buckets.tolist())), rows=rows)
        chosen &= terms["bucket"] >= 0
    return replace(block, scores=np.zeros(len(block))).chosen(chosen).table()
