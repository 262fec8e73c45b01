"""Clicks from Redis into the click log, and back out of it for the refit of a delayed target.

Clicks are those of `evaluation.ClickPlatform`, each with a UUID, a score of one delayed target, 3
features and 5 behaviours. `closing` is the worker's own step, from open clicks in Redis to Parquet
on the local disk. `refit` is what the worker does each hour for a delayed target with 24 hours of
clicks and their conversions in the click log: read and join, score by the post-click model, label,
put into bins, fit. Both count the CPU time of all threads, Redis's too: the time that they would
take on one core. The log was compacted before, as the worker does. `grown` is what the refit's peak
adds to the memory of the process.

Clicks are opened up to 1,000,000, which at one hour of post-click window is as many an hour;
`--large` adds a refit of 10 million clicks.

    python -m benchmarks click_log [--large] [--json]
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from uuid import UUID

import numpy as np

import app.worker.relabelling
from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.settings import load_settings
from app.storage.batch import EventBatch
from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClick, OpenClicks
from app.storage.conversions import ConversionLog
from app.storage.event_log import EventLog
from app.storage.models import Trained
from app.storage.redis.client import open_async_redis
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import ClickCloser
from app.worker.fitting import Fitting, Methods
from app.worker.model_cache import CachedModel
from app.worker.relabelling import KnownClicks
from benchmarks.core.traffic import ATTRIBUTION_SECONDS, DAY, HOUR, Span
from benchmarks.figures import Cell, Table, transposed
from benchmarks.machine import peak_bytes, release_free_memory, reset_peak, resident_bytes
from benchmarks.parts import Part
from benchmarks.store import TIMEOUT_SECONDS, Store, private_store
from benchmarks.timing import Stages, stage_seconds
from calibrators import Atlas
from calibrators.bins.table import History
from evaluation import ClickStream
from pccem import Categorical, DelayDistribution, PostClickModel, TrainingRules, train

Row = dict[str, Cell]

TARGET = "conversion"
CLICKS_OF_A_REQUEST = 500
TRAINED_ON, TRAINED_DAYS = 100_000, 14
STAGES: Stages = {
    "read and join s": (ClickLog, "known"),
    "score s": (PostClickModel, "score"),
    "label s": (app.worker.relabelling, "label"),
}


@dataclass(frozen=True)
class Sizes:
    """How many clicks are open at a time, and how many a refit labels."""

    open: tuple[int, ...] = (100_000, 1_000_000)
    labelled: tuple[int, ...] = (100_000, 1_000_000)
    trained_on: int = TRAINED_ON


LARGE = Sizes(labelled=(100_000, 1_000_000, 10_000_000))


def measure(sizes: Sizes | None = None) -> Table:
    """One column for each number of clicks."""
    sizes = sizes or Sizes()
    model = trained(sizes.trained_on)
    columns: Table = {}
    for size in sizes.labelled:
        closing = _closing(size) if size in sizes.open else {}
        columns[f"{size:,} clicks"] = {**closing, **_refit(size, model)}
    return transposed(columns)


def _closing(size: int) -> Row:
    """From open clicks, all of one hour, to Parquet."""
    span = Span.of(size, 1)
    settings = load_settings()
    with private_store() as store, TemporaryDirectory(prefix="sirocco-bench-") as folder:
        empty = store.used_bytes
        asyncio.run(_open(store, span.stream))
        open_bytes = (store.used_bytes - empty) / len(span.stream)
        versions = Versions(store.client, 3)
        _publish_identity(store, versions)
        closing = ClickCloser(
            settings,
            OpenClicks(store.client),
            ConversionLog(store.client),
            versions,
            AtlasCache(versions),
        )
        wall, cpu = perf_counter(), _cpu_seconds(store)
        closed = closing.run(ClickLog.open(folder), span.end + DAY, span.end + DAY)
        wall, cpu = perf_counter() - wall, _cpu_seconds(store) - cpu
        left_bytes = (store.used_bytes - empty) / len(span.stream)
    if closed != len(span.stream):
        raise RuntimeError(f"closed {closed} of {len(span.stream)} clicks")
    return {
        "Redis bytes per open click": open_bytes,
        "Redis bytes per click, once closed": left_bytes,
        "closing clicks/s of a core": closed / cpu,
        "closing clicks/s wall": closed / wall,
    }


async def _open(store: Store, stream: ClickStream) -> None:
    """Send the clicks and their behaviours as requests do."""
    async with open_async_redis(store.url, TIMEOUT_SECONDS) as client:
        log = EventLog(client, load_settings().ttl_seconds)
        for start in range(0, len(stream), CLICKS_OF_A_REQUEST):
            chosen = slice(start, min(start + CLICKS_OF_A_REQUEST, len(stream)))
            batch = EventBatch()
            for place, click in enumerate(_open_clicks(stream, chosen)):
                batch.add_click(place, click, opens=True)
                for name, occurred_at, value in click.behaviours:
                    batch.add_behaviour(place, click.click_id, name, occurred_at, value)
            await log.append(batch)


def _open_clicks(stream: ClickStream, chosen: slice) -> Iterator[OpenClick]:
    """The clicks as Redis hands them out; a behaviour lies one minute after its click."""
    clicks = stream.clicks.select(chosen)
    names, rows = _feature_rows(stream, chosen)
    numbers = range(chosen.start, chosen.stop)
    columns = (clicks.clicked_at.tolist(), clicks.rows.tolist(), clicks.scores.tolist(), rows)
    for number, at, campaign, score, values in zip(numbers, *columns, strict=True):
        known = [pair for pair in zip(names, values, strict=True) if pair[1] is not None]
        features = {name: value for (kind, name), value in known if kind == "feature"}
        done = [(name, at + 60.0, value) for (kind, name), value in known if kind == "behaviour"]
        yield OpenClick(
            _click_id(number), clicks.campaigns[campaign], at, {TARGET: score}, features, done
        )


def _click_id(number: int) -> str:
    """A UUID: random, so that it does not compress."""
    digest = blake2b(number.to_bytes(8, "big"), digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def _feature_rows(stream: ClickStream, chosen: slice) -> tuple[list[tuple[str, str]], list[Any]]:
    """(kind, name) of each column, and the values of each click; None where missing."""
    columns = stream.clicks.features.select(chosen).columns
    values = [
        column.values()
        if isinstance(column, Categorical)
        else [None if math.isnan(value) else value for value in column.tolist()]
        for column in columns.values()
    ]
    names = [(kind, name) for kind, _, name in (column.partition(".") for column in columns)]
    return names, list(zip(*values, strict=True))


def _publish_identity(store: Store, versions: Versions) -> None:
    atlases = {TARGET: Atlas.empty().to_bytes()}
    versions.publish(store.lease().token, 0.0, 0.0, atlases, {})


def _cpu_seconds(store: Store) -> float:
    return process_time() + store.cpu_seconds


def trained(size: int) -> CachedModel:
    """A model and a delay distribution, as a training leaves them."""
    span = Span.of(size, TRAINED_DAYS)
    clicks, as_of = span.clicks, span.end + ATTRIBUTION_SECONDS
    known = span.known(as_of)
    rules = TrainingRules(min_clicks=2, min_conversions=1, num_threads=1, post_click=HOUR)
    training = train(clicks, known, as_of=as_of, rules=rules)
    delays = DelayDistribution.fit(
        known.delay,
        known.age,
        clicks.rows,
        clicks.campaigns,
        window=ATTRIBUTION_SECONDS,
        min_conversions=1,
    )
    trained = Trained(TARGET, ATTRIBUTION_SECONDS, as_of, as_of, "model")
    return CachedModel("000001", trained, training.model, delays)


def _refit(size: int, shelved: CachedModel) -> Row:
    """The hourly refit of a delayed target as of an hour after the last click."""
    span = Span.of(size, 1)
    as_of = span.end + HOUR
    with TemporaryDirectory(prefix="sirocco-bench-") as folder:
        log = ClickLog.open(folder)
        write(log, span, as_of)
        log.compact(as_of)
        stored = sum(part.stat().st_size for part in Path(folder, "clicks").rglob("*.parquet"))
        rows = sum(log.clicks_by_hour(0.0, as_of).values())
        release_free_memory()
        reset_peak()
        resident = resident_bytes()
        wall, cpu = perf_counter(), process_time()
        with stage_seconds(STAGES) as stages:
            seconds = _relabel_and_fit(log, shelved, as_of)
        wall, cpu = perf_counter() - wall, process_time() - cpu
    return {
        "disk bytes per closed click": stored / rows,
        "refit CPU s": cpu,
        "refit wall s": wall,
        **stages,
        **seconds,
        "refit grown MB": (peak_bytes() - resident) / 1e6,
    }


def _relabel_and_fit(log: ClickLog, shelved: CachedModel, as_of: float) -> dict[str, float]:
    settings = load_settings()
    found = KnownClicks(log, shelved, TARGET, as_of, settings).relabelled()
    if found is None:
        raise RuntimeError("the labels have no source")
    started = perf_counter()
    last = int(as_of // HOUR)
    history = History(last + 1.0, [found.by_hour(last)])
    binned = perf_counter()
    Fitting(settings, Methods(settings)).whole(TARGET, history, {})
    return {"bins s": binned - started, "fit s": perf_counter() - binned}


def write(log: ClickLog, span: Span, as_of: float) -> None:
    """The clicks, hour by hour, and all conversions known by then."""
    stream = span.stream
    for hour in np.arange(stream.clicks.clicked_at[0] // HOUR * HOUR, span.end, HOUR).tolist():
        chosen = stream.between(hour, hour + HOUR)
        clicks = _open_clicks(stream, chosen)
        log.write_clicks([ClosedClick.close(click, HOUR, {TARGET: 0.01}) for click in clicks])
    at = stream.clicks.clicked_at + stream.delay
    known = np.flatnonzero(at <= as_of)
    log.write_conversions(
        StoredConversion(_click_id(number), TARGET, occurred_at, None)
        for number, occurred_at in zip(known.tolist(), at[known].tolist(), strict=True)
    )


PART = Part(
    "click_log",
    "Click log: closing, and the hourly refit of a delayed target",
    __doc__,
    measure,
    lambda: measure(LARGE),
)
