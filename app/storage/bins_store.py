"""Bins by target and hour, kept in Redis as one table per shard."""

from collections.abc import Callable, Iterable
from itertools import groupby

import redis

from app.storage import keys
from app.storage.errors import CorruptBins, reaching_the_store
from app.storage.folding import BYTES_AT_ONCE, Folding
from app.storage.keys import TargetHour
from calibrators.bins_table import BinsTable

TABLES_AT_ONCE = 32


class BinsStore:
    """What the worker reads and writes. Every write renews a life of ttl_seconds."""

    def __init__(
        self, client: redis.Redis, ttl_seconds: int, fold_bytes: int = BYTES_AT_ONCE
    ) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds
        self._folding = Folding(client, ttl_seconds, fold_bytes)

    @reaching_the_store()
    def fold(self) -> int:
        """Fold every event that was appended before the call, exactly once.

        Returns the number of rows that this call folded. Any number of folders may work at once. A
        block that cannot be read is set aside and logged.
        """
        return sum(self._folding.fold(log) for log in list(self._folding.open_logs()))

    @reaching_the_store()
    def damaged_blocks(self) -> int:
        """Number of blocks that were set aside."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.llen(keys.damaged(shard))
        return sum(pipeline.execute())

    @reaching_the_store()
    def hours(self, target: str) -> list[int]:
        """The hours that hold events of a target, folded or not, ascending."""
        now, _ = self._client.time()
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.zrangebyscore(keys.hours(shard), now, "+inf")
        held = (TargetHour.from_member(0, name) for names in pipeline.execute() for name in names)
        return sorted({hour for _, name, hour in held if name == target})

    def hour(self, target: str, hour: int) -> BinsTable:
        """The folded bins of one hour."""
        return self.window(target, hour, hour + 1)

    def window(self, target: str, first_hour: int, last_hour_exclusive: int) -> BinsTable:
        """The sum of the folded bins of first_hour <= hour < last_hour_exclusive.

        Raises CorruptBins when stored bytes are not a table.
        """
        return self._sum(target, range(first_hour, last_hour_exclusive), self._read_bins)

    @reaching_the_store()
    def write_judged(self, target: str, hour: int, table: BinsTable) -> None:
        """Store the bins of calibrated probabilities of one hour, in the place of older ones."""
        campaigns: list[list[str]] = [[] for _ in range(keys.SHARDS)]
        for campaign in table.campaigns:
            campaigns[keys.shard_of(campaign)].append(campaign)
        pipeline = self._client.pipeline(transaction=True)
        for shard, names in enumerate(campaigns):
            data = table.select(names).to_bytes()
            pipeline.set(TargetHour(shard, target, hour).judged, data, ex=self._ttl_seconds)
        pipeline.execute()

    @reaching_the_store()
    def judged_hours(self, target: str, first_hour: int, last_hour_exclusive: int) -> set[int]:
        """Those of first_hour <= hour < last_hour_exclusive that were judged."""
        hours = range(first_hour, last_hour_exclusive)
        pipeline = self._client.pipeline(transaction=False)
        for hour in hours:
            # All shards of an hour are written in one transaction: the first speaks for all.
            pipeline.exists(TargetHour(0, target, hour).judged)
        return {hour for hour, held in zip(hours, pipeline.execute(), strict=True) if held}

    def judged_window(self, target: str, first_hour: int, last_hour_exclusive: int) -> BinsTable:
        """The sum of the judged bins of first_hour <= hour < last_hour_exclusive."""
        return self._sum(target, range(first_hour, last_hour_exclusive), self._read_judged)

    @reaching_the_store()
    def _sum(
        self,
        target: str,
        hours: range,
        read: Callable[[list[TargetHour]], Iterable[tuple[str, bytes | None]]],
    ) -> BinsTable:
        # Summed as they are read, shard by shard: the sum is much smaller than its hours.
        sums: dict[int, BinsTable] = {}
        held = [TargetHour(shard, target, h) for shard in range(keys.SHARDS) for h in hours]
        for at in range(0, len(held), TABLES_AT_ONCE):
            tables = map(_table, read(held[at : at + TABLES_AT_ONCE]))
            of_shards = groupby(zip(held[at:], tables, strict=False), lambda pair: pair[0].shard)
            for shard, pairs in of_shards:
                before = sums.get(shard, BinsTable.empty())
                sums[shard] = BinsTable.merge((before, *(table for _, table in pairs)))
        return BinsTable.merge(sums.values())

    def _read_bins(self, held: list[TargetHour]) -> list[tuple[str, bytes | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for log in held:
            pipeline.hget(log.bins, "table")
        return list(zip((log.bins for log in held), pipeline.execute(), strict=True))

    def _read_judged(self, held: list[TargetHour]) -> list[tuple[str, bytes | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for log in held:
            pipeline.get(log.judged)
        return list(zip((log.judged for log in held), pipeline.execute(), strict=True))


def _table(stored: tuple[str, bytes | None]) -> BinsTable:
    key, data = stored
    try:
        return BinsTable.empty() if data is None else BinsTable.from_bytes(data)
    except ValueError as error:
        raise CorruptBins(key, str(error)) from error
