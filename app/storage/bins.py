"""Bins by target and hour in Redis, one table for each of 16 shards: reading and writing; and the
evidence of whether their campaigns are off.

A refit reads many hours of a shard and unpacks them a block of campaigns at a time. How events
become bins stands in `statistics/folding.py`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

import redis
from redis.exceptions import ResponseError

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.blocks import framed, opened
from app.storage.integrity.damage import Damage, Damaged, is_wrong_type
from app.storage.keys import TargetHour
from app.storage.redis.client import NO_REPLICAS, Replicas, as_bytes, reaching_the_store
from app.storage.statistics.breakdowns import DeclaredFields, LookUp, UnitDays
from app.storage.statistics.folding import Folding
from calibrators.bins.codecs import even_spans, places_between
from calibrators.bins.packed_table import PackedTable
from calibrators.bins.table import BinsTable, HourTables, sums_of_block, sums_of_packed
from calibrators.evidence import FORGOTTEN_HOURS, PcocEvidence
from calibrators.fields.sums import FieldTables
from calibrators.samples import MANY, Scratch, let_go

BYTES_AT_ONCE = 32 * 1024 * 1024
"""Blocks that are folded together at most, but for a last page of each log."""

_EVIDENCE: Final = b"SEVD"
_log = logging.getLogger(__name__)

CAMPAIGNS = 1024
"""Campaigns of a block at most: bounds the memory of a refit, however many there are."""


def hour_blocks(
    tables: Mapping[int, PackedTable], campaigns: int = CAMPAIGNS
) -> Iterator[HourTables]:
    """The same tables in blocks, none with a campaign of another's; an hour in which none of a
    block's campaigns has bins is left out."""
    # Many hours share their campaigns, which are gone through once.
    distinct = {id(table.campaigns): table.campaigns for table in tables.values()}
    names = sorted(set().union(*distinct.values()))
    for first, behind in even_spans(names, campaigns):
        found = ((hour, campaigns_between(table, first, behind)) for hour, table in tables.items())
        yield {hour: table for hour, table in found if len(table)}
        let_go()


def campaigns_between(table: PackedTable, first: str, behind: str | None) -> BinsTable:
    """The campaigns of first <= name < behind, of which alone the columns are unpacked."""
    part = table.part(*places_between(table.campaigns, first, behind))
    return BinsTable.merge_packed([part])


_Reply = bytes | ResponseError | None

TABLES_AT_ONCE = 32

_FIRST_TABLES = 4
_REPLY_BYTES = 16 * 1024 * 1024
"""Tables are asked for together up to about so many bytes: far longer replies take Redis several
times as long a byte, for memory that neither it nor the processor's cache has at hand."""
_WRITE_BYTES = 1024 * 1024
"""Tables are written together up to so many bytes."""


class EvidenceStore:
    """What the evaluated hours said of each campaign, by target and shard, and of the target as a
    whole: in the frame of a block with the magic "SEVD", whose checksum begins with the key's.

    Lives as long as a campaign without traffic is remembered. What cannot be read is set aside,
    and begins anew.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._damage = Damage(client)

    def shards(self, target: str) -> Iterator[PcocEvidence]:
        """Of all campaigns of the target, shard after shard."""
        return (self.read(target, shard) for shard in range(keys.SHARDS))

    @reaching_the_store()
    def read(self, target: str, shard: int | None) -> PcocEvidence:
        """Of the campaigns of one shard; without one, of the target, whose name is empty."""
        key = keys.evidence(target, shard)
        try:
            data = self._client.get(key)
            return PcocEvidence.empty() if data is None else unpack_evidence(as_bytes(data), key)
        except (ValueError, ResponseError) as error:
            if isinstance(error, ResponseError) and not is_wrong_type(error):
                raise
            _log.error("%s: %s", key, error)
            self._damage.set_key_aside(Damaged.EVIDENCE, key)
            return PcocEvidence.empty()

    @reaching_the_store()
    def write(self, target: str, shard: int | None, evidence: PcocEvidence) -> None:
        """Replace it."""
        key = keys.evidence(target, shard)
        self._client.set(key, pack_evidence(evidence, key), ex=FORGOTTEN_HOURS * SECONDS_PER_HOUR)


def pack_evidence(evidence: PcocEvidence, key: str) -> bytes:
    """The bytes under the key."""
    return framed(_EVIDENCE, evidence.to_bytes(), crc32(key.encode()))


def unpack_evidence(data: bytes, key: str) -> PcocEvidence:
    """The inverse; ValueError on bytes of another kind, version or key, and on any damage."""
    return PcocEvidence.from_bytes(opened(_EVIDENCE, data, crc32(key.encode()))[0])


class BinsStore:
    """What the worker reads and writes. Every write renews a life of ttl_seconds, and for bins of
    calibrated probabilities of calibrated_seconds where given.

    A table that cannot be read is set aside, logged and counted, and is as if it had never been;
    `damage` lists it. `evidence` says which campaigns are off, `unit_days` what units did.
    Events are summed by the `fields` that are declared.
    """

    def __init__(
        self,
        client: redis.Redis,
        ttl_seconds: int,
        fold_bytes: int = BYTES_AT_ONCE,
        calibrated_seconds: int | None = None,
        fields: DeclaredFields | None = None,
        replicas: Replicas = NO_REPLICAS,
    ) -> None:
        self._client = client
        self._calibrated_seconds = ttl_seconds if calibrated_seconds is None else calibrated_seconds
        self._folding = Folding(client, ttl_seconds, fold_bytes, replicas)
        self._folding.breakdowns.fields = fields or DeclaredFields()
        self.damage = self._folding.damage
        self.evidence = EvidenceStore(client)
        self.unit_days = UnitDays(client)

    @reaching_the_store()
    def fold(self, shards: Sequence[int] = range(keys.SHARDS)) -> int:
        """Fold every event that was appended to the logs of these shards before the call, exactly
        once.

        Returns the number of rows that this call folded. Any number of folders may work at once. A
        block that cannot be read is set aside and logged.
        """
        return self._folding.fold(shards)

    @reaching_the_store()
    def hours(self, target: str) -> list[int]:
        """The hours that hold events of a target, folded or not, ascending."""
        now, _ = self._client.time()
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrangebyscore(keys.hours(shard), now, "+inf")
        held = (
            place
            for shard, names in enumerate(pipeline.execute())
            for place in self._readable_hours(shard, names)
        )
        return sorted({hour for _, name, hour in held if name == target})

    def _readable_hours(self, shard: int, names: Iterable[bytes]) -> Iterator[TargetHour]:
        for name in names:
            try:
                yield TargetHour.from_member(shard, name)
            except ValueError as error:
                _log.error("%s: %s", keys.hours(shard), error)
                self._client.zrem(keys.hours(shard), name)
                self.damage.keep(Damaged.NAME, shard, name)

    def hour(self, target: str, hour: int) -> BinsTable:
        """The folded bins of one hour."""
        return self.window(target, hour, hour + 1)

    def window(
        self, target: str, first_hour: int, last_hour_exclusive: int, *, calibrated: bool = False
    ) -> BinsTable:
        """The sum of the folded bins of first_hour <= hour < last_hour_exclusive, or of those of
        calibrated probabilities, as for all that takes `calibrated`."""
        blocks = self.window_blocks(target, first_hour, last_hour_exclusive, calibrated=calibrated)
        return BinsTable.merge(blocks)

    def window_blocks(
        self,
        target: str,
        first_hour: int,
        last_hour_exclusive: int,
        *,
        calibrated: bool = False,
        shards: range = range(keys.SHARDS),
    ) -> Iterator[BinsTable]:
        """The same in tables of which none has a campaign of another's, of these shards; a shard
        is read when its first is asked for, and of one hour some shards together."""
        hours = range(first_hour, last_hour_exclusive)
        for tables in self._by_shard(target, hours, shards, calibrated):
            yield from BinsTable.merge_in_blocks(tables)

    def shards_of_hour(
        self, target: str, hour: int, *, calibrated: bool = False
    ) -> Iterator[BinsTable]:
        """The bins of one hour, shard after shard."""
        hours = range(hour, hour + 1)
        return map(
            BinsTable.merge_packed, self._by_shard(target, hours, range(keys.SHARDS), calibrated)
        )

    def history(
        self,
        target: str,
        first_hour: int,
        last_hour_exclusive: int,
        reached: Callable[[float], None] = lambda _: None,
    ) -> "HourBlocks":
        """The folded bins by hour of first_hour <= hour < last_hour_exclusive, in blocks of
        campaigns; a shard is read when its first block is asked for, each time anew, and before it
        `reached` is called with the share of shards that have gone by."""
        return HourBlocks(self, target, range(first_hour, last_hour_exclusive), reached)

    @reaching_the_store()
    def hour_tables(
        self, shard: int, target: str, hours: range, *, calibrated: bool = False, kept: bool = False
    ) -> dict[int, PackedTable]:
        """One shard's tables by hour, packed as they are stored; hours without one are left out.
        Those of many campaigns, for a refit that goes through them block by block, are kept in
        files."""
        held = [TargetHour(shard, target, hour) for hour in hours]
        tables, scratch = dict[int, PackedTable](), Scratch()
        for place, found in self._packed(held, calibrated):
            if found is not None:
                scratch.want_files(kept and len(found.campaigns) * keys.SHARDS >= MANY)
                tables[place.hour] = scratch.stored(found)
        return tables

    def breakdown(
        self, target: str, name: str, first_hour: int, last_hour_exclusive: int
    ) -> Iterator[BinsTable]:
        """The sums of one of `keys.BREAKDOWNS`, see `Breakdowns.blocks`, of first_hour <= hour <
        last_hour_exclusive, in tables as `window_blocks` has them."""
        return self._folding.breakdowns.blocks(target, name, range(first_hour, last_hour_exclusive))

    def take_in_units(self, target: str, closed: int, window: int) -> None:
        """Add the hours below `closed` but the last, whose late clicks are still to come, to the
        days of units, once each; where there never were any only the newest is looked at."""
        complete, days = closed - 1, self.unit_days
        first = max(days.until(target) or complete - 1, complete - window)
        for hour in range(first, complete):
            units = BinsTable.merge(self.breakdown(target, "units", hour, hour + 1))
            if len(units):
                money = BinsTable.merge(self.breakdown(target, "unit_money", hour, hour + 1))
                days.add(target, hour, units, money)

    def fold_with(self, look_up: LookUp) -> None:
        """Sum events by field with what the maps in force give from now on; without, by score."""
        self._folding.breakdowns.look_up = look_up

    def field_tables(self, target: str, hour: int) -> FieldTables:
        """The folded sums of one hour by declared field."""
        return self._folding.breakdowns.field_tables(target, hour)

    @reaching_the_store()
    def write_calibrated(self, target: str, hour: int, blocks: Iterable[BinsTable]) -> None:
        """Store the bins of calibrated probabilities of one hour, a table for each shard in turn,
        in the place of older ones; `calibrated_hours` has the hour once the last is stored."""
        pipeline, size = self._client.pipeline(transaction=False), 0
        for shard, table in enumerate(blocks):
            if shard == keys.SHARDS - 1:
                # It speaks for all, and may be on another server.
                pipeline.execute()
            place = TargetHour(shard, target, hour)
            data = table.to_bytes(place.checksum)
            pipeline.set(place.calibrated, data, ex=self._calibrated_seconds)
            size += len(data)
            if size > _WRITE_BYTES:
                pipeline.execute()
                size = 0
        pipeline.execute()

    @reaching_the_store()
    def calibrated_hours(self, target: str, first_hour: int, last_hour_exclusive: int) -> set[int]:
        """Those of first_hour <= hour < last_hour_exclusive that were evaluated."""
        hours = range(first_hour, last_hour_exclusive)
        pipeline = self._client.pipeline(transaction=False)
        for hour in hours:
            # The shards of an hour are written one after the other: the last speaks for all.
            pipeline.exists(TargetHour(keys.SHARDS - 1, target, hour).calibrated)
        return {hour for hour, held in zip(hours, pipeline.execute(), strict=True) if held}

    def _by_shard(
        self, target: str, hours: range, shards: range, calibrated: bool
    ) -> Iterator[list[PackedTable]]:
        """Of each shard the tables whose sum is that of the hours. Those of one hour are asked for
        together: sixteen requests would take far longer than the little that most hours hold."""
        if len(hours) > 1:
            for shard in shards:
                yield self._tables(shard, target, hours, calibrated)
            return
        held = [TargetHour(shard, target, hour) for shard in shards for hour in hours]
        for _, found in self._packed(held, calibrated):
            yield [] if found is None else [found]

    @reaching_the_store()
    def _tables(self, shard: int, target: str, hours: range, calibrated: bool) -> list[PackedTable]:
        """One shard's tables whose sum is that of the hours, at most TABLES_AT_ONCE."""
        held = [TargetHour(shard, target, hour) for hour in hours]
        tables, scratch = list[PackedTable](), Scratch()
        for _, found in self._packed(held, calibrated):
            if found is not None:
                scratch.want_files(len(found.campaigns) * keys.SHARDS >= MANY)
                tables.append(scratch.stored(found))
            if len(tables) > TABLES_AT_ONCE:
                tables = [BinsTable.merge_packed(tables).packed]
        return tables

    def _packed(
        self, held: list[TargetHour], calibrated: bool
    ) -> Iterator[tuple[TargetHour, PackedTable | None]]:
        """Each with its table: None where there is none, or none that can be read."""
        kind = Damaged.CALIBRATED_BINS if calibrated else Damaged.BINS
        last = None
        for place, data in self._read(held, calibrated):
            found = self._table(kind, place, data, last)
            last = last if found is None else found
            yield place, found

    def _table(
        self, kind: Damaged, place: TargetHour, data: _Reply, like: PackedTable | None
    ) -> PackedTable | None:
        if data is None:
            return None
        try:
            if isinstance(data, ResponseError):
                raise ValueError(str(data))
            return PackedTable.from_bytes(data, like, place.checksum)
        except ValueError as error:
            _log.error("%s of %s: %s", kind.value, place, error)
            self._set_aside(kind, place, data if isinstance(data, bytes) else None)
            return None

    @reaching_the_store()
    def _set_aside(self, kind: Damaged, place: TargetHour, data: bytes | None) -> None:
        self.damage.set_table_aside(kind, place, data)
        if kind is Damaged.CALIBRATED_BINS:
            # Without its last shard an hour is evaluated anew.
            last = TargetHour(keys.SHARDS - 1, place.target, place.hour)
            self._client.unlink(last.calibrated)

    def _read(
        self, held: list[TargetHour], calibrated: bool
    ) -> Iterator[tuple[TargetHour, _Reply]]:
        at, count = 0, _FIRST_TABLES
        while some := held[at : at + count]:
            found = self._read_together(some, calibrated)
            yield from found
            largest = max(len(data) if isinstance(data, bytes) else 0 for _, data in found)
            at += count
            count = min(TABLES_AT_ONCE, max(1, _REPLY_BYTES // max(largest, 1)))

    @reaching_the_store()
    def _read_together(
        self, held: list[TargetHour], calibrated: bool
    ) -> list[tuple[TargetHour, _Reply]]:
        pipeline = self._client.pipeline(transaction=False)
        for hour in held:
            if calibrated:
                pipeline.get(hour.calibrated)
            else:
                pipeline.hmget(hour.bins, "table", "folds")
        replies = pipeline.execute(raise_on_error=False)
        failed = (reply for reply in replies if isinstance(reply, Exception))
        for error in failed:
            if not is_wrong_type(error):
                raise error
        return list(zip(held, map(_table_of, replies), strict=True))


def _table_of(reply: _Reply | list[bytes | None]) -> _Reply:
    """The table of a reply; bins that were folded and have none have lost it."""
    if not isinstance(reply, list):
        return reply
    table, folds = reply
    return ResponseError("they have lost their table") if folds and table is None else table


@dataclass(frozen=True, slots=True)
class HourBlocks:
    """Blocks of a target's tables by hour, gone through any number of times."""

    store: BinsStore
    target: str
    hours: range
    reached: Callable[[float], None]
    shards: range = range(keys.SHARDS)

    def __iter__(self) -> Iterator[HourTables]:
        for shard in self._shards():
            tables = self.store.hour_tables(shard, self.target, self.hours, kept=True)
            yield from hour_blocks(tables)

    def between(self, first: int, behind: int) -> "HourBlocks":
        """Those of first <= hour < behind; no others are read."""
        hours = range(max(first, self.hours.start), min(behind, self.hours.stop))
        return replace(self, hours=hours)

    def sums(self, spans: Sequence[range]) -> Iterator[tuple[BinsTable, ...]]:
        """The sums over spans of hours, all of a block at once."""
        for shard in self._shards():
            tables = self.store.hour_tables(shard, self.target, self.hours, kept=True)
            found = sums_of_packed(tables, spans)
            blocks = (sums_of_block(block, spans) for block in hour_blocks(tables))
            yield from blocks if found is None else found

    def _shards(self) -> Iterator[int]:
        for place, shard in enumerate(self.shards):
            self.reached(place / len(self.shards))
            yield shard
