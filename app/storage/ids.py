"""Ids of events in Redis: 8 bytes each, for as long as an event of their hour may come again.

`append.lua` files the ids of an hour's events as a set of their hashes, which costs 50 to 60 bytes
an id. Once they are a sixth of those of their hour that are packed the worker packs them, too: the
set is renamed, so that ids that come now begin a new one, and its hashes are cut into blocks, the
fields of a hash:

    blocks    the number of blocks
    ids       the number of ids in all of them
    <number>  the hashes, end to end, whose first 4 bytes, little-endian, modulo `blocks` are it
    made      8 bytes, others each time that blocks are made
    bloom     the bytes of an `IdFilter` of all hashes; not there for very many

which costs 10 to 11 bytes an id. An id is looked for in all of these at every moment. To look into
blocks costs Redis more than all else about an id, and new ids are in none of them: processes of the
API keep filters of the hours that they get events of, and the script that stores a request looks
only for the ids that its filter does not rule out, if the filter was made with the blocks.
"""

import logging
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from secrets import token_bytes, token_hex
from typing import Any, Final, NamedTuple

import numpy as np
import redis
from numpy.typing import NDArray

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.event_columns import ID_BYTES
from app.storage.integrity.damage import Damage, Damaged
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


_KNOWN_LOGS: Final = 1024
FEWEST_TO_PACK: Final = 64
"""So few ids of a log are not worth the work."""
PACKED_TO_ONE: Final = 6
"""A sixth of those that are packed is waited for: all are written anew."""
_IDS_OF_A_BLOCK: Final = 128
_AT_ONCE: Final = 1000
_BLOCKS_AT_ONCE: Final = 64
_STAGED_SECONDS: Final = 3600
_MADE_BYTES: Final = 8
_MOST_FILTER_BYTES: Final = 1 << 22
"""Of one log: more would keep other requests waiting while it is read."""
MOST_BYTES: Final = 1 << 26
"""Of all filters of a process."""
_IN_VAIN: Final = 1 << 14
"""Ids that are looked for before a filter that is being read, or was not there, is asked for
again."""
UNFILTERED: Final = 64
"""Ids of a log that are looked for in its blocks before its filter is worth reading."""

_log = logging.getLogger(__name__)

Hashes = NDArray[np.uint64]


_BITS: Final = tuple(1 << bit for bit in range(8))


class IdFilter(NamedTuple):
    """Rules out most hashes that are not packed, and never one that is.

    A Bloom filter (Communications of the ACM 13, 1970): `bits` has a byte for each packed hash x,
    n in all, of which two bits are set, bit x >> 61 of byte x % n, and bit (x >> 58) % 8 of byte
    (x >> 20) % n. Of other hashes 5 % meet two that are. `made` tells of which blocks it is.
    """

    made: bytes = b""
    bits: bytes = b""

    @classmethod
    def of(cls, hashes: Hashes, made: bytes) -> "IdFilter":
        """The filter of distinct hashes (n,), n > 0."""
        size = np.uint64(len(hashes))
        bits = np.zeros((len(hashes), 8), np.bool_)
        bits[hashes % size, hashes >> np.uint64(61)] = True
        bits[(hashes >> np.uint64(20)) % size, hashes >> np.uint64(58) & np.uint64(7)] = True
        return cls(made, np.packbits(bits, axis=1, bitorder="little").tobytes())

    def suspects(self, hashes: bytes) -> list[int]:
        """The places of those, of 8 bytes each, that may be packed; all where there are no bits."""
        bits, size, number = self.bits, len(self.bits), len(hashes) // ID_BYTES
        if not size:
            return list(range(number))
        # Below a hundred ids numpy is slower; the first bit rules four of five out.
        return [
            at
            for at, x in enumerate(struct.unpack(f"<{number}Q", hashes))
            if bits[x % size] & _BITS[x >> 61] and bits[(x >> 20) % size] & _BITS[x >> 58 & 7]
        ]


_NO_FILTER: Final = IdFilter()


class IdFilters:
    """The filters that a process of the API keeps, at most `most_bytes` of them: those of the
    latest hours that events came of."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._filters: dict[TargetHour, IdFilter] = {}
        self._unfiltered: dict[TargetHour, int] = {}

    def of(self, log: TargetHour) -> IdFilter:
        """The filter of a log's ids; one that rules out nothing where none is known."""
        return self._filters.get(log, _NO_FILTER)

    def is_due(self, log: TargetHour, looked_for: int) -> bool:
        """Whether to read the filter of a log, now that it ruled none of so many ids out; for one
        request, others that come meanwhile do not wait for it."""
        if len(self._unfiltered) > _KNOWN_LOGS:
            self._unfiltered.clear()
        number = self._unfiltered.get(log, 0) + looked_for
        is_due = number >= UNFILTERED
        self._unfiltered[log] = number - _IN_VAIN * is_due
        return is_due

    def put(self, log: TargetHour, made: bytes | None, bits: bytes | None) -> None:
        """Keep what was read, if there is room for it or later hours leave some."""
        self._filters.pop(log, None)
        self._unfiltered[log] = -_IN_VAIN
        if not made or not bits:
            return
        self._unfiltered.pop(log)
        for older in sorted(self._filters, key=lambda one: one.hour):
            if self._bytes + len(bits) <= self._most_bytes or older.hour >= log.hour:
                break
            del self._filters[older]
        if self._bytes + len(bits) <= self._most_bytes:
            self._filters[log] = IdFilter(made, bits)
        else:
            # To read it in vain costs as much as to look for so many ids.
            self._unfiltered[log] = -len(bits)

    @property
    def _bytes(self) -> int:
        return sum(len(one.bits) for one in self._filters.values())


class IdPacker:
    """Packs the ids of hours; for the worker."""

    def __init__(self, client: redis.Redis, fewest: int = FEWEST_TO_PACK) -> None:
        self._client = client
        self._name = token_hex(8)
        self._fewest = fewest
        self._damage = Damage(client)
        self._move = client.register_script(lua("move_ids"))
        self._finish = client.register_script(lua("finish_packing"))

    @reaching_the_store()
    def pack(self) -> int:
        """Packs hours where there is enough; returns the number of ids.

        Killed in the middle it leaves ids moved, where they are known, and the next one packs them.
        """
        return sum(map(self._pack, self._due()))

    def _due(self) -> list[TargetHour]:
        pipeline = self._client.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipeline.zrange(keys.hours(shard), 0, -1)
        of_shards = enumerate(pipeline.execute())
        logs = [log for shard, members in of_shards for log in logs_named(shard, members)]
        for log in logs:
            pipeline.scard(log.ids)
            pipeline.exists(log.moved_ids)
            pipeline.hget(log.packed_ids, "ids")
        found = pipeline.execute()
        sizes = zip(logs, found[::3], found[1::3], found[2::3], strict=True)
        return [log for log, *of_log in sizes if self._is_due(*of_log)]

    def _is_due(self, ids: int, moved: int, packed: bytes | None) -> bool:
        known = int(packed) if packed and packed.isdigit() else 0
        return bool(moved) or ids >= max(self._fewest, known // PACKED_TO_ONE)

    def _pack(self, log: TargetHour) -> int:
        try:
            return self._packed_anew(log)
        except ValueError as error:
            # A repeat of one of these may count again: better than that no event is folded.
            _log.error("%s set aside: %s", log.packed_ids, error)
            self._damage.set_key_aside(Damaged.COUNTER, log.packed_ids)
            return 0

    def _packed_anew(self, log: TargetHour) -> int:
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
            yield b"".join(each for each in map(as_bytes, page) if len(each) == ID_BYTES)

    def _packed(self, log: TargetHour) -> Iterator[bytes]:
        number = int(self._client.hget(log.packed_ids, "blocks") or 0)
        if not 0 <= number <= self._client.hlen(log.packed_ids):
            raise ValueError(f"{number} blocks, of which most are missing")
        for first in range(0, number, _BLOCKS_AT_ONCE):
            fields = list(map(str, range(first, min(first + _BLOCKS_AT_ONCE, number))))
            found = self._client.hmget(log.packed_ids, fields)
            yield b"".join(as_bytes(block or b"") for block in found)

    def _stage(self, staged: str, hashes: Hashes) -> int:
        """Returns the number of fields; a command with all of them would keep requests waiting."""
        blocks, made = blocks_of(hashes), token_bytes(_MADE_BYTES)
        about: dict[Any, int | bytes] = {"blocks": len(blocks), "ids": len(hashes), "made": made}
        if 0 < len(hashes) <= _MOST_FILTER_BYTES:
            about["bloom"] = IdFilter.of(hashes, made).bits
        self._client.unlink(staged)
        self._client.hset(staged, mapping=about)
        self._client.expire(staged, _STAGED_SECONDS)
        for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
            some = enumerate(blocks[first : first + _BLOCKS_AT_ONCE], first)
            self._client.hset(staged, mapping={str(number): block for number, block in some})
        return len(blocks) + len(about)


def blocks_of(hashes: Hashes) -> Sequence[bytes]:
    """The blocks of distinct hashes (n,), by number."""
    number = max(1, len(hashes) // _IDS_OF_A_BLOCK)
    block = (hashes & np.uint64(0xFFFFFFFF)) % np.uint64(number)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block.astype(np.int64), minlength=number)) * ID_BYTES
    data = hashes[order].astype("<u8").tobytes()
    return [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
