"""What workers refit together: hours of a target in a real Redis, and who leads and who helps."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
import pytest

from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.keys import SHARDS, TargetHour, shards_of
from app.storage.lease import Lease, ShardShare
from app.storage.redis.client import open_redis
from app.worker.fitting import Methods, ReadBlocks, StoredHistory
from app.worker.monitoring import RawWindow
from app.worker.together import Together
from calibrators import BinsTable
from calibrators.methods.refit import Fitted

NEWEST, HOURS, TARGET = 400_000, 4, "click"
CAMPAIGNS, JOINED = 250, 200


@pytest.fixture(autouse=True)
def many_are_hundreds(monkeypatch):
    """Refits are divided from fewer campaigns on: what follows does not depend on how many."""
    monkeypatch.setattr("calibrators.pooled.method._JOINED", JOINED)


def hour_table(hour: int, campaigns: int = CAMPAIGNS, shift: float = 0.0) -> BinsTable:
    """Some impressions of each campaign; a campaign clicks as often as its number says."""
    rng = np.random.default_rng(hour)
    rows = np.repeat(np.arange(campaigns), 3)
    log_odds = rng.normal(-2.0 + shift, 0.8, len(rows))
    rates = log_odds - shift + 0.8 * np.sin(rows)
    names = [f"a{number:05d}" for number in range(campaigns)]
    clicks = (rng.random(len(rows)) < 1 / (1 + np.exp(-rates))).astype(np.float64)
    scores = 1 / (1 + np.exp(-log_odds))
    return BinsTable.from_columns(names, rows, scores, np.ones(len(rows)), clicks)


def put(client: Any, hour: int, table: BinsTable) -> None:
    """As folds leave it."""
    owners = shards_of(table.campaigns)
    for shard in range(SHARDS):
        place = TargetHour(shard, TARGET, hour)
        here = table.chosen(owners == shard)
        client.hset(place.bins, "table", here.to_bytes(place.checksum))


@pytest.fixture
def settings() -> Settings:
    return Settings(
        calibrator="pooled",
        clock="event",
        window_hours=HOURS,
        history_hours=HOURS,
        lease_seconds=1,
        fold_seconds=0.2,
    )


@pytest.fixture
def stored(redis_client) -> Any:
    """Six hours of a target."""
    for hour in range(NEWEST - HOURS + 1, NEWEST + 1):
        put(redis_client, hour, hour_table(hour))
    return redis_client


@dataclass
class Workers:
    """One that holds the lease, and some that wait for it, in threads."""

    url: str
    settings: Settings
    stack: ExitStack
    stop: Event = field(default_factory=Event)

    def worker(self, name: str, settings: Settings | None = None) -> Together:
        """One more, with a connection of its own."""
        settings = settings or self.settings
        client = self.stack.enter_context(open_redis(self.url, 20.0))
        share = ShardShare(client, "folds", name, 60.0)
        own = Lease(client, "worker", name, 60.0)
        found = Together(
            settings,
            client,
            BinsStore(client, 3600),
            Methods(settings),
            name,
            lambda: own.token,
            share,
            lambda: None,
            worth_it=1,
            stop=self.stop,
        )
        (own.acquire if name == "first" else share.take)()
        return found

    @contextmanager
    def helping(self, helpers: Sequence[Together]) -> Iterator[None]:
        """They wait to be called, and help."""

        def wait(helper: Together) -> None:
            while not self.stop.is_set():
                helper.help() or self.stop.wait(0.01)

        with ThreadPoolExecutor(len(helpers)) as pool:
            waiting = [pool.submit(wait, helper) for helper in helpers]
            try:
                yield
            finally:
                self.stop.set()
                for each in waiting:
                    each.result()


@pytest.fixture
def workers(redis_url, settings) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(redis_url, settings, stack)


def history_of(worker: Together, window: RawWindow | None = None) -> StoredHistory:
    bins = worker.bins.history(TARGET, NEWEST - HOURS + 1, NEWEST + 1)
    return StoredHistory(NEWEST + 1.0, ReadBlocks(bins, window or RawWindow.none()))


def refit(worker: Together, calibrator: str = "pooled") -> Fitted:
    return worker.methods.refit(calibrator, TARGET, history_of(worker), True)


def told(fitted: Fitted) -> tuple[Any, ...]:
    return fitted.atlas.to_bytes(), fitted.trial.to_bytes(), fitted.notes, fitted.set_aside


def alone(workers: Workers, calibrator: str = "pooled") -> tuple[Any, ...]:
    """What one worker makes of it, whom nobody helps."""
    one = workers.worker("alone")
    one.share.leave()
    one.methods.together = None
    return told(refit(one, calibrator))


KNOWN: dict[str, tuple[Any, ...]] = {}


def alone_on_stored(workers: Workers, calibrator: str = "pooled") -> tuple[Any, ...]:
    """The same of what is `stored`, which is the same for each test: found once."""
    if calibrator not in KNOWN:
        KNOWN[calibrator] = alone(workers, calibrator)
    return KNOWN[calibrator]
