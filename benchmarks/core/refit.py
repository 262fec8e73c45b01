"""One hourly refit through real Redis: fold, evaluate, read 24 h of bins, fit, report, publish.

Traffic is Zipf-like over the campaigns, 100 impressions an hour each on average. 23 hours are
folded already, as the worker does every few seconds; all of the last hour still lies in the
logs, which is more than a running worker ever finds. Figures are of the refits after the first,
which also evaluates the whole window, once. `CPU` is the worker's and Redis's; `fit` includes
reading the bins, `read`, the guard, and what the report tells of the same bins, which go by once;
`report` is the rest of it; `grown` is what the refit's peak adds to the memory of the process, with
those pages of its files that are in memory.
Columns without a name are of `sir`, the published method; `pooled` is the default.

The alternative keeps one hash per campaign and hour, as the naive endpoint writes them, and goes
campaign by campaign: 24 HGETALL in one pipeline, scikit-learn's IsotonicRegression on the sums,
the knots as JSON into a hash. It is run on a sample of campaigns, every n-th of them by traffic,
and SCALED to all; it neither folds nor evaluates nor reports. `--large` adds 100,000 campaigns.

    python -m benchmarks refit [--large] [--json] [--write]
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import app.worker.refit
from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import load_settings
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.keys import SHARDS, TargetHour, shard_of
from app.storage.redis.client import open_async_redis
from app.storage.versions import Versions
from app.worker.monitoring import TargetReport
from app.worker.refit import Refitter, Request
from benchmarks.core.traffic import HOURS, LAST_HOUR, TARGET, WINDOW, Platform
from benchmarks.figures import Cell, Figure, Table, transposed
from benchmarks.http import naive
from benchmarks.machine import peak_bytes, reset_peak, resident_bytes
from benchmarks.parts import Part
from benchmarks.store import TIMEOUT_SECONDS, Store, private_store
from benchmarks.timing import Stages, stage_seconds
from calibrators import BinsTable
from calibrators.samples import use_files

Row = dict[str, Cell]

STAGES: Stages = {
    "fold s": (BinsStore, "fold"),
    "evaluate s": (Refitter, "_evaluate"),
    "read s": (BinsStore, "hour_tables"),
    "fit s": (app.worker.refit, "refit_target"),
    "report s": (TargetReport, "of"),
    "publish s": (Refitter, "_publish"),
}


@dataclass(frozen=True)
class Sizes:
    """How much to measure: campaigns -> rounds, and the sample of the alternative."""

    campaigns: tuple[tuple[int, int], ...] = ((100, 5), (1_000, 5), (10_000, 3))
    sample: int = 200


LARGE = Sizes((*Sizes().campaigns, (100_000, 1)))


class SiroccoRefits:
    """Our own worker's refits of the platform."""

    def __init__(self, platform: Platform, store: Store, calibrator: str) -> None:
        self._platform, self._store = platform, store
        self._token = store.lease().token
        settings = load_settings(calibrator=calibrator)
        bins = BinsStore(store.client, settings.ttl_seconds)
        self._refitter = Refitter(settings, bins, Versions(store.client, 3))

    def store_hour(self, hour: int, tables: Sequence[BinsTable]) -> None:
        """The bins of an hour, a table for each shard, as the folds leave them."""
        for shard, table in enumerate(tables):
            place = TargetHour(shard, TARGET, hour)
            self._store.client.hset(place.bins, "table", table.to_bytes(place.checksum))

    def begin(self) -> None:
        """The first refit, which evaluates the whole window."""
        self._bytes = self._store.used_bytes
        self._refit(LAST_HOUR)

    def run(self) -> dict[str, float]:
        """The refit of the hour that has just closed."""
        self._unfold_last_hour()
        reset_peak()
        resident, used = resident_bytes(), Used.now(self._store)
        with stage_seconds(STAGES) as stages:
            report = self._refit(LAST_HOUR + 1)
        return {
            **used.since(self._store),
            **stages,
            "fitted": report["targets"][TARGET]["fitted"],
            "peak MB": peak_bytes() / 1e6,
            "grown MB": (peak_bytes() - resident) / 1e6,
            "Redis bytes/campaign-hour": self._bytes / len(self._platform.by_traffic) / WINDOW,
        }

    def _refit(self, hour: int) -> dict[str, Any]:
        return self._refitter.run(Request(hour * SECONDS), self._token, lambda: 0.0)

    def _unfold_last_hour(self) -> None:
        """The last hour as requests leave it: in the logs, nothing of it folded."""
        for shard in range(SHARDS):
            self._store.client.delete(TargetHour(shard, TARGET, LAST_HOUR).bins)
        asyncio.run(self._post_last_hour())

    async def _post_last_hour(self) -> None:
        async with open_async_redis(self._store.url, TIMEOUT_SECONDS) as client:
            log = EventLog(client, load_settings().ttl_seconds)
            for batch in self._platform.requests(LAST_HOUR):
                await log.append(batch)


class NaiveRefits:
    """The alternative's refits of every n-th campaign, scaled to all."""

    def __init__(self, platform: Platform, store: Store, sample: int) -> None:
        self._store = store
        self._sample = platform.by_traffic[:: len(platform.by_traffic) // sample]
        self._scale = len(platform.by_traffic) / len(self._sample)
        self._empty_bytes = store.used_bytes

    def store_hour(self, hour: int, tables: Sequence[BinsTable]) -> None:
        """A hash for each campaign of the sample."""
        for campaign in self._sample:
            key = naive.hour_key(campaign, hour * SECONDS)
            bins = tables[shard_of(campaign)].bins(campaign)
            naive.write_hash(self._store.client, key, bins)

    def begin(self) -> None:
        """Nothing to do but to look at the memory."""
        self._bytes = self._store.used_bytes - self._empty_bytes

    def run(self) -> dict[str, float]:
        """One refit of the sample."""
        used = Used.now(self._store)
        fitted = naive.refit(self._store.client, self._sample, HOURS)
        taken = {**used.since(self._store), "fitted": float(fitted)}
        return {
            **{name: self._scale * value for name, value in taken.items()},
            "Redis bytes/campaign-hour": self._bytes / len(self._sample) / WINDOW,
        }


@dataclass(frozen=True)
class Used:
    """Clocks at one moment."""

    wall: float
    worker: float
    redis: float

    @classmethod
    def now(cls, store: Store) -> "Used":
        """Read them."""
        return cls(perf_counter(), process_time(), store.cpu_seconds)

    def since(self, store: Store) -> dict[str, float]:
        """Seconds since then."""
        now = Used.now(store)
        worker, redis = now.worker - self.worker, now.redis - self.redis
        return {
            "CPU s": worker + redis,
            "worker CPU s": worker,
            "Redis CPU s": redis,
            "wall s": now.wall - self.wall,
        }


def measure(sizes: Sizes | None = None) -> Table:
    """For each number of campaigns a column of `sir`, of the alternative, and of `pooled`."""
    use_files()
    sizes = sizes or Sizes()
    refits: Table = {}
    for campaigns, rounds in sizes.campaigns:
        ours, naive_, pooled = _measure(campaigns, rounds, sizes.sample)
        refits[f"{campaigns:,} campaigns"] = ours
        refits[f"{campaigns:,}, hashes and scikit-learn, SCALED"] = naive_
        refits[f"{campaigns:,} campaigns, pooled"] = pooled
    return transposed(refits)


def _measure(campaigns: int, rounds: int, sample: int) -> tuple[Row, Row, Row]:
    platform = Platform(campaigns)
    with private_store() as store, private_store() as other, private_store() as third:
        refits: list[SiroccoRefits | NaiveRefits] = [
            SiroccoRefits(platform, store, "sir"),
            NaiveRefits(platform, other, min(sample, campaigns)),
            SiroccoRefits(platform, third, "pooled"),
        ]
        for hour in HOURS:
            tables = platform.tables(hour)
            for each in refits:
                each.store_hour(hour, tables)
        for each in refits:
            each.begin()
        ours, naive_, pooled = zip(*_taken_in_turns(refits, rounds), strict=True)
    return _row(ours), _row(naive_), _row(pooled)


def _taken_in_turns(
    refits: Sequence[SiroccoRefits | NaiveRefits], rounds: int
) -> list[list[dict[str, float]]]:
    return [[each.run() for each in refits] for _ in range(rounds)]


def _row(rounds: Sequence[dict[str, float]]) -> Row:
    """Medians, with their spread where there is one."""
    columns = {name: [found[name] for found in rounds] for name in rounds[0]}
    return {
        name: Figure.of(values) if len(set(values)) > 1 else values[0]
        for name, values in columns.items()
    }


PART = Part(
    "refit", "Hourly refit of 24 h, Redis included", __doc__, measure, lambda: measure(LARGE)
)
