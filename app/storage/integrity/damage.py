"""What cannot be read in Redis: set aside for a week, counted by kind, and told.

Whole keys are renamed, out of the way of all readers; blocks, names and fields of hashes go to a
list, `keys.damaged`, of its newest thousand. Counts never expire.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha1
from typing import Any, Final

import redis
from redis.exceptions import ResponseError

from app.storage import keys
from app.storage.redis.client import as_text, lua, reaching_the_store

DAMAGED_SECONDS: Final = 7 * 24 * 3600
FRESH_SECONDS: Final = 3600.0
"""Damage that was found within the last hour makes the service degraded."""

_MOST: Final = 1000
_MOST_FOUND: Final = 100
_AT: Final = "at"
_log = logging.getLogger(__name__)


class Damaged(StrEnum):
    """The kinds, as metrics name them."""

    BINS = "bins"
    CALIBRATED_BINS = "calibrated-bins"
    BREAKDOWN = "breakdown"
    BLOCK = "block"
    CLICK = "click"
    NAME = "name"
    JOB = "job"
    OVERRIDE = "override"
    EVIDENCE = "evidence"
    COUNTER = "counter"
    TYPE = "type"


def is_wrong_type(error: BaseException | None) -> bool:
    """Whether a command, alone or in a script, met a key that holds another type."""
    return isinstance(error, ResponseError) and "WRONGTYPE" in str(error)


def is_damage(error: BaseException | None) -> bool:
    """The same, or a counter that is no number: what `Inspection` mends."""
    return is_wrong_type(error) or "is not an integer" in str(error)


@dataclass(slots=True)
class Damage:
    """Sets aside and counts; `found` lists what this process found since it was last emptied."""

    client: redis.Redis
    found: list[dict[str, Any]] = field(default_factory=list)

    @reaching_the_store()
    def set_table_aside(self, kind: Damaged, place: keys.TargetHour, data: bytes | None) -> None:
        """Rename a table's key unless it holds other bytes than these by now; without bytes, one
        of another type."""
        key = place.bins if kind is Damaged.BINS else place.calibrated
        about = {"shard": place.shard, "target": place.target, "hour": place.hour}
        seen = "" if data is None else sha1(data, usedforsecurity=False).hexdigest()
        script = self.client.register_script(lua("set_aside"))
        if script(keys=[key, keys.set_aside(key)], args=[seen, DAMAGED_SECONDS]):
            self._noted(kind, 1, {"kind": kind.value, **about})

    @reaching_the_store()
    def set_field_aside(
        self, kind: Damaged, place: keys.TargetHour, field: bytes, data: bytes | None
    ) -> None:
        """Take a field out of the hash of bins, unless it holds other bytes than these by now, and
        keep it on the shard's list; without bytes, whatever it holds."""
        seen = "" if data is None else sha1(data, usedforsecurity=False).hexdigest()
        script = self.client.register_script(lua("set_aside_field"))
        names = [place.bins, keys.damaged(place.shard)]
        if script(keys=names, args=[field, seen, DAMAGED_SECONDS]):
            about = {"shard": place.shard, "target": place.target, "hour": place.hour}
            self._noted(kind, 1, {"kind": kind.value, **about, "field": repr(field)})

    @reaching_the_store()
    def set_key_aside(self, kind: Damaged, key: str) -> None:
        """Rename a key."""
        try:
            self.client.rename(key, keys.set_aside(key))
        except ResponseError:
            return  # somebody else was faster
        self.client.expire(keys.set_aside(key), DAMAGED_SECONDS)
        self._noted(kind, 1, {"kind": kind.value, "key": key})

    @reaching_the_store()
    def keep(self, kind: Damaged, shard: int, data: bytes) -> None:
        """Put what was taken out of a set or a hash on the shard's list, and count it."""
        pipeline = self.client.pipeline(transaction=True)
        pipeline.lpush(keys.damaged(shard), data)
        pipeline.ltrim(keys.damaged(shard), 0, _MOST - 1)
        pipeline.expire(keys.damaged(shard), DAMAGED_SECONDS)
        try:
            pipeline.execute()
        except ResponseError as error:
            _log.error("a full store has no room to keep %r: %s", data[:80], error)
        self.count(kind)

    @reaching_the_store()
    def count(self, kind: Damaged, number: int = 1) -> None:
        """Count what somebody else has set aside."""
        self._noted(kind, number, {"kind": kind.value, "number": number})

    @reaching_the_store()
    def named(
        self, key_of: Callable[[int], str], shards: Sequence[int]
    ) -> Iterator[keys.TargetHour]:
        """The logs that the shards' sets name. A damaged name is taken out; a bare one of version 1
        is sealed, so that it can be taken out by its name."""
        pipeline = self.client.pipeline(transaction=False)
        for shard in shards:
            pipeline.smembers(key_of(shard))
        for shard, members in zip(shards, pipeline.execute(), strict=True):
            for member in sorted(members):
                try:
                    log = keys.TargetHour.from_member(shard, member)
                except ValueError as error:
                    _log.error("%s: %s", key_of(shard), error)
                    self.client.srem(key_of(shard), member)
                    self.keep(Damaged.NAME, shard, member)
                    continue
                if member != log.member.encode():
                    self.client.sadd(key_of(shard), log.member)
                    self.client.srem(key_of(shard), member)
                yield log

    def emptied(self) -> list[dict[str, Any]]:
        """What was found since the last time."""
        found, self.found = self.found, []
        return found

    @reaching_the_store()
    def counts(self) -> dict[str, float]:
        """By kind; and `at`, when the last was found, in epoch seconds of the store's clock."""
        found = self.client.hgetall(keys.DAMAGE)
        known = {*Damaged, _AT}
        named = ((as_text(name), as_text(text)) for name, text in found.items() if text.isdigit())
        return {name: int(text) for name, text in named if name in known}

    def _noted(self, kind: Damaged, number: int, about: dict[str, Any]) -> None:
        _log.error("set aside as damaged: %s", about)
        if len(self.found) < _MOST_FOUND:
            self.found.append(about)
        try:
            self.client.hincrby(keys.DAMAGE, kind, number)
            self.client.hset(keys.DAMAGE, _AT, self.client.time()[0])
        except ResponseError as error:
            # The store is full, or the count is junk: what was found is in the log all the same.
            _log.error("not counted: %s", error)
