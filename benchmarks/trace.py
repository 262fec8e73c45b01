"""Which files of the product one score, one event and one refit pass through, traced live.

`calibrate` and `events` are one request each, of one score and of one impression, from the bytes
of the request to those of the answer, in the thread of a running service; `refit` is one run of
the worker's `Refitter` over two targets, with the method `pooled` and the guard, an hour of events
to fold among it. Counted is what is called after a first time, which loads and connects, on a Redis
of its own: product files, and calls of their functions, of which a generator or a coroutine that is
resumed is one more. Requests of one kind follow each other on a connection. Of several runs the one
with the fewest files, and of these the fewest calls, counts: now and then something that the
service does by the clock falls into a request, on a busy machine often.

    python -m benchmarks.trace [--json] [-v]
"""

import asyncio
import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

from app.api.server.server import server_of
from app.settings import Settings, load_settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.lease import Lease
from app.storage.redis.client import open_async_redis
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from benchmarks.http.load import Connections, post
from benchmarks.store import Store, private_store
from evaluation import Platform

ROOT = Path(__file__).parents[1]
PRODUCT = tuple(f"{ROOT}/{name}/" for name in ("app", "calibrators", "pccem", "evaluation"))
CLIENTS = f"{ROOT}/clients/"
TARGETS = ("click", "install")
HOUR_SECONDS = 3600
REQUESTS, HOURS, FIRST_REFITS = 60, 6, 3

Calls = Mapping[str, int]
"""Calls by file, in the order of the first call of each."""


class Tracer:
    """Counts the calls of one thread, the one that calls `watch`, while it is `active`."""

    def __init__(self) -> None:
        self.active = False
        self._calls: dict[str, int] = {}

    def watch(self) -> None:
        """Look at this thread from now on."""
        sys.setprofile(self._seen)

    @contextmanager
    def counting(self) -> Iterator[Calls]:
        """Inside, calls are added to what is given."""
        calls: dict[str, int] = {}
        self._calls = calls
        self.active = True
        try:
            yield calls
        finally:
            self.active = False

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if self.active and event == "call":
            name = frame.f_code.co_filename
            if name.startswith((*PRODUCT, CLIENTS)):
                self._calls[name] = self._calls.get(name, 0) + 1


def traces() -> dict[str, Calls]:
    """The three ways, each on a store of its own."""
    with private_store() as store, _service(store) as (tracer, port):
        impression = {"type": "impression", "campaign": "a", "scores": {"click": 0.25}}
        score = {"target": "click", "campaign": "a", "scores": [0.25]}
        found = {
            "calibrate": _request(tracer, port, "/v1/calibrate", lambda: score),
            "events": _request(
                tracer, port, "/v1/events", lambda: {**impression, "occurred_at": time.time()}
            ),
        }
    with private_store() as store:
        return {**found, "refit": _refit(store)}


@contextmanager
def _service(store: Store) -> Iterator[tuple[Tracer, int]]:
    """A service in a thread that is traced, and its port."""
    tracer = Tracer()
    server = server_of(load_settings(port=0, snapshot_dir="off"), store.url)

    def run() -> None:
        tracer.watch()
        server.run()

    thread = Thread(target=run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield tracer, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def _request(tracer: Tracer, port: int, path: str, body: Callable[[], Mapping[str, Any]]) -> Calls:
    found = []
    with Connections(port, 1) as http:
        for _ in range(1 + REQUESTS):
            message = post(path, json.dumps(body()).encode())
            with tracer.counting() as calls:
                http.send([message])
            found.append(calls)
    return min(found[1:], key=_size)


def _refit(store: Store) -> Calls:
    """Of the hours after the first, each with events of both targets to fold."""
    settings = load_settings(targets=TARGETS, delayed_targets=(), calibrator="pooled", guard=True)
    versions = Versions(store.client, settings.versions_kept)
    refitter = Refitter(settings, BinsStore(store.client, settings.ttl_seconds), versions)
    token = Lease(store.client, "worker", "trace", HOUR_SECONDS)
    token.acquire()
    tracer, platform = Tracer(), Platform(campaigns=4, impressions_per_hour=400, ctr=0.1, seed=1)
    first = int(platform.start) // HOUR_SECONDS
    found = []
    for hour in range(HOURS):
        asyncio.run(_post(store, settings, platform, hour))
        request = Request(float((first + hour + 1) * HOUR_SECONDS))
        if hour >= FIRST_REFITS:
            tracer.watch()
        with tracer.counting() as calls:
            refitter.run(request, token.token, partial(float, request.as_of))
        sys.setprofile(None)
        found.append(calls)
    return min(found[FIRST_REFITS:], key=_size)


async def _post(store: Store, settings: Settings, platform: Platform, hour: int) -> None:
    """Append an hour of events of both targets."""
    events, batch = platform.hour(hour).events, EventBatch()
    columns = (events.hours, events.rows, events.scores, events.outcomes)
    for number, row, score, outcome in zip(*(each.tolist() for each in columns), strict=True):
        for target in TARGETS:
            batch.add(target, number, events.campaigns[row], score, 1.0, outcome)
    async with open_async_redis(store.url) as client:
        await EventLog(client, settings.ttl_seconds).append(batch)


def _size(calls: Calls) -> tuple[int, int]:
    return len(calls), sum(calls.values())


def main() -> None:
    """Trace, and print a table, the files, or JSON."""
    parser = ArgumentParser(description="Files and calls that one score, event, refit takes.")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the files")
    given = parser.parse_args()
    found = traces()
    sums = {
        way: dict(zip(("files", "calls"), _size(calls), strict=True))
        for way, calls in found.items()
    }
    if given.json:
        sys.stdout.write(json.dumps(sums) + "\n")
        return
    for way, calls in found.items():
        sys.stdout.write(f"{way:<10} {len(calls):>3} files {sum(calls.values()):>7,} calls\n")
        for name in calls if given.verbose else ():
            sys.stdout.write(f"    {Path(name).relative_to(ROOT)} {calls[name]:,}\n")


if __name__ == "__main__":
    main()
