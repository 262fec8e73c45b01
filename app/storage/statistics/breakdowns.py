"""Sums by arm, by unit, of money and by field, beside the bins of an hour of an immediate target;
and what units did by day.

A breakdown is a `BinsTable` whose weights are not those of the bins, a field of the same hash, and
is written by the same commit: what counts in the bins counts in it, exactly once.

    | breakdown                      | row          | score | weight       | positive       |
    | champion, challenger, raw      | campaign     | score | count        | positive       |
    | bid                            | campaign     | score | bid x count  | bid x positive |
    | money                          | campaign     | 0     | cost         | value          |
    | units                          | bucket       | 0     | count        | positive       |
    | unit_money                     | bucket       | 0     | cost         | value          |
    | field:<name>                   | value        | probability | count  | positive       |
    | pair:<name>*<name>             | value U+001F value    | probability | count | positive |
    | campaign:<name>                | campaign U+001F value | probability | count | positive |

An impression and an outcome count 1, a click 0 and adds a positive. A probability is that of the
maps in force when the events were folded, without effects of fields; the score itself where there
were none. `FieldTables` says what a row for the rest is. A cell holds sums below 9.2e9: what would
exceed that is left out of the breakdown, logged and counted as damage; bins never wait for a
breakdown.

Days of units are for A/B analyses, which compare the arms of an experiment with the same buckets in
the time before it. A hash for each target, a field for each day (days since 1970 in UTC).
Little-endian, in the frame of a block: magic "SUDY", schema_version u2, length of the body u4,
CRC-32 of the body u4 (which begins with that of the key and the field); the body holds

    first hour that is not in it u4
    sums i8 (4, 4096), COLUMNS or OF_CLICKS, in fixed point (`calibrators.bins.codecs`)
"""

import logging
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from zlib import crc32

import numpy as np
import redis
from redis.exceptions import ResponseError

from app.settings import Settings
from app.storage import keys
from app.storage.blocks import Block, TermColumns, framed, opened, together
from app.storage.integrity.damage import Damage, Damaged, is_wrong_type
from app.storage.keys import BREAKDOWNS, TargetHour
from app.storage.redis.client import as_bytes, reaching_the_store
from calibrators.arms import ARMS, BUCKETS
from calibrators.bins.codecs import LIMIT, sorted_rows
from calibrators.bins.model_versions import campaign_of
from calibrators.bins.packed_table import PackedTable
from calibrators.bins.table import BinsTable
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.samples import Floats, Integers

LookUp = Callable[[str, Block], Floats]
"""Target and n events -> the probabilities that the maps in force give, (n,)."""

_FIELD, _PAIR, _CAMPAIGN = _KINDS = ("field", "pair", "campaign")
_NAME: Final = "[a-z][a-z0-9_]{0,31}"
IS_OF_FIELDS: Final = re.compile(f"(field|campaign):{_NAME}|pair:{_NAME}\\*{_NAME}").fullmatch
"""Whether a breakdown has the name of one by fields, declared or not any more."""


def identity(target: str, block: Block) -> Floats:
    """The look-up where there are no maps."""
    return block.scores


@dataclass(frozen=True)
class DeclaredFields:
    """Fields, pairs of them as "device*placement", and the targets whose events are summed."""

    names: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    targets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings) -> "DeclaredFields":
        """As the settings declare them."""
        pairs = tuple("*".join(pair) for pair in settings.field_pairs)
        return cls(settings.fields, pairs, frozenset(settings.targets if settings.fields else ()))

    @cached_property
    def breakdowns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(named(FieldTables.empty(self.names, self.pairs)))

    def tables(self, block: Block, probabilities: Floats) -> FieldTables:
        """What the events of a block add up to, whose probabilities, (n,), are these."""
        names, places = sorted_rows([*map(campaign_of, block.campaigns)])
        rows = places[block.rows]
        said = block.fields or {}
        columns = {name: said.get(name) or FieldColumn.missing(len(rows)) for name in self.names}
        events = (probabilities, block.counts, block.positives)
        return FieldTables.from_events(FieldColumn(names, rows), columns, self.pairs, events)


def named(tables: FieldTables) -> dict[str, BinsTable]:
    """The tables by the names of their breakdowns."""
    parts = zip(_KINDS, (tables.fields, tables.pairs, tables.campaigns), strict=True)
    return {f"{kind}:{name}": table for kind, each in parts for name, table in each.items()}


def tables_of(found: Mapping[str, BinsTable]) -> FieldTables:
    """The inverse of `named`."""
    parts: dict[str, dict[str, BinsTable]] = {kind: {} for kind in _KINDS}
    for name, table in found.items():
        kind, _, rest = name.partition(":")
        parts[kind][rest] = table
    return FieldTables(parts[_FIELD], parts[_PAIR], parts[_CAMPAIGN])


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
            return self.fields.tables(block, self.look_up(log.target, block))

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
        when its first is asked for, and of one hour all shards together. Units are in all shards,
        so theirs is one table."""
        by_shard = self._by_shard(target, name, hours)
        if name not in OF_UNITS:
            for tables in by_shard:
                yield from BinsTable.merge_in_blocks(tables)
            return
        yield BinsTable.merge(map(BinsTable.merge_packed, by_shard))

    def _by_shard(self, target: str, name: str, hours: range) -> Iterable[list[PackedTable]]:
        if len(hours) == 1:
            return self._hour(target, name, hours[0])
        return (self._shard(shard, target, name, hours) for shard in range(keys.SHARDS))

    @reaching_the_store()
    def _hour(self, target: str, name: str, hour: int) -> list[list[PackedTable]]:
        """The tables of one hour by shard."""
        held = [TargetHour(shard, target, hour) for shard in range(keys.SHARDS)]
        return [self._read(place, name, found[0]) for place, found in self._fields(held, (name,))]

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


COLUMNS: Final = ("impressions", "outcomes", "cost", "value")
"""Of an immediate target."""
OF_CLICKS: Final = ("clicks", "conversions", "arrived", "value")
"""Of a delayed target, by day of the click: `conversions` are those that have arrived and those
that are expected, `value` is theirs."""
DAYS_KEPT: Final = 60

_MAGIC: Final = b"SUDY"
_UNTIL: Final = struct.Struct("<I")
_LONGEST_DAY: Final = 6
_MOST: Final = int(LIMIT)


class UnitDays:
    """The last days of each target that has any units. A day that cannot be read is set aside."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._damage = Damage(client)

    @reaching_the_store()
    def read(self, target: str) -> dict[int, Integers]:
        """Sums by day, ascending: int64 of shape (4, 4096), the COLUMNS of each bucket, or
        OF_CLICKS."""
        return {day: sums for day, (_, sums) in self._read(target).items()}

    @reaching_the_store()
    def counted(self, target: str) -> dict[int, int]:
        """The hour behind the last that is in each day."""
        return {day: until for day, (until, _) in self._read(target).items()}

    def _read(self, target: str) -> dict[int, tuple[int, Integers]]:
        found = {day: self._day(target, day) for day in sorted(self._known(target))}
        return {day: one for day, one in found.items() if one[0]}

    @reaching_the_store()
    def until(self, target: str) -> int:
        """The hour behind the last that was added; 0 if there is none."""
        newest = max(self._known(target), default=None)
        return 0 if newest is None else self._day(target, newest)[0]

    @reaching_the_store()
    def add(self, target: str, hour: int, units: BinsTable, money: BinsTable) -> None:
        """Add an hour's breakdowns `units` and `unit_money`, unless this hour or a later one of its
        day is in it; days before the last DAYS_KEPT go."""
        day = hour // 24
        until, before = self._day(target, day)
        if hour < until:
            return
        added = np.zeros_like(before)
        for table, rows in ((units, (0, 1)), (money, (2, 3))):
            buckets = np.array([int(name) for name in table.campaigns], np.int64)[table.rows]
            added[rows[0], buckets], added[rows[1], buckets] = table.sums[0], table.sums[2]
        # More than a sum can hold stays the most that it can.
        self.put(target, day, hour + 1, np.minimum(before, _MOST - added) + added)

    @reaching_the_store()
    def put(self, target: str, day: int, until: int, sums: Integers) -> None:
        """What a day is from now on; days before the last DAYS_KEPT go."""
        key, pipeline = keys.unit_days(target), self._client.pipeline(transaction=True)
        pipeline.hset(key, str(day), pack_day(until, sums, _seed_of_day(key, day)))
        for old in (one for one in self._known(target) if one <= day - DAYS_KEPT):
            pipeline.hdel(key, str(old))
        pipeline.expire(key, (DAYS_KEPT + 1) * 24 * 3600)
        pipeline.execute()

    def _known(self, target: str) -> set[int]:
        """The days that there are; a damaged name must not hide one."""
        key, known = keys.unit_days(target), set()
        try:
            names = list(map(as_bytes, self._client.hkeys(key)))
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._damage.set_key_aside(Damaged.BREAKDOWN, key)
            names = []
        for name in names:
            if name.isdigit() and len(name) <= _LONGEST_DAY and not name.startswith(b"0"):
                known.add(int(name))
            else:
                self._set_aside(key, name, name)
        return known

    def _day(self, target: str, day: int) -> tuple[int, Integers]:
        """The hour behind its last, and its sums; 0 and none of a day that is not there."""
        key = keys.unit_days(target)
        none = (0, np.zeros((len(COLUMNS), BUCKETS), np.int64))
        data = self._client.hget(key, str(day))
        if data is None:
            return none
        try:
            return unpack_day(as_bytes(data), _seed_of_day(key, day))
        except ValueError as error:
            _log.error("day %s of %s: %s", day, key, error)
            self._set_aside(key, str(day).encode(), as_bytes(data))
            return none

    def _set_aside(self, key: str, name: bytes, data: bytes) -> None:
        self._client.hdel(key, name)
        self._damage.keep(Damaged.BREAKDOWN, 0, data)


def _seed_of_day(key: str, day: int) -> int:
    return crc32(f"{key}:{day}".encode())


def pack_day(until: int, sums: Integers, seed: int) -> bytes:
    """The bytes of a day."""
    return framed(_MAGIC, _UNTIL.pack(until) + sums.astype("<i8").tobytes(), seed)


def unpack_day(data: bytes, seed: int) -> tuple[int, Integers]:
    """The inverse; ValueError on bytes of another kind, version or place, and on any damage."""
    body, _ = opened(_MAGIC, data, seed)
    sums = np.frombuffer(body, "<i8", len(COLUMNS) * BUCKETS, _UNTIL.size)
    return _UNTIL.unpack_from(body)[0], sums.reshape(len(COLUMNS), BUCKETS).astype(np.int64)
