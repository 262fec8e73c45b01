"""Folding: the blocks of logs are added to tables of bins, each event exactly once.

A log holds blocks of campaigns of any shard, because bins add; the logs of one hour of a target are
folded together, and each shard's part goes to its own table, which may be on another server. So
that nothing is lost or doubled where a folder dies, or several are at work:

1. `read_batch` pins the first blocks of a log as a batch, under a number that grows: whoever reads
   the log until they are gone reads this batch;
2. each table is written with the number of the last batch that it has of each log, `from`, by a
   script that refuses when the table has changed since it was read; a batch that is in it already
   is left out;
3. `finish_batch` takes the batch away once all tables have it.

Memory is bounded, however long the logs are.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import numpy as np
import redis
from numpy.typing import NDArray

from app.storage import keys
from app.storage.blocks import Block, decode_block, decode_blocks, framed, opened, together
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import TargetHour
from app.storage.redis.client import NO_REPLICAS, Replicas, as_bytes, lua
from app.storage.statistics.breakdowns import FROM, Breakdowns
from calibrators.bins.table import BinsTable

PAGE_BYTES: Final = 8 * 1024 * 1024
"""Blocks that are read at once: Redis answers nobody else meanwhile."""

_MAGIC: Final = b"SFRM"
_log = logging.getLogger(__name__)

Numbers = NDArray[np.uint64]


@dataclass(slots=True)
class _Batch:
    """The blocks of a log that are pinned: how many, those that can be read, put together, and
    those that cannot."""

    log: TargetHour
    number: int
    blocks: int
    readable: list[Block]
    damaged: list[bytes]

    @property
    def rows(self) -> int:
        return sum(map(len, self.readable))


@dataclass(slots=True)
class _Part:
    """What a shard gets of some batches: its table, blocks with terms, all blocks if they are
    summed by field."""

    table: BinsTable
    with_terms: list[Block] = field(default_factory=list)
    readable: list[Block] = field(default_factory=list)


class Folding:
    """Folds every log that holds blocks."""

    def __init__(
        self,
        client: redis.Redis,
        ttl_seconds: int,
        bytes_at_once: int,
        replicas: Replicas = NO_REPLICAS,
    ) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds
        self._bytes_at_once = bytes_at_once
        self._replicas = replicas
        self.damage = Damage(client)
        self.breakdowns = Breakdowns(client, self.damage)
        self._read_batch = client.register_script(lua("read_batch"))
        self._commit_fold = client.register_script(lua("commit_fold"))
        self._finish_batch = client.register_script(lua("finish_batch"))

    def fold(self, shards: Sequence[int] = range(keys.SHARDS)) -> int:
        """Fold what the logs of these shards hold now; returns the number of rows folded."""
        found = sorted(self.damage.named(keys.logs, shards), key=_target_hour)
        hours = [list(logs) for _, logs in groupby(found, _target_hour)]
        return sum(map(self._fold_hour, hours))

    def _fold_hour(self, logs: list[TargetHour]) -> int:
        """The logs of one hour of a target, batch by batch. Not until they are empty: more may come
        meanwhile than is folded, without end, and jobs and refits wait for this."""
        rows, left = 0, dict(zip(logs, self._lengths(logs), strict=True))
        while left:
            most = max(1, min(PAGE_BYTES, self._bytes_at_once // len(left)))
            batches = [batch for log in left if (batch := self._read(log, most)) is not None]
            pinned = [batch.log.shard for batch in batches]
            self._replicas.confirm(pinned)
            hour = _Hour(batches, self.breakdowns.fields.targets)
            for shard in hour.shards:
                self._commit(shard, hour)
            self._replicas.confirm(hour.shards)
            rows += sum(batch.rows for batch in batches if self._finish(batch))
            read = {batch.log: left[batch.log] - batch.blocks for batch in batches}
            left = {log: blocks for log, blocks in read.items() if blocks > 0}
        return rows

    def _lengths(self, logs: Sequence[TargetHour]) -> list[int]:
        pipeline = self._client.pipeline(transaction=False)
        for log in logs:
            pipeline.llen(log.log)
        found: list[int] = pipeline.execute()
        return found

    def _read(self, log: TargetHour, most: int) -> _Batch | None:
        """The batch that is pinned, or is now; None of an empty log."""
        names = [log.log, log.folding, keys.logs(log.shard)]
        arguments = (log.member, most, self._ttl_seconds)
        number, blocks, damaged = self._read_batch(keys=names, args=arguments)
        if damaged:
            _log.error("%s: %r", log.folding, damaged)
            self.damage.keep(Damaged.COUNTER, log.shard, damaged)
        if not blocks:
            return None
        return _Batch(log, int(number), len(blocks), *_decoded(log, blocks))

    def _finish(self, batch: _Batch) -> bool:
        """Take the batch away; whether it was still there."""
        log = batch.log
        names = [log.log, log.folding, keys.logs(log.shard), keys.damaged(log.shard)]
        arguments: list[bytes | str | int] = [log.member, batch.number, self._ttl_seconds]
        arguments += batch.damaged
        finished = bool(self._finish_batch(keys=names, args=arguments))
        if finished and batch.damaged:
            self.damage.count(Damaged.BLOCK, len(batch.damaged))
        return finished

    def _commit(self, shard: int, hour: "_Hour") -> None:
        """Add to a shard's table what it has not yet."""
        place = hour.place(shard)
        while True:
            found = self._client.hmget(place.bins, ["folds", "table", FROM])
            folds, table, marks = (None if one is None else as_bytes(one) for one in found)
            numbers = self._numbers(place, marks)
            new = [batch for batch in hour.batches if batch.number > numbers[batch.log.shard]]
            part = hour.part(new, shard)
            if part is None:
                return
            stored = stored_table(self.damage, place, folds, table)
            if stored is None:
                continue
            for batch in new:
                numbers[batch.log.shard] = batch.number
            if self._written(place, folds or b"0", stored, part, numbers):
                return

    def _numbers(self, place: TargetHour, data: bytes | None) -> Numbers:
        """Of each shard's log the last batch that the table has, (SHARDS,); 0 of none."""
        if data is None:
            return np.zeros(keys.SHARDS, np.uint64)
        try:
            return unpack_numbers(data, place.checksum)
        except ValueError as error:
            _log.error("%s of %s: %s", FROM, place.bins, error)
            self.damage.set_field_aside(Damaged.COUNTER, place, FROM.encode(), data)
            return np.zeros(keys.SHARDS, np.uint64)

    def _written(
        self, place: TargetHour, folds: bytes, stored: BinsTable, part: _Part, numbers: Numbers
    ) -> bool:
        table = BinsTable.merge((stored, part.table)).to_bytes(place.checksum)
        breakdowns = self.breakdowns.with_blocks(place, part.with_terms)
        if part.readable:
            breakdowns |= self.breakdowns.with_fields(place, part.readable)
        fields = [
            *("table", table, FROM, pack_numbers(numbers, place.checksum)),
            *(word for field in breakdowns.items() for word in field),
        ]
        arguments = (place.member, self._ttl_seconds, folds, *fields)
        names = [place.bins, keys.hours(place.shard)]
        return bool(self._commit_fold(keys=names, args=arguments))


class _Hour:
    """Batches of one hour of a target, and what each shard gets of them."""

    def __init__(self, batches: Sequence[_Batch], by_field: frozenset[str]) -> None:
        self.batches = batches
        self._by_field = by_field
        self._parts: dict[tuple[int, ...], dict[int, _Part]] = {}

    @property
    def shards(self) -> list[int]:
        """Which shards get anything."""
        return sorted(self._parts_of(self.batches))

    def place(self, shard: int) -> TargetHour:
        """A shard's tables of the hour."""
        return self.batches[0].log._replace(shard=shard)

    def part(self, batches: Sequence[_Batch], shard: int) -> _Part | None:
        """What a shard gets of some of the batches; mostly of all."""
        return self._parts_of(batches).get(shard)

    def _parts_of(self, batches: Sequence[_Batch]) -> dict[int, _Part]:
        chosen = tuple(batch.log.shard for batch in batches)
        found = self._parts.get(chosen)
        if found is None:
            blocks = [block for batch in batches for block in batch.readable]
            target = batches[0].log.target if batches else ""
            found = self._parts[chosen] = _parts(blocks, target in self._by_field)
        return found


def _parts(blocks: Sequence[Block], by_field: bool) -> dict[int, _Part]:
    table = together(blocks).table() if blocks else BinsTable.empty()
    shards = keys.shards_of(table.campaigns)
    parts = {shard: _Part(table.chosen(shards == shard)) for shard in np.unique(shards).tolist()}
    for block in blocks:
        if by_field or block.terms is not None:
            for shard, own in _by_shard(block):
                parts[shard].readable += [own] if by_field else []
                parts[shard].with_terms += [own] if own.terms is not None else []
    return parts


def _by_shard(block: Block) -> Iterator[tuple[int, Block]]:
    shards = keys.shards_of(block.campaigns)[block.rows]
    for shard in np.unique(shards).tolist():
        yield shard, block.chosen(shards == shard)


def _target_hour(log: TargetHour) -> tuple[str, int]:
    return log.target, log.hour


def pack_numbers(numbers: Numbers, seed: int) -> bytes:
    """The bytes of the last batch from each log, (SHARDS,); the seed is the table's checksum."""
    return framed(_MAGIC, numbers.astype("<u8").tobytes(), seed)


def unpack_numbers(data: bytes, seed: int) -> Numbers:
    """The inverse; ValueError on any other bytes."""
    body, _ = opened(_MAGIC, data, seed)
    return np.frombuffer(body, "<u8", keys.SHARDS).astype(np.uint64)


def stored_table(
    damage: Damage, place: TargetHour, folds: bytes | str | None, data: bytes | str | None
) -> BinsTable | None:
    """The bins of a place. None of damaged ones, which are set aside: the next try finds none."""
    if not data and folds is None:
        return BinsTable.empty()
    table = as_bytes(data or b"")
    try:
        return BinsTable.from_bytes(table, place.checksum)
    except ValueError as error:
        _log.error("%s: %s", place.bins, error)
        damage.set_table_aside(Damaged.BINS, place, table or None)
        return None


def _decoded(log: TargetHour, blocks: list[bytes]) -> tuple[list[Block], list[bytes]]:
    """What the readable blocks hold, and the bytes of the others: they must not stop the log for
    ever."""
    try:
        return decode_blocks(blocks, log.checksum), []
    except ValueError:
        return _decoded_each(log, blocks)


def _decoded_each(log: TargetHour, blocks: list[bytes]) -> tuple[list[Block], list[bytes]]:
    readable, damaged = [], []
    for data in blocks:
        try:
            readable.append(decode_block(data, log.checksum))
        except ValueError as error:
            _log.error("block of %s set aside: %s", log.log, error)
            damaged.append(data)
    return readable, damaged
