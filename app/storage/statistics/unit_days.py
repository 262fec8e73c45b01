"""What the units of each bucket did, by target and day: for A/B analyses, which compare the arms of
an experiment with the same buckets in the time before it.

A hash for each target, a field for each day (days since 1970 in UTC). Little-endian, in the frame
of a block: magic "SUDY", schema_version u2, length of the body u4, CRC-32 of the body u4 (which
begins with that of the key and the field); the body holds

    first hour that is not in it u4
    sums i8 (4, 4096), COLUMNS or OF_CLICKS, in fixed point (`calibrators.bins.codecs`)
"""

import logging
import struct
from typing import Final
from zlib import crc32

import numpy as np
import redis
from redis.exceptions import ResponseError

from app.storage import keys
from app.storage.blocks import framed, opened
from app.storage.integrity.damage import Damage, Damaged, is_wrong_type
from app.storage.redis.client import as_bytes, reaching_the_store
from calibrators.arms import BUCKETS
from calibrators.bins.codecs import LIMIT
from calibrators.bins.table import BinsTable
from calibrators.samples import Integers

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
_log = logging.getLogger(__name__)


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
        pipeline.hset(key, str(day), pack_day(until, sums, _seed(key, day)))
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
            return unpack_day(as_bytes(data), _seed(key, day))
        except ValueError as error:
            _log.error("day %s of %s: %s", day, key, error)
            self._set_aside(key, str(day).encode(), as_bytes(data))
            return none

    def _set_aside(self, key: str, name: bytes, data: bytes) -> None:
        self._client.hdel(key, name)
        self._damage.keep(Damaged.BREAKDOWN, 0, data)


def _seed(key: str, day: int) -> int:
    return crc32(f"{key}:{day}".encode())


def pack_day(until: int, sums: Integers, seed: int) -> bytes:
    """The bytes of a day."""
    return framed(_MAGIC, _UNTIL.pack(until) + sums.astype("<i8").tobytes(), seed)


def unpack_day(data: bytes, seed: int) -> tuple[int, Integers]:
    """The inverse; ValueError on bytes of another kind, version or place, and on any damage."""
    body, _ = opened(_MAGIC, data, seed)
    sums = np.frombuffer(body, "<i8", len(COLUMNS) * BUCKETS, _UNTIL.size)
    return _UNTIL.unpack_from(body)[0], sums.reshape(len(COLUMNS), BUCKETS).astype(np.int64)
