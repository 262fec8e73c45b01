"""The event log: a request's events become packed blocks in Redis in one atomic round trip.

One script touches the logs of all shards of the request, so that it is stored as a whole: this
needs a single Redis server (and its replicas), not a cluster of several.
"""

import time
from asyncio import sleep, to_thread
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import redis.asyncio
from redis.exceptions import ResponseError

from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.blocks import encode_block
from app.storage.clicks import ClickRules, Refusal, StoreRefusal
from app.storage.errors import IdempotencyConflict, NotReplicated
from app.storage.event_columns import hash_ids, pack_ids
from app.storage.ids import IdLife
from app.storage.keys import TargetHour
from app.storage.redis.client import lua, reaching_the_store, refuses_writes

LONGEST_IDEMPOTENCY_KEY = 255

_STORED, _REPLAYED, _CONFLICT, _NAMES_NEEDED = range(4)
_HOUR_SECONDS = 3600
_DEFAULT_RULES = ClickRules()
_KNOWN_LOGS: Final = 1024
_PROBE_LIFE: Final = 60
_MANY: Final = 32
"""From so many events on, other requests have a turn between packing and sending them."""

_VERY_MANY: Final = 1000
"""From so many events on, they are packed in a thread."""

_Arguments = list[str | bytes | int]


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of the events of one batch: they add up to its length.

    Nothing is stored of an event that was refused.
    """

    accepted: int
    duplicates: int
    refused: tuple[StoreRefusal, ...] = ()


class EventLog:
    """Where requests append their events. An answer means that they are stored.

    Idempotency keys are kept for `key_seconds`, ids for their `id_life` by `clock`, clicks and
    conversions for `ttl_seconds` after the last that was written; and so are the others where none
    is given.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        ttl_seconds: int,
        click_rules: ClickRules = _DEFAULT_RULES,
        wait: int = 0,
        wait_seconds: float = 0.0,
        *,
        key_seconds: int | None = None,
        id_life: IdLife | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._wait = wait
        self._wait_milliseconds = int(wait_seconds * 1000)
        self._ttl_seconds = ttl_seconds
        self._key_seconds = ttl_seconds if key_seconds is None else key_seconds
        self._id_life = id_life or IdLife(ttl_seconds)
        self._clock = clock
        self._click_rules = click_rules
        self._append = client.register_script(lua("append"))

    async def append(
        self, batch: EventBatch, idempotency_key: str | None = None, fingerprint: str = ""
    ) -> Appended:
        """Store the whole batch, or nothing of it.

        A batch whose idempotency key is known was stored before: all its events are duplicates,
        but for those that were refused then. `fingerprint` says what the request was. Raises
        IdempotencyConflict when the same key came with another fingerprint, ValueError when the key
        is empty or over 255 characters, NotReplicated when fewer than `wait` replicas have it
        within `wait_seconds`, and StorageUnavailable when the store fails. After such a failure the
        outcome is unknown only if the store went away mid-request: send the same key again.
        """
        _check_key(idempotency_key)
        if not len(batch):
            return Appended(0, 0)
        if len(batch) >= _VERY_MANY:
            request = await to_thread(self._request, batch, idempotency_key, fingerprint)
        else:
            request = self._request(batch, idempotency_key, fingerprint)
        if len(batch) >= _MANY:
            await sleep(0)
        names, arguments = request
        with reaching_the_store():
            status, duplicates, refused = await self._stored(names, arguments)
            if status == _NAMES_NEEDED:
                again = self._request(batch, idempotency_key, fingerprint, with_names=True)
                status, duplicates, refused = await self._stored(*again)
        if status == _CONFLICT:
            raise IdempotencyConflict(idempotency_key or "")
        refusals = await to_thread(_refused, batch, refused) if refused else ()
        if status == _REPLAYED:
            return Appended(0, len(batch) - len(refusals), refusals)
        duplicates += batch.repeats
        return Appended(len(batch) - duplicates - len(refusals), duplicates, refusals)

    async def _stored(self, names: list[str], arguments: _Arguments) -> tuple[int, int, Any]:
        """The reply of append.lua."""
        try:
            if self._wait:
                return await self._replicated(names, arguments)
            status, duplicates, refused = await self._append(keys=names, args=arguments)
        except ResponseError as error:
            if refuses_writes(error):
                await self._client.connection_pool.disconnect(inuse_connections=False)
            raise
        return status, duplicates, refused

    async def _replicated(self, names: list[str], arguments: _Arguments) -> tuple[int, int, Any]:
        """The same, once enough replicas have all that this connection has written."""
        async with self._client.client() as connection:
            status, duplicates, refused = await self._append(names, arguments, connection)
            if status == _REPLAYED:
                # Nothing was written now: what was written then comes before this.
                await connection.set(keys.PROBE, 1, ex=_PROBE_LIFE)
            confirmed = await connection.wait(self._wait, self._wait_milliseconds)
        if confirmed < self._wait:
            raise NotReplicated(confirmed, self._wait)
        return status, duplicates, refused

    def _request(
        self,
        batch: EventBatch,
        idempotency_key: str | None,
        fingerprint: str,
        *,
        with_names: bool = False,
    ) -> tuple[list[str], _Arguments]:
        """Keys and arguments of append.lua; with the names of ids if it asks for them."""
        names = [keys.request(idempotency_key or "")]
        life = 0 if idempotency_key is None else self._key_seconds
        clicks = self._packed_clicks(batch)
        arguments: _Arguments = [self._ttl_seconds, life, fingerprint, clicks]
        self._add_blocks(batch, names, arguments, with_names)
        _add_conversions(batch, names, arguments)
        return names, arguments

    def _add_blocks(
        self, batch: EventBatch, names: list[str], arguments: _Arguments, with_names: bool
    ) -> None:
        entries, now = list(batch.entries()), self._clock()
        held = [_keys_of(entry.log) for entry in entries]
        older = [of.older for of, entry in zip(held, entries, strict=True) if entry.ids]
        names += chain.from_iterable(older)
        arguments += (len(older), int(with_names), len(entries))
        for of, (log, ids, block, clicks) in zip(held, entries, strict=True):
            names += of.names
            arguments += (of.member, encode_block(block, of.checksum))
            arguments += (_packed(clicks), hash_ids(ids)) if ids or clicks else (b"", b"")
            if ids:
                names.append(of.ids)
                life = self._id_life.seconds(log, now)
                arguments += (life, pack_ids(ids) if with_names else b"")

    def _packed_clicks(self, batch: EventBatch) -> bytes:
        if batch.click_events is None:
            return b""
        return batch.click_events.packed(self._click_rules, self._ttl_seconds // _HOUR_SECONDS)


class _LogKeys(NamedTuple):
    """Name of a log, the checksum that its blocks begin with, and the keys that they need."""

    member: str
    checksum: int
    names: tuple[str, ...]
    ids: str
    older: tuple[str, ...]


@lru_cache(_KNOWN_LOGS)
def _keys_of(log: TargetHour) -> _LogKeys:
    names = (log.log, keys.logs(log.shard), keys.hours(log.shard))
    older = (log.seen, log.moved_ids, log.packed_ids)
    return _LogKeys(log.member, log.checksum, names, log.ids, older)


def _add_conversions(batch: EventBatch, names: list[str], arguments: _Arguments) -> None:
    if batch.click_events is None:
        return
    for log, numbers, block in batch.click_events.conversion_entries():
        names += (log.conversions, keys.conversion_logs(log.shard))
        arguments += (log.member, block, _packed(numbers))


def _packed(numbers: Sequence[int]) -> bytes:
    if not numbers:
        return b""
    return np.array(numbers, "<u4").tobytes()


def _refused(
    batch: EventBatch, refused: Sequence[tuple[int, int, bytes]]
) -> tuple[StoreRefusal, ...]:
    """What the script refused; of a request that is sent again, what is still in the batch."""
    places = set() if batch.click_events is None else batch.click_events.places()
    return tuple(
        StoreRefusal(place, Refusal(reason), detail.decode())
        for place, reason, detail in refused
        if place in places
    )


def _check_key(idempotency_key: str | None) -> None:
    if idempotency_key is not None and not 0 < len(idempotency_key) <= LONGEST_IDEMPOTENCY_KEY:
        raise ValueError(
            f"an idempotency key has 1 to {LONGEST_IDEMPOTENCY_KEY} characters, "
            f"not {len(idempotency_key)}"
        )
