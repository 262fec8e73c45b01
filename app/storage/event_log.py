"""The event log: a request's events become packed blocks in Redis in one atomic round trip.

One script touches the logs of all shards of the request, so that it is stored as a whole: this
needs a single Redis server (and its replicas), not a cluster of several.
"""

from dataclasses import dataclass

import redis.asyncio

from app.storage import keys
from app.storage.batch import Batch
from app.storage.blocks import encode_block
from app.storage.errors import IdempotencyConflict, reaching_the_store
from app.storage.scripts import lua

LONGEST_IDEMPOTENCY_KEY = 255

_STORED, _REPLAYED, _CONFLICT = range(3)


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of the events of one batch: they add up to its length."""

    accepted: int
    duplicates: int


class EventLog:
    """Where requests append their events. An answer means that they are stored."""

    def __init__(self, client: redis.asyncio.Redis, ttl_seconds: int) -> None:
        self._ttl_seconds = ttl_seconds
        self._append = client.register_script(lua("append"))

    async def append(
        self, batch: Batch, idempotency_key: str | None = None, fingerprint: str = ""
    ) -> Appended:
        """Store the whole batch, or nothing of it.

        A batch whose idempotency key is known was stored before: all its events are duplicates.
        `fingerprint` says what the request was. Raises IdempotencyConflict when the same key came
        with another fingerprint, ValueError when the key is empty or over 255 characters, and
        StorageUnavailable when the store fails. After a failure the outcome is unknown only if the
        store went away mid-request: send the same key again.
        """
        _check_key(idempotency_key)
        if not len(batch):
            return Appended(0, 0)
        names, arguments = self._request(batch, idempotency_key, fingerprint)
        with reaching_the_store():
            status, duplicates = await self._append(keys=names, args=arguments)
        if status == _CONFLICT:
            raise IdempotencyConflict(idempotency_key or "")
        if status == _REPLAYED:
            return Appended(0, len(batch))
        duplicates += batch.repeats
        return Appended(len(batch) - duplicates, duplicates)

    def _request(
        self, batch: Batch, idempotency_key: str | None, fingerprint: str
    ) -> tuple[list[str], list[str | bytes | int]]:
        """Keys and arguments of append.lua."""
        names = [keys.request(idempotency_key or "")]
        with_key = int(idempotency_key is not None)
        arguments: list[str | bytes | int] = [self._ttl_seconds, with_key, fingerprint]
        for log, ids, block in batch.entries():
            names += (log.log, log.seen, keys.logs(log.shard), keys.hours(log.shard))
            arguments += (log.member, encode_block(block), len(ids), *ids)
        return names, arguments


def _check_key(idempotency_key: str | None) -> None:
    if idempotency_key is not None and not 0 < len(idempotency_key) <= LONGEST_IDEMPOTENCY_KEY:
        raise ValueError(
            f"an idempotency key has 1 to {LONGEST_IDEMPOTENCY_KEY} characters, "
            f"not {len(idempotency_key)}"
        )
