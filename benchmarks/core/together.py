"""One refit by 1, 2 and 4 workers together: CPU and memory of each, and the bytes of the maps.

Traffic is that of the part `refit`: Zipf-like over the campaigns, 100 impressions an hour each on
average; 48 hours of it are folded. Real workers, a process each, refit by `pooled` on one Redis,
an hour after another refit. `busiest` is the worker that took most CPU: the one that holds the
lease makes all maps, guards and publishes besides, and has fewer campaigns for it. `peak` is the
most memory a worker held, pages of its files among it, which the kernel takes back where others
need the room; `anonymous` is without these, looked at twenty times a second. `--large` has 100,000
campaigns.

    python -m benchmarks together [--large] [--json] [--write]
"""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Thread
from typing import Any

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import Settings, load_settings
from app.storage.jobs import Jobs
from app.storage.keys import TargetHour
from app.storage.versions import Versions
from app.worker.loop import run_worker
from benchmarks.core.traffic import LAST_HOUR, TARGET, Platform
from benchmarks.figures import Table
from benchmarks.machine import cpu_seconds
from benchmarks.parts import Part
from benchmarks.store import Store, private_store

HISTORY = 48
COUNTS = (1, 2, 4)
SECONDS_TO_COME, MOST_SECONDS = 8.0, 1800.0
SECONDS_BETWEEN_LOOKS = 0.05


def measure(campaigns: int = 25_000) -> Table:
    """Rows by number of workers."""
    found: Table = {}
    with private_store() as store:
        _fill(store, campaigns)
        for count in COUNTS:
            found[f"{campaigns:,} campaigns, {count} workers"] = _refit(store, count)
    return found


def _fill(store: Store, campaigns: int) -> None:
    platform = Platform(campaigns)
    for hour in range(LAST_HOUR - HISTORY + 1, LAST_HOUR + 1):
        for shard, table in enumerate(platform.tables(hour)):
            place = TargetHour(shard, TARGET, hour)
            store.client.hset(place.bins, "table", table.to_bytes(place.checksum))


def _refit(store: Store, count: int) -> dict[str, Any]:
    settings = load_settings(calibrator="pooled", clock="event", fold_seconds=2.0)
    context = get_context("spawn")
    workers = [context.Process(target=_work, args=(settings, store.url)) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        time.sleep(SECONDS_TO_COME)
        _await_refit(store, LAST_HOUR)
        begun, before = time.perf_counter(), [_used(worker) for worker in workers]
        with _watched(workers) as watched:
            _await_refit(store, LAST_HOUR + 1)
        anonymous = sorted(watched)
        seconds = time.perf_counter() - begun
        used = sorted((now - was for now, was in zip(map(_used, workers), before, strict=True)))
        peaks = sorted(_status_bytes(worker, "VmHWM") / 1e6 for worker in workers)
        digest = _digest(store)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
        for pattern in ("sirocco:{maps}:*", "sirocco:{*}:judged:*"):
            for key in store.client.scan_iter(pattern):
                store.client.delete(key)
    return {
        "busiest, CPU s": used[-1],
        "others, CPU s": sum(used[:-1]) / max(count - 1, 1),
        "all, CPU s": sum(used),
        "wall s": seconds,
        "largest, peak MB": peaks[-1],
        "others, peak MB": sum(peaks[:-1]) / max(count - 1, 1),
        "largest, anonymous MB": anonymous[-1],
        "others, anonymous MB": sum(anonymous[:-1]) / max(count - 1, 1),
        "atlas": digest,
    }


def _work(settings: Settings, url: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_worker(settings, url)


def _await_refit(store: Store, hour: int) -> None:
    jobs = Jobs(store.client)
    job = jobs.submit("retrain", {"as_of": float(hour * SECONDS)}, time.time())
    deadline = time.monotonic() + MOST_SECONDS
    while (now := jobs.get(job.id)) is None or now.status not in ("done", "failed"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no refit in {MOST_SECONDS} s")
        time.sleep(0.05)
    if now.error:
        raise RuntimeError(now.error)


def _digest(store: Store) -> str:
    versions = Versions(store.client, 3)
    version = versions.current()
    assert version is not None, "a refit that is done has published"
    return sha256(versions.load(version).atlases[TARGET]).hexdigest()[:12]


def _used(worker: BaseProcess) -> float:
    return cpu_seconds(worker.pid or 0)


@contextmanager
def _watched(workers: Sequence[BaseProcess]) -> Iterator[list[float]]:
    """The most anonymous memory that each held meanwhile, in MB."""
    most, over = [0.0] * len(workers), Event()

    def watch() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            now = (_status_bytes(worker, "RssAnon") / 1e6 for worker in workers)
            most[:] = map(max, most, now)

    looking = Thread(target=watch)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()


def _status_bytes(worker: BaseProcess, name: str) -> int:
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return 1024 * int(status.partition(f"{name}:")[2].split()[0])


PART = Part("together", "One refit by several workers", __doc__, measure, lambda: measure(100_000))
