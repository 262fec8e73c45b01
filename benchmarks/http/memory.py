"""Bytes of what Redis holds besides bins of busy campaigns, maps and clicks, a piece each.

`event` is one without an id that no worker has folded yet, in requests of 1,000; `id` is one of
36 characters, in the hour that is going on and once the worker has packed its hour: of 25 hours, 24
are packed. `key` is the idempotency key of a request. `campaign-hour` is a row of bins whose
impressions are each in a cell of their own; `conversion` lies in the click log, on disk.

    python -m benchmarks memory [--json] [--write]
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import numpy as np

from app.click_log.log import ClickLog
from app.storage.batch import EventBatch
from app.storage.blocks import StoredConversion
from app.storage.event_log import EventLog
from app.storage.ids import IdPacker
from app.storage.keys import TargetHour
from app.storage.redis.client import open_async_redis
from benchmarks.figures import Table
from benchmarks.parts import Part
from benchmarks.store import TIMEOUT_SECONDS, Store, private_store
from calibrators import BinsTable

HOUR = 480_000
TTL_SECONDS = 100 * 3600
OF_A_REQUEST = 1_000
CAMPAIGNS = 1_000
IMPRESSIONS = (1, 5, 20)
KEPT_HOURS = 25
"""Of ids, by default: the hour and the 24 after it."""


def measure(pieces: int = 100_000) -> Table:
    """A row for each kind, of so many pieces."""
    with private_store() as store:
        empty = store.used_bytes
    fresh, packed = _ids(pieces)
    keyed, plain = (_grown(pieces // 10, each=1, keyed=keyed) for keyed in (True, False))
    found = {
        "empty server": empty,
        "event": _grown(pieces),
        "id, not packed yet": fresh,
        "id, packed": packed,
        "id": (fresh + (KEPT_HOURS - 1) * packed) / KEPT_HOURS,
        "key": keyed - plain,
        **{f"campaign-hour, {each} impressions": _row_bytes(each) for each in IMPRESSIONS},
        "conversion": _conversion_bytes(pieces),
    }
    return {name: {"bytes": round(value, 1)} for name, value in found.items()}


class EventBatches:
    """Impressions of an hour in requests: with ids, or with idempotency keys."""

    def __init__(
        self, events: int, each: int = OF_A_REQUEST, *, ids: bool = False, keyed: bool = False
    ) -> None:
        self._events, self._each, self._ids, self._keyed = events, each, ids, keyed

    def __iter__(self) -> Iterator[tuple[EventBatch, str | None]]:
        rng = np.random.default_rng(1)
        scores = rng.uniform(0.001, 0.2, self._events).tolist()
        for first in range(0, self._events, self._each):
            batch = EventBatch()
            for number in range(first, min(first + self._each, self._events)):
                event_id = str(UUID(bytes=rng.bytes(16))) if self._ids else None
                campaign = f"campaign-{number % 100}"
                batch.add("click", HOUR, campaign, scores[number], 1.0, 0.0, event_id)
            yield batch, str(UUID(bytes=rng.bytes(16))) if self._keyed else None

    async def append(self, store: Store) -> None:
        """Store all of them, as the API does."""
        async with open_async_redis(store.url, TIMEOUT_SECONDS) as client:
            log = EventLog(client, TTL_SECONDS, clock=lambda: HOUR * 3600.0)
            for batch, key in self:
                await log.append(batch, key)


def _grown(pieces: int, **options: Any) -> float:
    """Bytes of one more: the second half of them over the first, so that scripts and buffers of
    connections do not count."""
    used = []
    for count in (pieces // 2, pieces):
        with private_store() as store:
            asyncio.run(EventBatches(count, **options).append(store))
            used.append(store.used_bytes)
    return (used[1] - used[0]) / (pieces - pieces // 2)


def _ids(pieces: int) -> tuple[float, float]:
    """Of an id, before and after it is packed."""
    with private_store() as store:
        asyncio.run(EventBatches(pieces, ids=True).append(store))
        packer, before = IdPacker(store.client), _memory(store)
        packed = packer.pack()
        if packed != pieces:
            raise RuntimeError(f"packed {packed} of {pieces} ids")
        return before / pieces, _memory(store) / pieces


def _memory(store: Store) -> int:
    keys = store.client.scan_iter(match="*ids*")
    return sum(int(store.client.memory_usage(key, samples=0) or 0) for key in keys)


def _row_bytes(impressions: int) -> float:
    rows = np.repeat(np.arange(CAMPAIGNS), impressions)
    rng = np.random.default_rng(2)
    scores = np.exp(rng.uniform(np.log(0.001), np.log(0.5), len(rows)))
    ones, names = np.ones(len(rows)), [f"campaign-{number}" for number in range(CAMPAIGNS)]
    table = BinsTable.from_columns(names, rows, scores, ones, ones * (rng.random(len(rows)) < 0.05))
    with private_store() as store:
        place = TargetHour(0, "click", HOUR)
        store.client.hset(place.bins, "table", table.to_bytes(place.checksum))
        return int(store.client.memory_usage(place.bins, samples=0) or 0) / CAMPAIGNS


def _conversion_bytes(pieces: int) -> float:
    rng = np.random.default_rng(3)
    made = (
        StoredConversion(str(UUID(bytes=rng.bytes(16))), "conversion", HOUR * 3600 + at, at)
        for at in np.sort(rng.uniform(0, 3600, pieces)).tolist()
    )
    with TemporaryDirectory(prefix="sirocco-bench-") as folder:
        ClickLog.open(folder).write_conversions(made)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files) / pieces


PART = Part("memory", "Memory, a piece each", __doc__, measure)
