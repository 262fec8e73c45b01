"""Clicks, behaviours and conversions as requests gather them."""

import asyncio
from typing import Any, cast

import redis

from app.storage import keys
from app.storage.batch import Cell, EventBatch
from app.storage.blocks import StoredConversion
from app.storage.clicks import ClickRules, OpenClick, Refusal, StoreRefusal
from app.storage.event_log import Appended, EventLog
from app.storage.redis.client import open_async_redis
from tests.storage.conftest import HOUR, TTL_SECONDS

AT = HOUR * 3600 + 60.25
"""When clicks are clicked unless a test says otherwise."""

RULES = ClickRules(
    post_click_seconds=600.0,
    max_features=3,
    max_waiting=2,
    waiting_seconds=100.0,
    life_seconds=7 * TTL_SECONDS,
)

SCORES = {"click": 0.25, "conversion": 0.125}
CELL = Cell("click", HOUR, 0.25)


def click(click_id: str = "1", campaign: str = "a", at: float = AT, **more: Any) -> OpenClick:
    """A click with scores."""
    return OpenClick(click_id, campaign, at, **{"scores": SCORES, **more})


def conversion(
    at: float, click_id: str = "1", target: str = "conversion", value: float | None = None
) -> StoredConversion:
    """A conversion of the click."""
    return StoredConversion(click_id, target, at, value)


def behaviour(at: float, name: str = "page_views", value: float = 1.0) -> tuple[str, float, float]:
    """A behaviour as open clicks hold it."""
    return name, at, value


Sent = OpenClick | StoredConversion | tuple[str, str, float, float]


def of(*events: Sent, cell: Cell | None = None, opens: bool = True) -> EventBatch:
    """A request of these events; a tuple is a behaviour: click id, name, time, value."""
    batch = EventBatch()
    for place, event in enumerate(events):
        if isinstance(event, OpenClick):
            batch.add_click(place, event, opens=opens, cell=cell)
        elif isinstance(event, StoredConversion):
            batch.add_conversion(place, event)
        else:
            batch.add_behaviour(place, *event)
    return batch


def did(
    at: float, click_id: str = "1", name: str = "page_views", value: float = 1.0
) -> tuple[str, str, float, float]:
    """A behaviour as requests hold it."""
    return click_id, name, at, value


def append_by(url: str, rules: ClickRules, batch: EventBatch, *key: str) -> Appended:
    """Append as a service with these rules does."""

    async def run() -> Appended:
        async with open_async_redis(url) as client:
            return await EventLog(client, TTL_SECONDS, rules).append(batch, *key)

    return asyncio.run(run())


def refused(reason: Refusal, detail: str = "", place: int = 0) -> Appended:
    """The answer to a request of one event that was refused."""
    return Appended(0, 0, (StoreRefusal(place, reason, detail),))


def feature_kinds(client: redis.Redis) -> dict[str, str]:
    """What the store knows of each pre-click feature, in any shard: `n` numbers, `s` strings."""
    of_shards = (keys.SHARD_FEATURES % shard for shard in range(keys.SHARDS))
    found = [cast(dict[bytes, bytes], client.hgetall(key)) for key in (keys.FEATURES, *of_shards)]
    pairs = sorted(pair for kinds in found for pair in kinds.items())
    return {name.decode(): kind.decode() for name, kind in pairs}
