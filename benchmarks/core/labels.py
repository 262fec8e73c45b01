"""The labels of a delayed target by 1, 2 and 4 workers together: CPU and memory of each.

Clicks are those of the part `click_log`, a day of them. A refit reads them, joins their
conversions, scores them by the post-click model and labels them; workers read, join and score some
hours each, and the one that leads labels all and puts them into bins. Workers are processes of one
thread on one Redis and one click log. `first` is the one that leads; peaks are over what each held
before.

    python -m benchmarks labels [--json] [--write]
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from app.click_log.log import ClickLog
from app.settings import load_settings
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.lease import Lease, ShardShare
from app.storage.models import Trained
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import DelayedTargets, claim_click_log
from app.worker.fitting import Methods
from app.worker.model_cache import CachedModel, ModelCache
from app.worker.relabelling import LabelHistory
from app.worker.together import Together
from benchmarks.core.click_log import TARGET, trained, write
from benchmarks.core.traffic import HOUR, Span
from benchmarks.figures import Table
from benchmarks.machine import peak_bytes, reset_peak, resident_bytes
from benchmarks.parts import Part
from benchmarks.store import LEASE_SECONDS, TIMEOUT_SECONDS, private_store
from pccem import DelayDistribution, PostClickModel

FIRST = "0"
HOURS = 24
LOOK_SECONDS, MOST_SECONDS = 0.01, 600.0


@dataclass(frozen=True)
class Sizes:
    """How much is labelled, and by how many workers."""

    clicks: int = 1_000_000
    trained_on: int = 100_000
    workers: tuple[int, ...] = (1, 2, 4)
    worth_it: int = 300_000


@dataclass(frozen=True)
class World:
    """A click log, the moment it is read as of, and the parts of the model that scores it."""

    folder: Path
    as_of: float
    trained: Trained
    model: bytes
    delays: dict[str, Any]
    worth_it: int

    @property
    def cached(self) -> CachedModel:
        """The model, as a worker holds it."""
        delays = DelayDistribution.from_dict(self.delays)
        return CachedModel("000001", self.trained, PostClickModel.from_bytes(self.model), delays)


def measure(sizes: Sizes | None = None) -> Table:
    """Rows by number of workers."""
    sizes = sizes or Sizes()
    with TemporaryDirectory(prefix="sirocco-bench-") as folder:
        world = _world(Path(folder), sizes)
        return {f"{sizes.clicks:,} clicks, {n} workers": _label(world, n) for n in sizes.workers}


def _world(folder: Path, sizes: Sizes) -> World:
    span, model = Span.of(sizes.clicks, 1), trained(sizes.trained_on)
    if model.model is None or model.delays is None:
        raise RuntimeError("the training made no model")
    log = ClickLog.open(str(folder))
    write(log, span, span.end + HOUR)
    log.compact(span.end + HOUR)
    parts = model.trained, model.model.to_bytes(), model.delays.to_dict()
    return World(folder, span.end + HOUR, *parts, sizes.worth_it)


def _label(world: World, count: int) -> dict[str, Any]:
    context = get_context("spawn")
    reported, stop = context.Queue(), context.Event()
    with private_store() as store:
        work = partial(context.Process, target=_work)
        names = [str(place) for place in range(count)]
        workers = [work(args=(world, store.url, name, reported, stop)) for name in names]
        try:
            # Who leads finds all others there.
            for worker in (*workers[1:], workers[0]):
                worker.start()
                reported.get(timeout=MOST_SECONDS)
            first = reported.get(timeout=MOST_SECONDS)
            stop.set()
            others = [reported.get(timeout=MOST_SECONDS) for _ in workers[1:]]
        finally:
            stop.set()
            for worker in workers:
                worker.join()
    number = max(count - 1, 1)
    return {
        "first, CPU s": first["cpu"],
        "others, CPU s": sum(each["cpu"] for each in others) / number,
        "wall s": first["wall"],
        "first, peak MB": first["megabytes"],
        "others, peak MB": sum(each["megabytes"] for each in others) / number,
        "tables": first["digest"],
    }


def _work(world: World, url: str, name: str, reported: Any, stop: Any) -> None:
    with (
        patch.object(ModelCache, "newest", return_value=world.cached),
        _worker(world, url, name) as worker,
    ):
        reported.put(name)
        reset_peak()
        before, cpu, wall = resident_bytes(), time.process_time(), time.perf_counter()
        digest = _lead(world, worker) if name == FIRST else _help(worker, stop)
        reported.put(
            {
                "cpu": time.process_time() - cpu,
                "wall": time.perf_counter() - wall,
                "megabytes": (peak_bytes() - before) / 1e6,
                "digest": digest,
            }
        )


@contextmanager
def _worker(world: World, url: str, name: str) -> Iterator[Together]:
    settings = load_settings(
        delayed_targets=(TARGET,), training_threads=1, click_log_url=str(world.folder)
    )
    with open_redis(url, TIMEOUT_SECONDS) as client:
        versions = Versions(client, 3)
        delayed = DelayedTargets(settings, client, versions, AtlasCache(versions))
        share = ShardShare(client, "folds", name, LEASE_SECONDS)
        own = Lease(client, "worker", name, LEASE_SECONDS)
        bins, methods = BinsStore(client, settings.ttl_seconds), Methods(settings)
        parts = settings, client, bins, methods, name, lambda: own.token, share, lambda: None
        if name == FIRST:
            own.acquire()
            claim_click_log(settings, OpenClicks(client), delayed.own_log)
        else:
            share.take()
        yield Together(*parts, delayed, clicks_worth_it=world.worth_it)


def _lead(world: World, worker: Together) -> str:
    delayed = worker.delayed
    assert delayed is not None
    read, cached = partial(worker.read, TARGET, world.as_of), world.cached
    about = delayed.own_log, cached, TARGET, world.as_of, worker.settings, None, read
    found = LabelHistory(*about).of(HOURS)
    if found is None:
        raise RuntimeError("the labels have no source")
    digest = sha256()
    for tables in found[1].blocks:
        for _, table in sorted(tables.items()):
            digest.update(table.to_bytes())
    return digest.hexdigest()[:12]


def _help(worker: Together, stop: Any) -> str:
    while not stop.is_set():
        if not worker.help():
            time.sleep(LOOK_SECONDS)
    return ""


PART = Part("labels", "Labels of a delayed target by several workers", __doc__, measure)
