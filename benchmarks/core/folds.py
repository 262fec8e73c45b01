"""Folds that are divided among workers: CPU of each, and of Redis, by how many there are.

A million events of 10,000 campaigns lie in the logs of one hour, in requests of 1,000, and are
folded by 1, 2 and 4 processes at once, each with its share of the shards, as workers do.
`busiest, s` is the CPU time of the one that took most, `all, s` that of all, `redis, s` Redis'.

    python -m benchmarks.core.folds [EVENTS]
"""

import asyncio
import json
import multiprocessing
import sys
from multiprocessing.queues import SimpleQueue
from time import process_time

import numpy as np

from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.keys import SHARDS
from app.storage.redis.client import open_async_redis, open_redis
from benchmarks.figures import Cell, Table, shown
from benchmarks.store import private_store

CAMPAIGNS, BATCH, SEED, HOUR, TTL_SECONDS = 10_000, 1_000, 23, 500_000, 3_600
WORKERS = (1, 2, 4)


def folds(events: int) -> Table:
    """Seconds of CPU by the number of workers; raises where an event is lost or doubled."""
    return {f"{workers} workers": _folded_by(workers, events) for workers in WORKERS}


def _folded_by(workers: int, events: int) -> dict[str, Cell]:
    with private_store() as store:
        asyncio.run(_append(store.url, events))
        before = store.cpu_seconds
        each = _in_processes(store.url, workers)
        redis = store.cpu_seconds - before
    folded = sum(rows for rows, _ in each)
    if folded != events:
        raise AssertionError(f"{events} events came, {folded} were folded")
    taken = [seconds for _, seconds in each]
    return {"busiest, s": max(taken), "all, s": sum(taken), "redis, s": redis}


async def _append(url: str, events: int) -> None:
    rng = np.random.default_rng(SEED)
    async with open_async_redis(url) as client:
        log = EventLog(client, TTL_SECONDS)
        for _ in range(events // BATCH):
            batch = EventBatch()
            scores = rng.beta(1.0, 30.0, BATCH).tolist()
            for row, score in zip(rng.integers(0, CAMPAIGNS, BATCH), scores, strict=True):
                batch.add("click", HOUR, f"campaign-{row}", score, 1.0, 0.0)
            await log.append(batch)


def _in_processes(url: str, workers: int) -> list[tuple[int, float]]:
    context = multiprocessing.get_context("spawn")
    results: SimpleQueue[tuple[int, float]] = context.SimpleQueue()
    shares = [range(place, SHARDS, workers) for place in range(workers)]
    started = [context.Process(target=_fold, args=(url, share, results)) for share in shares]
    for process in started:
        process.start()
    found = [results.get() for _ in started]
    for process in started:
        process.join()
    return found


def _fold(url: str, share: range, results: "SimpleQueue[tuple[int, float]]") -> None:
    with open_redis(url) as client:
        bins, before = BinsStore(client, TTL_SECONDS), process_time()
        results.put((bins.fold(share), process_time() - before))


if __name__ == "__main__":
    table = folds(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    for title, cells in table.items():
        found = {title: {name: shown(cell) for name, cell in cells.items()}}
        sys.stdout.write(json.dumps(found) + "\n")
