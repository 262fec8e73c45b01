"""Ids of events in Redis: 8 bytes each, for as long as an event of their hour may come again.

`append.lua` files the ids of an hour's events as a set of their hashes, which costs 50 to 60 bytes
an id. When the hour is over the worker packs them: the set is renamed, so that ids that come late
begin a new one, and its hashes are cut into blocks, the fields of a hash:

    blocks    the number of blocks
    ids       the number of ids in all of them
    <number>  the hashes, end to end, whose first 4 bytes, little-endian, modulo `blocks` are it

which costs 9 to 10 bytes an id. An id is looked for in all of these at every moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from secrets import token_hex
from typing import Final

import numpy as np
import redis
from numpy.typing import NDArray

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.event_columns import ID_BYTES
from app.storage.keys import SHARDS, TargetHour, logs_named
from app.storage.redis.client import as_bytes, lua, reaching_the_store

_SPARE_SECONDS: Final = 60
_SPREAD_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class IdLife:
    """How long ids are kept.

    For `seconds_after` the last that was written; or, where events are admitted by the wall clock,
    until no event of their hour can be accepted: it is for `window_hours` after its end, by clocks
    that differ by at most `clocks_differ` seconds. The shards expire one after the other.
    """

    seconds_after: int
    window_hours: int | None = None
    clocks_differ: float = 0.0

    def seconds(self, log: TargetHour, now: float) -> int:
        """Life of the ids of a log from `now` on, epoch seconds."""
        if self.window_hours is None:
            return self.seconds_after
        closes = (log.hour + 1 + self.window_hours) * SECONDS_PER_HOUR
        spread = log.shard * _SPREAD_SECONDS // SHARDS
        left = int(closes - now + self.clocks_differ)
        return max(left, 0) + _SPARE_SECONDS + spread


FEWEST_TO_PACK: Final = 1000
"""So few ids of a log are not worth the work."""
_PACKED_TO_ONE: Final = 8
"""Of late ids an eighth of those that are packed is waited for: all are written anew."""
_IDS_OF_A_BLOCK: Final = 128
_AT_ONCE: Final = 1000
_BLOCKS_AT_ONCE: Final = 64
_STAGED_SECONDS: Final = 3600

Hashes = NDArray[np.uint64]


class IdPacker:
    """Packs the ids of hours that are over; for the worker."""

    def __init__(self, client: redis.Redis, fewest: int = FEWEST_TO_PACK) -> None:
        self._client = client
        self._name = token_hex(8)
        self._fewest = fewest
        self._move = client.register_script(lua("move_ids"))
        self._finish = client.register_script(lua("finish_packing"))

    @reaching_the_store()
    def pack(self, before_hour: int) -> int:
        """Packs hours before `before_hour` where there is enough; returns the number of ids.

        Killed in the middle it leaves ids moved, where they are known, and the next one packs them.
        """
        return sum(map(self._pack, self._due(before_hour)))

    def _due(self, before_hour: int) -> list[TargetHour]:
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipeline.zrange(keys.hours(shard), 0, -1)
        of_shards = enumerate(pipeline.execute())
        logs = [log for shard, members in of_shards for log in logs_named(shard, members)]
        logs = [log for log in logs if log.hour < before_hour]
        for log in logs:
            pipeline.scard(log.ids)
            pipeline.exists(log.moved_ids)
            pipeline.hget(log.packed_ids, "ids")
        found = pipeline.execute()
        sizes = zip(logs, found[::3], found[1::3], found[2::3], strict=True)
        return [log for log, *of_log in sizes if self._is_due(*of_log)]

    def _is_due(self, ids: int, moved: int, packed: bytes | None) -> bool:
        return bool(moved) or ids >= max(self._fewest, int(packed or 0) // _PACKED_TO_ONE)

    def _pack(self, log: TargetHour) -> int:
        moved = int(self._move([log.ids, log.moved_ids]))
        packed = int(self._client.hget(log.packed_ids, "ids") or 0)
        parts = [*self._moved(log), *self._packed(log)]
        hashes = np.unique(np.frombuffer(b"".join(parts), "<u8"))
        staged = log.staged_ids(self._name)
        fields = self._stage(staged, hashes)
        names = [log.moved_ids, staged, log.packed_ids]
        return moved if self._finish(names, [moved, packed, fields]) else 0

    def _moved(self, log: TargetHour) -> Iterator[bytes]:
        cursor = None
        while cursor != 0:
            cursor, page = self._client.sscan(log.moved_ids, cursor or 0, count=_AT_ONCE)
            yield b"".join(map(as_bytes, page))

    def _packed(self, log: TargetHour) -> Iterator[bytes]:
        number = int(self._client.hget(log.packed_ids, "blocks") or 0)
        for first in range(0, number, _BLOCKS_AT_ONCE):
            fields = list(map(str, range(first, min(first + _BLOCKS_AT_ONCE, number))))
            found = self._client.hmget(log.packed_ids, fields)
            yield b"".join(as_bytes(block or b"") for block in found)

    def _stage(self, staged: str, hashes: Hashes) -> int:
        """Returns the number of fields; a command with all of them would keep requests waiting."""
        blocks = blocks_of(hashes)
        self._client.unlink(staged)
        self._client.hset(staged, mapping={"blocks": len(blocks), "ids": len(hashes)})
        self._client.expire(staged, _STAGED_SECONDS)
        for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
            some = enumerate(blocks[first : first + _BLOCKS_AT_ONCE], first)
            self._client.hset(staged, mapping={str(number): block for number, block in some})
        return len(blocks) + 2


def blocks_of(hashes: Hashes) -> Sequence[bytes]:
    """The blocks of distinct hashes (n,), by number."""
    number = max(1, len(hashes) // _IDS_OF_A_BLOCK)
    block = (hashes & np.uint64(0xFFFFFFFF)) % np.uint64(number)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block.astype(np.int64), minlength=number)) * ID_BYTES
    data = hashes[order].astype("<u8").tobytes()
    return [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
