"""Folding: the blocks of a log are added to its bins, each event exactly once.

A fold reads the stored bins, the counter of folds and, page by page, the first blocks of the log,
adds outside of Redis, and commits with one script that refuses when the counter has moved since.
Two folders at work at once, or one that dies between the two steps, can therefore neither double
nor lose events. Memory is bounded, however long the log is.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import redis

from app.storage import keys
from app.storage.blocks import Block, decode_block, decode_blocks
from app.storage.errors import CorruptBins
from app.storage.keys import TargetHour
from app.storage.redis.client import lua
from calibrators.bins.table import BinsTable

BYTES_AT_ONCE = 32 * 1024 * 1024
"""Blocks of one commit at most, but for its last page."""

_PAGE_BYTES = 8 * 1024 * 1024
"""Blocks that are read at once: Redis answers nobody else meanwhile."""

_log = logging.getLogger(__name__)


class Folding:
    """Folds every log that holds blocks."""

    def __init__(self, client: redis.Redis, ttl_seconds: int, bytes_at_once: int) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds
        self._bytes_at_once = bytes_at_once
        self._read_log = client.register_script(lua("read_log"))
        self._commit_fold = client.register_script(lua("commit_fold"))

    def open_logs(self) -> Iterator[TargetHour]:
        """The logs that hold blocks, or did a moment ago."""
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(keys.SHARDS):
            pipeline.smembers(keys.logs(shard))
        for shard, members in enumerate(pipeline.execute()):
            yield from (TargetHour.from_member(shard, member) for member in sorted(members))

    def fold(self, log: TargetHour) -> int:
        """Fold one log until it is empty; returns the number of rows folded."""
        rows = 0
        while (step := self._read(log)).blocks:
            table = BinsTable.merge((_stored_table(log, step.table), *step.tables))
            if self._commit(log, step, table):
                rows += step.rows
        return rows

    def _read(self, log: TargetHour) -> "_Step":
        most = min(_PAGE_BYTES, self._bytes_at_once)
        folds, table, blocks = self._page(log, 0, most)
        step = _Step(log, folds, table)
        # A page that is not full was the log's last.
        while step.take(blocks) >= most and step.size < self._bytes_at_once:
            _, _, blocks = self._page(log, step.blocks, most)
        return step

    def _page(self, log: TargetHour, first: int, most: int) -> tuple[bytes, bytes, list[bytes]]:
        """Counter of folds, stored table and blocks from the first on; were there another fold
        between two pages of a step, the commit would be refused."""
        names = [log.log, log.bins, keys.logs(log.shard)]
        folds, table, blocks = self._read_log(keys=names, args=[log.member, most, first])
        return folds, table, blocks

    def _commit(self, log: TargetHour, step: "_Step", table: BinsTable) -> bool:
        names = [
            log.log,
            log.bins,
            keys.logs(log.shard),
            keys.hours(log.shard),
            keys.damaged(log.shard),
        ]
        seen: list[bytes | int] = [step.folds, step.blocks]
        arguments = (log.member, self._ttl_seconds, *seen, table.to_bytes(), *step.damaged)
        return bool(self._commit_fold(keys=names, args=arguments))


@dataclass(slots=True)
class _Step:
    """What one commit replaces: so many blocks of so many bytes, their rows in tables and those
    that are damaged; and what the counter of folds and the stored table were at its beginning."""

    log: TargetHour
    folds: bytes
    table: bytes
    tables: list[BinsTable] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)
    blocks: int = 0
    size: int = 0
    rows: int = 0

    def take(self, blocks: list[bytes]) -> int:
        """Take in a page; returns how many bytes it has."""
        readable, damaged = _decoded(self.log, blocks)
        self.tables.append(_table(readable))
        self.damaged += damaged
        self.rows += sum(map(len, readable))
        self.blocks += len(blocks)
        size = sum(map(len, blocks))
        self.size += size
        return size


def _decoded(log: TargetHour, blocks: list[bytes]) -> tuple[list[Block], list[bytes]]:
    """What the readable blocks hold, and the bytes of the others: they must not stop the log for
    ever."""
    try:
        return decode_blocks(blocks), []
    except ValueError:
        return _decoded_each(log, blocks)


def _decoded_each(log: TargetHour, blocks: list[bytes]) -> tuple[list[Block], list[bytes]]:
    readable, damaged = [], []
    for data in blocks:
        try:
            readable.append(decode_block(data))
        except ValueError as error:
            _log.error("block of %s set aside: %s", log.log, error)
            damaged.append(data)
    return readable, damaged


def _stored_table(log: TargetHour, data: bytes) -> BinsTable:
    try:
        return BinsTable.from_bytes(data) if data else BinsTable.empty()
    except ValueError as error:
        raise CorruptBins(log.bins, str(error)) from error


def _table(blocks: Sequence[Block]) -> BinsTable:
    if not blocks:
        return BinsTable.empty()
    starts = np.cumsum([0, *(len(block.campaigns) for block in blocks[:-1])])
    return BinsTable.from_columns(
        [campaign for block in blocks for campaign in block.campaigns],
        np.concatenate([block.rows + start for block, start in zip(blocks, starts, strict=True)]),
        np.concatenate([block.scores for block in blocks]),
        np.concatenate([block.counts for block in blocks]),
        np.concatenate([block.positives for block in blocks]),
    )
