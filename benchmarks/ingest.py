"""Ingest of events in requests of 1000: CPU per event, and events per second of one core.

`over HTTP` counts the CPU of the server process and of Redis together, for events that are
stored when the answer comes. Impressions without ids of their own are the plain case; `ids and
clicks` gives every impression an id, which is checked for repeats, and makes 2 % of the events
clicks. `into Redis` leaves HTTP and parsing out: gather, pack, append. The naive endpoint is
FastAPI with pydantic, and for each event its HINCRBYs (two for an impression, one for a click),
a request's in one pipeline; it checks no repeats, and forgets nothing. Both write to a Redis
with an append-only file that is synchronised before the answer, on a unix socket.

    python -m benchmarks.ingest [--json]
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.settings import load_settings
from app.storage import Batch, EventLog, open_async_redis
from app.storage.batch import Cell
from app.storage.open_click import OpenClick
from benchmarks import naive
from benchmarks.figures import Figure, Table
from benchmarks.load import Connections, post
from benchmarks.maps import campaign_names
from benchmarks.parts import Part, main
from benchmarks.servers import started
from benchmarks.store import Store, private_store

SEED = 23
FIRST_SECOND = 1_767_225_600.0
HOUR_SECONDS = 3600
CLICKS = 0.02


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    events: int = 1_000
    requests: int = 48
    rounds: int = 7


class Used(NamedTuple):
    """Seconds of CPU of one round."""

    server: float
    redis: float


Json = dict[str, Any]
Request = list[Json]
Send = Callable[[Sequence[Request]], Used]
Round = Mapping[str, Sequence[Request]]
PLAIN, WITH_IDS = "impressions", "ids and clicks"


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each way to store events, over HTTP and into Redis alone."""
    sizes = sizes or Sizes()
    taken: dict[str, list[Used]] = {}
    with ExitStack() as opened:
        ways = {name: opened.enter_context(way()) for name, way in WAYS.items()}
        for requests in _rounds(sizes):
            for name, send in ways.items():
                for kind, asked in requests.items():
                    taken.setdefault(f"{name}, {kind}", []).append(send(asked))
    # The first round warms up.
    return {name: _row(used[1:], sizes) for name, used in taken.items()}


def _row(rounds: Sequence[Used], sizes: Sizes) -> dict[str, Figure]:
    events = sizes.events * sizes.requests
    return {
        "events/s of a core": Figure.of([events / sum(used) for used in rounds]),
        "server us": Figure.of([used.server / events * 1e6 for used in rounds]),
        "Redis us": Figure.of([used.redis / events * 1e6 for used in rounds]),
    }


def _rounds(sizes: Sizes) -> Iterator[Round]:
    rng = np.random.default_rng(SEED)
    for number in range(sizes.rounds + 1):
        yield {
            kind: [
                _request(sizes, rng, f"{kind[0]}{number}-{place}" if kind == WITH_IDS else None)
                for place in range(sizes.requests)
            ]
            for kind in (PLAIN, WITH_IDS)
        }


def _request(sizes: Sizes, rng: np.random.Generator, ids: str | None) -> Request:
    campaigns = campaign_names(sizes.campaigns)
    columns = zip(
        rng.integers(0, sizes.campaigns, sizes.events).tolist(),
        rng.beta(1.0, 40.0, sizes.events).round(6).tolist(),
        (FIRST_SECOND + rng.uniform(0, HOUR_SECONDS, sizes.events)).round(3).tolist(),
        (rng.random(sizes.events) < CLICKS).tolist(),
        strict=True,
    )
    return [
        _event(campaigns[campaign], score, seconds, clicked, ids and f"{ids}-{place}")
        for place, (campaign, score, seconds, clicked) in enumerate(columns)
    ]


def _event(
    campaign: str, score: float, seconds: float, clicked: bool, event_id: str | None
) -> Json:
    event = {"campaign": campaign, "occurred_at": seconds, "scores": {"click": score}}
    if event_id is None:
        return {"type": "impression", **event}
    if clicked:
        return {"type": "click", "click_id": event_id, "impression_at": seconds, **event}
    return {"type": "impression", "id": event_id, **event}


@contextmanager
def _over_http(kind: str) -> Iterator[Send]:
    with private_store() as store, started(kind, store.url) as server:

        def send(requests: Sequence[Request]) -> Used:
            messages = [post("/v1/events", orjson.dumps(request)) for request in requests]
            # Opened anew: a server closes what idles while the others have their turn.
            with Connections(server.port) as connections:
                before = Used(server.cpu_seconds, store.cpu_seconds)
                answer = orjson.loads(connections.send(messages))
                used = Used(server.cpu_seconds - before.server, store.cpu_seconds - before.redis)
            _check_accepted(answer["accepted"], requests[-1])
            return used

        yield send


@contextmanager
def _into_redis(append: Callable[[Store, Sequence[Request]], Awaitable[float]]) -> Iterator[Send]:
    with private_store() as store:

        def send(requests: Sequence[Request]) -> Used:
            before = store.cpu_seconds
            client_seconds = asyncio.run(_awaited(append(store, requests)))
            return Used(client_seconds, store.cpu_seconds - before)

        yield send


async def _awaited(work: Awaitable[float]) -> float:
    return await work


async def _append(store: Store, requests: Sequence[Request]) -> float:
    """Our process's CPU seconds."""
    async with open_async_redis(store.url) as client:
        log = EventLog(client, load_settings().ttl_seconds)
        started_at = process_time()
        for request in requests:
            appended = await log.append(_batch(request))
            _check_accepted(appended.accepted, request)
        return process_time() - started_at


def _batch(request: Request) -> Batch:
    batch = Batch()
    for place, event in enumerate(request):
        hour, campaign = int(event["occurred_at"] // HOUR_SECONDS), event["campaign"]
        score = event["scores"]["click"]
        if "click_id" in event:
            click = OpenClick(event["click_id"], campaign, event["occurred_at"])
            batch.add_click(place, click, opens=False, cell=Cell("click", hour, score))
        else:
            batch.add("click", hour, campaign, score, 1.0, 0.0, event.get("id"))
    return batch


async def _increment(store: Store, requests: Sequence[Request]) -> float:
    """Our process's CPU seconds."""
    parsed = [[_model(event) for event in request] for request in requests]
    async with open_async_redis(store.url) as client:
        started_at = process_time()
        for events in parsed:
            await naive.increment(client, events)
        return process_time() - started_at


def _model(event: Json) -> naive.Impression | naive.Click:
    return naive.Click(**event) if "click_id" in event else naive.Impression(**event)


def _check_accepted(accepted: int, request: Request) -> None:
    if accepted != len(request):
        raise RuntimeError(f"{accepted} of {len(request)} events were accepted")


WAYS: dict[str, Callable[[], AbstractContextManager[Send]]] = {
    "over HTTP: sirocco": lambda: _over_http("sirocco"),
    "over HTTP: naive": lambda: _over_http("naive-events"),
    "into Redis: sirocco": lambda: _into_redis(_append),
    "into Redis: HINCRBY": lambda: _into_redis(_increment),
}
PART = Part("ingest", "Ingest in requests of 1000 events, CPU per event", __doc__, measure)

if __name__ == "__main__":
    main(PART)
