"""How late an event loop is while a thread beside it reads a version."""

import asyncio
import sys
import time
from collections.abc import Callable

from app.api.snapshot import Refresher
from app.storage import Versions, open_redis
from app.storage.versions import Notices
from benchmarks.figures import Figure
from benchmarks.publishing import Publishing
from benchmarks.store import TIMEOUT_SECONDS, Store

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
