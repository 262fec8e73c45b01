"""A store and files that hold something of every kind, made by real traffic and a real worker; and
the bytes of it, to be kept for the readers of later versions.

    python -m tests.storage.stored_traffic tests/storage/formats/v<schema_version>

writes what this version stores. Run it before a stored format changes, never after.
"""

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import redis

from app.api.last_good import LastGood
from app.click_log.log import ClickLog
from app.settings import Settings
from app.storage.batch import Cell, EventBatch
from app.storage.blocks import StoredConversion, Terms
from app.storage.clicks import OpenClick
from app.storage.event_log import EventLog
from app.storage.jobs import Jobs
from app.storage.lease import Call, JointRefits, Member
from app.storage.overrides import FrozenTargets, Overrides
from app.storage.redis.client import open_async_redis, open_redis
from app.storage.redis.server import EmbeddedRedis, find_redis_binary
from app.storage.versions import Versions
from app.worker.loop import Worker
from tests.storage.contents import contents
from tests.worker.delayed.click_world import (
    DAY,
    MIDNIGHT,
    TARGET,
    LoggedStream,
    delayed_settings,
    drawn_stream,
)

AS_OF = MIDNIGHT + 4 * DAY
HOURS = 3
"""Folded ones, up to AS_OF; events of one more hour wait for their fold."""

CAMPAIGNS = ("big", "small", "größe")


class TrafficClock:
    """The worker's clock."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def traffic_settings(folder: Path) -> Settings:
    """What the traffic is stored with."""
    return delayed_settings(data_dir=folder, min_training_clicks=300, behaviours=("page_views",))


def store_traffic(client: redis.Redis, url: str, folder: Path) -> None:
    """Fill an empty store and a folder."""
    settings, clock = traffic_settings(folder), TrafficClock()
    stream = LoggedStream(ClickLog.open(settings.click_log), drawn_stream(hours=4 * 24, per_hour=8))
    stream.write(MIDNIGHT, AS_OF - HOURS * 3600)
    worker = Worker(settings, client, clock, "test")
    assert worker._lease.acquire()
    worker._delayed.cache._trial = lambda data: None
    for hour in range(HOURS, -1, -1):
        begin = AS_OF - hour * 3600
        send(url, settings, begin, [request(begin - 3600), request(begin - 3600)])
        clock.seconds = begin + settings.refit_delay_seconds
        worker.step()
    _ask(client, worker, clock)
    send(url, settings, clock(), [request(AS_OF, "a"), request(AS_OF, "b")])
    _keep_last_good(client, settings, url)
    refits = JointRefits(client)
    call = Call("a", "click", "pooled", 1.0, 0, 1, True, (0, 1), "", [Member("worker", "1:test")])
    refits.call(call)
    refits.report("a", 0, 0, [(np.arange(3.0), np.array([True])), ()])


def send(url: str, settings: Settings, at: float, batches: list[EventBatch]) -> None:
    """Store requests as the API does."""

    async def run() -> None:
        async with open_async_redis(url) as client:
            log = EventLog(client, settings.event_ttl_seconds)
            for number, batch in enumerate(batches):
                await log.append(batch, f"key {at:.0f} {number}", "print")

    asyncio.run(run())


def request(begin: float, unique: str = "") -> EventBatch:
    """The events of an hour; sent again, with other unique ones, half of them are duplicates."""
    batch, hour = EventBatch(), int(begin // 3600)
    for number in range(120):
        name = f"{unique if number % 2 else ''}{number}"
        score, campaign = number / 150, CAMPAIGNS[number % len(CAMPAIGNS)]
        terms = Terms(number % 3, number, 2.5, 0.25, 1.5) if number < 60 else None
        positive = float(number % 3 == 0)
        batch.add("click", hour, campaign, score, 1.0, positive, name, terms)
    _add_clicks(batch, begin, unique)
    return batch


def _add_clicks(batch: EventBatch, begin: float, unique: str) -> None:
    hour, scores = int(begin // 3600), {"click": 0.25, TARGET: 0.125}
    for number in range(4):
        name, at = f"{hour}-{unique if number % 2 else ''}{number}", begin + 60.25 * number
        features: dict[str, float | str] = {"age": 30.5 + number, "device": "app"}
        click = OpenClick(name, CAMPAIGNS[number % 2], at, scores, features)
        batch.add_click(4 * number, click, opens=True, cell=Cell("click", hour, 0.25))
        batch.add_behaviour(4 * number + 1, name, "page_views", at + 5.5, 2.0)
        batch.add_behaviour(4 * number + 2, f"never {name}", "page_views", at, 1.0)
        batch.add_conversion(4 * number + 3, StoredConversion(name, TARGET, at + 7.5, 1.5))


def _ask(client: redis.Redis, worker: Worker, clock: TrafficClock) -> None:
    """What operators leave behind: jobs of every status, calibrators of campaigns, a held refit."""
    jobs, versions = Jobs(client), Versions(client, 8)
    Overrides(client).put("click", "big", "isotonic")
    FrozenTargets(client).freeze(["view"], 1.0)
    jobs.submit("refit", {"as_of": AS_OF, "target": "click"}, clock())
    jobs.submit("approve", {"version": "000000-none"}, clock())
    while worker.step():
        continue
    jobs.submit("refit", {"target": "click"}, clock())
    taken = jobs.take(clock())
    assert taken is not None
    jobs.advance(taken.id, "fitting click", 0.5)
    jobs.submit("train", {}, clock())
    published = versions.load(versions.current() or "")
    why = {"reasons": {"click": "moved-far"}}
    versions.hold(worker._lease.token, AS_OF, clock(), published.atlases, published.report, why)
    client.incr("sirocco:{maps}:training:conversion:0")


def _keep_last_good(client: redis.Redis, settings: Settings, url: str) -> None:
    versions = Versions(client, 8)
    assert settings.last_good_dir is not None
    kept = LastGood(settings.last_good_dir, "unix://a")
    kept.keep(versions.load(versions.current() or ""), lambda: None)
    kept.close()


def keep_bytes(client: redis.Redis, folder: Path, kept: Path) -> None:
    """Write all that the store and the folder hold below `kept`."""
    kept.mkdir(parents=True)
    text = json.dumps([_packed([key, held]) for key, held in contents(client).items()], indent=0)
    (kept / "store.json").write_text(text + "\n")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix == ".maps" or _is_kept(path)):
            target = kept / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def _is_kept(path: Path) -> bool:
    """A part of every kind and age would be a megabyte."""
    return path.suffix == ".parquet" and path.parent.name in ("hour=23", "hour=22")


def restore_bytes(client: redis.Redis, kept: Path) -> None:
    """Fill an empty store with what was kept; the ends of hours, which are of the server's clock,
    lie a day ahead of it, as they did when they were kept."""
    ahead = client.time()[0] + DAY
    for key, held in map(_unpacked, json.loads((kept / "store.json").read_text())):
        ends = key.endswith(b":hours")
        put(client, key, [(member, float(ahead)) for member, _ in held] if ends else held)


def put(client: redis.Redis, key: bytes, held: Any) -> None:
    """Have the key hold this, as `contents` tells it."""
    client.delete(key)
    match held:
        case bytes():
            client.set(key, held)
        case dict():
            client.hset(key, mapping=held)
        case set():
            client.sadd(key, *held)
        case [(_, float()), *_]:
            client.zadd(key, dict(held))
        case list():
            client.rpush(key, *held)


def _packed(held: Any) -> Any:
    match held:
        case bytes():
            return b64encode(held).decode()
        case dict():
            return {"hash": [_packed(list(pair)) for pair in sorted(held.items())]}
        case set():
            return {"set": [_packed(member) for member in sorted(held)]}
        case list() | tuple():
            return [_packed(each) for each in held]
    return held


def _unpacked(held: Any) -> Any:
    match held:
        case str():
            return b64decode(held)
        case {"hash": pairs}:
            return dict(map(_unpacked, pairs))
        case {"set": members}:
            return set(map(_unpacked, members))
        case list():
            return [_unpacked(each) for each in held]
    return held


def main() -> None:
    """Keep what this version stores."""
    with TemporaryDirectory(prefix="sirocco-kept-") as name:
        folder = Path(name)
        with (
            EmbeddedRedis(folder / "redis", find_redis_binary()) as server,
            open_redis(server.url) as client,
        ):
            store_traffic(client, server.url, folder)
            keep_bytes(client, folder, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
