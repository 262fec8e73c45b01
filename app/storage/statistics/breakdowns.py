"""Sums by arm, by unit, of money and by field, beside the bins of an hour of an immediate target.

A breakdown is a `BinsTable` whose weights are not those of the bins, a field of the same hash, and
is written by the same commit: what counts in the bins counts in it, exactly once.

    | breakdown                      | row          | score | weight       | positive       |
    | champion, challenger, raw   | campaign     | score | count        | positive       |
    | bid                         | campaign     | score | bid x count  | bid x positive |
    | money                       | campaign     | 0     | cost         | value          |
    | units                       | bucket       | 0     | count        | positive       |
    | unit_money                  | bucket       | 0     | cost         | value          |

Those by field stand in `field_sums.py`. An impression and an outcome count 1, a click 0 and adds a
positive. A cell holds sums below 9.2e9: what would exceed that is left out of the breakdown, logged
and counted as damage; bins never wait for a breakdown.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
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
from app.storage.statistics.field_sums import (
    IS_OF_FIELDS,
    DeclaredFields,
    LookUp,
    identity,
    named,
    tables_of,
)
from calibrators.arms import ARMS
from calibrators.bins.packed_table import PackedTable
from calibrators.bins.table import BinsTable
from calibrators.fields.sums import FieldTables

OF_UNITS: Final = frozenset({"units", "unit_money"})
FROM: Final = "from"
"""The field beside them that says which batches of logs are in all of these, `folding.py`."""
_FIELDS: Final = frozenset({"table", "folds", FROM, *BREAKDOWNS})
_TABLES_AT_ONCE: Final = 32
_Stored = bytes | str | None
_log = logging.getLogger(__name__)


class Breakdowns:
    """Adds to breakdowns and reads them. One that cannot be read is set aside, logged and counted,
    and is as if it had never been; the bins beside it stay. `fields` are those that are declared,
    and `look_up` says what the maps in force give: who folds sets both."""

    def __init__(self, client: redis.Redis, damage: Damage) -> None:
        self._client = client
        self._damage = damage
        self.fields = DeclaredFields()
        self.look_up: LookUp = identity

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
                    before = BinsTable.merge_packed(self._read(log, name, data))
                    found[name] = BinsTable.merge((before, added)).to_bytes(_seed(log, name))
            except (OverflowError, ValueError) as error:
                _log.error("%s: %s is left as it is: %s", log.bins, name, error)
                self._damage.count(Damaged.BREAKDOWN)
        return found

    def with_fields(self, log: TargetHour, blocks: Sequence[Block]) -> dict[str, bytes]:
        """The same of the breakdowns by field, of all blocks."""
        if not any(map(len, blocks)):
            return {}

        def added() -> FieldTables:
            block = together(blocks)
            rows = block.rows.astype(np.int64)
            found = self.look_up(log.target, block.campaigns, rows, block.scores)
            return self.fields.tables(block, found)

        return self.with_tables(log, added)

    def with_tables(self, log: TargetHour, added: Callable[[], FieldTables]) -> dict[str, bytes]:
        """The same of sums that `added` makes."""
        stored = self._client.hmget(log.bins, self.fields.breakdowns)
        try:
            tables = FieldTables.merge((self._field_tables(log, stored), added()))
        except (OverflowError, ValueError) as error:
            _log.error("%s: sums by field are left as they are: %s", log.bins, error)
            self._damage.count(Damaged.BREAKDOWN)
            return {}
        return {name: table.to_bytes(_seed(log, name)) for name, table in named(tables).items()}

    @reaching_the_store()
    def field_tables(self, target: str, hour: int) -> FieldTables:
        """The sums of an hour by declared field; nothing where there is none."""
        if not self.fields.names:
            return FieldTables.empty()
        held = [TargetHour(shard, target, hour) for shard in range(keys.SHARDS)]
        found = self._fields(held, self.fields.breakdowns)
        return FieldTables.merge(self._field_tables(place, stored) for place, stored in found)

    def _field_tables(self, place: TargetHour, stored: Sequence[_Stored]) -> FieldTables:
        """Of what is stored of the declared breakdowns, in their order."""
        found = zip(self.fields.breakdowns, stored, strict=True)
        read = {name: self._read(place, name, data) for name, data in found}
        return tables_of({name: BinsTable.merge_packed(some) for name, some in read.items()})

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
            for place, found in self._fields(held[at : at + _TABLES_AT_ONCE], (name,)):
                tables += self._read(place, name, found[0])
        return tables

    def _fields(
        self, held: Sequence[TargetHour], names: Sequence[str]
    ) -> Iterator[tuple[TargetHour, list[_Stored]]]:
        pipeline = self._client.pipeline(transaction=False)
        for place in held:
            pipeline.hmget(place.bins, names)
            pipeline.hkeys(place.bins)
        replies = pipeline.execute(raise_on_error=False)
        for place, data, fields in zip(held, replies[::2], replies[1::2], strict=True):
            if isinstance(fields, ResponseError):
                if not is_wrong_type(fields):
                    raise fields
                continue  # who reads the bins sets it aside
            for field in fields:
                self._check_name(place, field)
            yield place, data

    def _check_name(self, place: TargetHour, field: bytes) -> None:
        """A damaged name must not hide a breakdown."""
        name = field.decode(errors="replace")
        if name in _FIELDS or name in self.fields.breakdowns or keys.IS_LOADED(name):
            return
        if IS_OF_FIELDS(name):
            # Declared once, or damaged: then its bytes are those of another.
            self._read(place, name, self._client.hget(place.bins, name))
        else:
            _log.error("%s: nobody knows a field %r", place.bins, field)
            self._damage.set_field_aside(Damaged.BREAKDOWN, place, field, None)

    def _read(self, place: TargetHour, name: str, data: _Stored) -> list[PackedTable]:
        """The stored breakdown; nothing where there is none, or none that can be read."""
        if data is None:
            return []
        try:
            return [PackedTable.from_bytes(as_bytes(data), seed=_seed(place, name))]
        except ValueError as error:
            _log.error("%s of %s: %s", name, place, error)
            self._damage.set_field_aside(Damaged.BREAKDOWN, place, name.encode(), as_bytes(data))
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
