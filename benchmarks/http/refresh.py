"""From a published version to the first answers by it, and what a version costs who serves it.

Two processes of `sirocco serve` on one Redis, as `serve --workers 2` has them; the time runs from
the moment the version is in force until both serve it. By notice is the default of the service; by
polling, every 200 ms, is what is left when the notices are lost. A cold start runs from the start
of the process, its imports included, until it is ready with all maps. Maps have the same knots, as
those of `pooled`, or knots of their own, as those of `sir`. A pause is how late the event
loop was at worst while a version was read in the thread beside it, or while that thread slept.

    python -m benchmarks refresh [--json]
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

import numpy as np
import redis

from app.api.snapshot import Refresher
from app.storage.lease import LeaseToken
from app.storage.redis.client import open_redis
from app.storage.versions import Notices, Versions
from benchmarks.core.traffic import random_atlas
from benchmarks.figures import Cell, Figure, Table
from benchmarks.http.servers import Started, seconds_until_served, service
from benchmarks.parts import Part
from benchmarks.store import TIMEOUT_SECONDS, Store, private_store

_MUTE = "mute"


@dataclass(frozen=True)
class Publishing:
    """Publishes the packed atlases in turn."""

    store: Store
    packed: Iterator[bytes]
    token: LeaseToken
    client: redis.Redis = field(repr=False)

    @classmethod
    def of(cls, store: Store, packed: Sequence[bytes]) -> "Publishing":
        """By the worker, who sends notices."""
        return cls(store, cycle(packed), store.lease().token, store.client)

    @contextmanager
    def silent(self) -> Iterator["Publishing"]:
        """By a user who may not send notices."""
        self.store.client.acl_setuser(
            _MUTE, enabled=True, nopass=True, keys=["*"], categories=["+@all"], reset_channels=True
        )
        mute = redis.Redis.from_url(
            self.store.url, username=_MUTE, password="", socket_timeout=TIMEOUT_SECONDS
        )
        with mute:
            yield Publishing(self.store, self.packed, self.token, mute)

    def publish(self) -> str:
        """Bring the next into force; returns the version."""
        versions = Versions(self.client, 1)
        return versions.publish(self.token, 0.0, 0.0, {"click": next(self.packed)}, {})


TICK_SECONDS = 0.001


def pauses(store: Store, publishing: Publishing, rounds: int) -> tuple[Figure, Figure]:
    """Seconds by which a timer was late at worst, round by round: while a version was read, and
    for as long while the thread only slept."""
    reading, sleeping = [], []
    switching = sys.getswitchinterval()
    with open_redis(store.url, TIMEOUT_SECONDS) as client:
        refresher = Refresher(Versions(client, 1), Notices(client), ("click",), TIMEOUT_SECONDS)
        # Sets how often threads take turns, as in the service; read again is by hand below.
        refresher.start()
        refresher.stop()
        for _ in range(rounds):
            publishing.publish()
            began = time.perf_counter()
            reading.append(asyncio.run(_latest(refresher.refresh)))
            taken = time.perf_counter() - began
            sleeping.append(asyncio.run(_latest(lambda: time.sleep(taken))))  # noqa: B023
    sys.setswitchinterval(switching)
    return Figure.of(reading), Figure.of(sleeping)


async def _latest(work: Callable[[], object]) -> float:
    done = asyncio.get_running_loop().run_in_executor(None, work)
    latest = 0.0
    while not done.done():
        began = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        latest = max(latest, time.perf_counter() - began - TICK_SECONDS)
    return latest


SEEDS: Final = (1, 2)


@dataclass(frozen=True)
class Sizes:
    """How much to measure: the maps of a version, with how often it is published."""

    maps: tuple[tuple[int, int], ...] = ((10_000, 40), (100_000, 6))
    starts: int = 3
    services: int = 2


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each size of a version."""
    sizes = sizes or Sizes()
    rows: Table = {f"{maps:,} maps": _row(maps, rounds, sizes) for maps, rounds in sizes.maps}
    maps, rounds = sizes.maps[-1]
    rows[f"{maps:,} maps, own knots"] = _row(maps, rounds, sizes, own_knots=True)
    return rows


def _row(maps: int, rounds: int, sizes: Sizes, *, own_knots: bool = False) -> dict[str, Cell]:
    atlases = (random_atlas(maps, seed, own_knots=own_knots) for seed in SEEDS)
    packed = [atlas.to_bytes() for atlas in atlases]
    with private_store() as store:
        empty = _start(store)
        before = store.used_bytes
        publishing = Publishing.of(store, packed)
        publishing.publish()
        stored = store.used_bytes - before
        starts = [_start(store) for _ in range(sizes.starts)]
        return {
            **_served(store, publishing, rounds, sizes.services),
            "cold start, s": Figure.of([start.seconds for start in starts]),
            "cold start, CPU s": Figure.of([start.cpu_seconds for start in starts]),
            **_pauses(store, publishing, max(3, rounds // 4)),
            "bytes a map in Redis": stored / maps,
            "bytes a map in a process": (starts[0].resident_bytes - empty.resident_bytes) / maps,
        }


def _start(store: Store) -> Started:
    with service(store.url) as started:
        return started


def _served(store: Store, publishing: Publishing, rounds: int, services: int) -> dict[str, Cell]:
    with ExitStack() as opened:
        running = [opened.enter_context(service(store.url)) for _ in range(services)]
        by_notice = _milliseconds(publishing, running, rounds)
        silent = opened.enter_context(publishing.silent())
        by_polling = _milliseconds(silent, running, max(3, rounds // 2))
    return {**_quantiles("by notice", by_notice), **_quantiles("by polling", by_polling)}


def _milliseconds(publishing: Publishing, running: Sequence[Started], rounds: int) -> list[float]:
    https = [started.http for started in running]
    return [1e3 * seconds_until_served(publishing.publish(), https) for _ in range(rounds)]


def _quantiles(name: str, milliseconds: Sequence[float]) -> dict[str, Cell]:
    median, high = np.percentile(milliseconds, (50, 99)).tolist()
    return {f"{name}, p50 ms": median, f"{name}, p99 ms": high}


def _pauses(store: Store, publishing: Publishing, rounds: int) -> dict[str, Cell]:
    reading, sleeping = pauses(store, publishing, rounds)
    return {"worst pause, ms": reading.times(1e3), "worst pause without, ms": sleeping.times(1e3)}


PART = Part("refresh", "Refresh: publish to serve, cold start, memory", __doc__, measure)
