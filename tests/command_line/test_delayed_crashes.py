"""kill -9 of the API, the worker and Redis around every step: all that was acknowledged, once."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import isnan
from random import Random
from typing import Any

import numpy as np
import pytest
import redis

from app.click_log.log import ClickLog
from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import ClickCloser
from tests.click_log.rows import part_rows
from tests.command_line.click_stories import AHEAD, ClickStory, bins_of, requests
from tests.command_line.doomed_store import Doom, around
from tests.command_line.mortal_service import MortalService, mortal_service
from tests.command_line.persistent_client import PersistentClient
from tests.command_line.test_up import wait_until
from tests.storage.contents import damaged_blocks

pytestmark = pytest.mark.slow

TARGET = "conversion"
CLIENTS = 4
CLICKS_AT_ONCE = 4
"""Of one client, between two kills."""

LATER = 2000.0
"""Seconds after which every post-click window is over."""

DOOMS = [
    around("caller", "before", "append"),
    around("caller", "after", "append"),
    around("Redis", "before", "append"),
    around("Redis", "amid", "append"),
    around("Redis", "after", "append"),
    around("caller", "before", "commit_fold"),
    around("Redis", "amid", "commit_fold"),
    around("caller", "after", "commit_fold"),
    around("caller", "after", "begin_close"),
    around("Redis", "after", "begin_close"),
    around("caller", "before", "finish_close"),
    around("Redis", "amid", "finish_close"),
    around("caller", "after", "finish_close"),
    around("caller", "before", "drop_conversions"),
    around("Redis", "amid", "drop_conversions"),
    around("caller", "after", "drop_conversions"),
]

KILLS = {"serve": 2, "worker": 7, "Redis": 7}


@dataclass
class World:
    """A service, and all that its clients were told of by now."""

    service: MortalService
    random: Random
    now: float
    stories: list[ClickStory] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    def play(self, doom: Doom) -> None:
        """Clients send, somebody dies and comes back, and the clients see it through."""
        self.service.doom(doom)
        with ThreadPoolExecutor(CLIENTS) as pool:
            sent = [pool.submit(self.client.send, *self._tale()) for _ in range(CLIENTS)]
            wait_until(lambda: self.service.is_struck or any(map(has_failed, sent)), str(doom))
            if self.service.is_struck:
                self.killed.append(self.service.revive())
            for one in sent:
                one.result()

    def repeat(self) -> None:
        """Send all that has an id once more; but a behaviour of a closed click would be late."""
        events = [event for story in self.stories for event in story.events(self.random)]
        self.client.repeat([event for event in events if event["type"] in ("click", "conversion")])

    @property
    def client(self) -> PersistentClient:
        return PersistentClient(self.service.url)

    def _tale(self) -> tuple[str, list[list[dict[str, Any]]]]:
        first = len(self.stories)
        names = [f"click-{first + number}" for number in range(CLICKS_AT_ONCE)]
        told = [ClickStory.draw(self.random, name, self.now) for name in names]
        self.stories += told
        return f"from {first}", requests(self.random, told)


@pytest.mark.timeout(600)
def test_whoever_dies_everything_acknowledged_counts_once(tmp_path):
    options = {"post_click_minutes": 1, "refit_delay_seconds": 0, "future_seconds": 2 * AHEAD}
    with mortal_service(tmp_path, 2, **options) as service:
        world = World(service, Random(5), time.time())
        for doom in DOOMS:
            world.play(doom)
        with open_redis(service.redis_url) as store:
            wait_until(lambda: is_settled(store, world.stories), "all that is due is closed")
            world.repeat()
            service.stop()
            close_the_rest(service, store, world.now + LATER)
            check_store(service, store, world)
        check_log(ClickLog.open(service.settings.click_log), world)
        assert service.complaints == ""
    assert {name: world.killed.count(name) for name in ("serve", "worker", "Redis")} == KILLS


def has_failed(sent: Future[None]) -> bool:
    return sent.done() and sent.exception() is not None


def is_settled(store: redis.Redis, stories: Sequence[ClickStory]) -> bool:
    """Nothing is left for a worker to do by now."""
    logs = [key(shard) for key in (keys.logs, keys.conversion_logs) for shard in range(keys.SHARDS)]
    over = sum(story.is_over for story in stories)
    return not store.exists(*logs) and OpenClicks(store).counts()["open"] == len(stories) - over


def close_the_rest(service: MortalService, store: redis.Redis, now: float) -> None:
    """What a worker does when the last post-click window is over."""
    versions = Versions(store, service.settings.versions_kept)
    conversions, clicks = ConversionLog(store), OpenClicks(store)
    closing = ClickCloser(service.settings, clicks, conversions, versions, AtlasCache(versions))
    closing.run(ClickLog.open(service.settings.click_log), now, now)


def check_store(service: MortalService, store: redis.Redis, world: World) -> None:
    """Counters and bins."""
    bins = BinsStore(store, service.settings.ttl_seconds)
    hour = int(world.now // SECONDS_PER_HOUR)
    assert bins.window("click", hour - 1, hour + 2) == bins_of(world.stories)
    assert damaged_blocks(bins) == 0
    counts = OpenClicks(store).counts()
    assert {name: count for name, count in counts.items() if count} == {
        "closed": len(world.stories)
    }


def check_log(log: ClickLog, world: World) -> None:
    """Clicks, behaviours and conversions, as they are read and as they are stored."""
    assert logged(log, world.now) == expected(world.stories)
    log.compact(world.now + 2 * SECONDS_PER_HOUR)
    assert logged(log, world.now) == expected(world.stories)
    rows = {name: sum(part_rows(log, name)) for name in ("clicks", "conversions")}
    conversions = sum(len(story.converted_at) for story in world.stories)
    assert rows == {"clicks": len(world.stories), "conversions": conversions}
    assert log.damaged() == 0


def expected(stories: Sequence[ClickStory]) -> dict[str, Any]:
    """By click id, what is to be known of each click."""
    return {
        story.click_id: (story.campaign, story.clicked_at, story.sums, story.delay)
        for story in stories
    }


def logged(log: ClickLog, now: float) -> dict[str, Any]:
    """The same of the click log."""
    logged, known = log.known(TARGET, now - LATER, now + LATER, now + LATER, window=7 * 86_400)
    clicks = logged.clicks
    behaviours = {
        name.removeprefix("behaviour."): np.asarray(column).tolist()
        for name, column in clicks.features.columns.items()
        if name.startswith("behaviour.")
    }
    ids, delays = logged.click_ids.to_pylist(), known.delay.tolist()
    return {
        click_id: (
            clicks.campaigns[clicks.rows[place]],
            float(clicks.clicked_at[place]),
            {
                name: values[place]
                for name, values in behaviours.items()
                if not isnan(values[place])
            },
            None if isnan(delays[place]) else delays[place],
        )
        for place, click_id in enumerate(ids)
    }
