"""Ingest of events in requests of 1 to 10,000: CPU per event, and events per second of one core.

`over HTTP` counts the CPU of the server process and of Redis together, for events that are
stored when the answer comes; `wall` is the time until then, by the event. Impressions without ids
of their own are the plain case; `ids and clicks` gives every impression an id, which is checked for
repeats, and makes 2 % of the events clicks. `3 fields` gives every impression values of three
declared fields, of which there are 3, 50 and 5,000. A body of binary columns holds one kind of
event: there `ids` are impressions with ids. `into Redis` leaves HTTP and parsing out: check, pack,
append. The naive endpoint is FastAPI with pydantic, and for each event its HINCRBYs (two for an
impression, one for a click), a request's in one pipeline; it checks no repeats, and forgets
nothing. All write to a Redis with an append-only file that is synchronised before the answer, on a
unix socket. Over HTTP 16 requests are on their way at a time, into Redis one.

    python -m benchmarks ingest [--json] [--write]
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import NamedTuple, Self

import orjson
import redis.asyncio

from app.events.admission import Admission
from app.events.reading import read_events
from app.events.rejections import OpenTimes, Rejections
from app.settings import load_settings
from app.storage.event_log import EventLog
from app.storage.redis.client import open_async_redis
from benchmarks.figures import Figure, Table
from benchmarks.http import naive
from benchmarks.http.bodies import (
    COLUMNS,
    FIELD_VALUES,
    FIELDS,
    IDS,
    IDS_AND_CLICKS,
    JSON,
    PLAIN,
    Event,
    Requests,
    columns_body,
    json_body,
)
from benchmarks.http.load import Connections, post
from benchmarks.http.servers import started
from benchmarks.parts import Part
from benchmarks.store import Store, private_store

COMPARED = 1_000
"""Events of a request in the rows of the alternatives."""


@dataclass(frozen=True)
class Sizes:
    """How much to measure; batches: events of a request -> requests of a round."""

    campaigns: int = 10_000
    batches: Mapping[int, int] = field(
        default_factory=lambda: {1: 320, 10: 320, 100: 96, 1_000: 16, 10_000: 2}
    )
    rounds: int = 7


class Clocks(NamedTuple):
    """Seconds of our process's CPU, and of the wall clock."""

    cpu: float
    wall: float

    @classmethod
    def now(cls) -> Self:
        """What both show."""
        return cls(process_time(), perf_counter())

    def since(self, before: Self) -> "Clocks":
        """What has gone by."""
        return Clocks(self.cpu - before.cpu, self.wall - before.wall)


class Used(NamedTuple):
    """Seconds of one round: of CPU of who takes the events and of Redis, and of the wall clock."""

    server: float
    redis: float
    wall: float


Send = Callable[[Requests], Used]


class Way(NamedTuple):
    """One way to store events, of which kinds, and whether in requests of every size."""

    opened: Callable[[], AbstractContextManager[Send]]
    kinds: tuple[str, ...] = (PLAIN, IDS_AND_CLICKS)
    compared: bool = False


class Case(NamedTuple):
    """One row."""

    way: str
    kind: str
    batch: int

    @property
    def row(self) -> str:
        """Its name."""
        return f"{self.way}, {self.kind}, batch of {self.batch:,}"


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each way to store events, each kind of them and each size of a request."""
    sizes = sizes or Sizes()
    taken: dict[Case, list[Used]] = {case: [] for case in _cases(sizes)}
    with ExitStack() as opened:
        ways = {name: opened.enter_context(way.opened()) for name, way in WAYS.items()}
        # The first round warms up.
        for number in range(-1, sizes.rounds):
            for case, requests in _round(sizes, number):
                used = ways[case.way](requests)
                taken[case] += [used] if number >= 0 else []
    return {case.row: _row(used, case, sizes) for case, used in taken.items()}


def _cases(sizes: Sizes) -> Iterator[Case]:
    for name, way in WAYS.items():
        batches = [COMPARED] if way.compared else sizes.batches
        for kind in way.kinds:
            yield from (Case(name, kind, batch) for batch in batches if batch in sizes.batches)


def _round(sizes: Sizes, number: int) -> Iterator[tuple[Case, Requests]]:
    """The same events for every way, which all have stores of their own."""
    for batch, count in sizes.batches.items():
        for kind in (PLAIN, IDS_AND_CLICKS, IDS, FIELDS):
            requests = Requests.of(sizes.campaigns, kind, (number + 1, batch), batch, count)
            yield from (
                (case, requests)
                for case in _cases(sizes)
                if (case.kind, case.batch) == (kind, batch)
            )


def _row(rounds: Sequence[Used], case: Case, sizes: Sizes) -> dict[str, Figure]:
    events = case.batch * sizes.batches[case.batch]
    return {
        "events/s of a core": Figure.of([events / (used.server + used.redis) for used in rounds]),
        "server us": Figure.of([used.server / events * 1e6 for used in rounds]),
        "Redis us": Figure.of([used.redis / events * 1e6 for used in rounds]),
        "wall us": Figure.of([used.wall / events * 1e6 for used in rounds]),
    }


@contextmanager
def _over_http(
    kind: str, body: Callable[[Sequence[Event]], bytes] = json_body, content_type: str = JSON
) -> Iterator[Send]:
    with private_store() as store, started(kind, store.url) as server:

        def send(requests: Requests) -> Used:
            messages = [post("/v1/events", body(events), content_type) for events in requests.all]
            # Opened anew: a server closes what idles while the others have their turn.
            with Connections(server.port) as connections:
                before = Used(server.cpu_seconds, store.cpu_seconds, perf_counter())
                answer = orjson.loads(connections.send(messages))
                after = Used(server.cpu_seconds, store.cpu_seconds, perf_counter())
            _check_accepted(answer["accepted"], requests.all[-1])
            return Used(*(b - a for a, b in zip(before, after, strict=True)))

        yield send


@contextmanager
def _into_redis(append: Callable[[Store, Requests], Awaitable[Clocks]]) -> Iterator[Send]:
    with private_store() as store:

        def send(requests: Requests) -> Used:
            before = store.cpu_seconds
            spent = asyncio.run(_awaited(append(store, requests)))
            return Used(spent.cpu, store.cpu_seconds - before, spent.wall)

        yield send


async def _awaited(work: Awaitable[Clocks]) -> Clocks:
    return await work


async def _append(store: Store, requests: Requests) -> Clocks:
    """What it took."""
    settings = load_settings(fields=tuple(FIELD_VALUES))
    parsed = [
        list(read_events(json_body(some), len(some), Rejections(), lines=False))
        for some in requests.all
    ]
    async with open_async_redis(store.url) as client:
        log = EventLog(client, settings.ttl_seconds)
        before = Clocks.now()
        for events in parsed:
            admission = Admission(settings, OpenTimes.since(None, settings))
            for piece in events:
                list(admission.admit_all(piece))
            appended = await log.append(admission.batch)
            _check_accepted(appended.accepted, [one for piece in events for one in piece.events])
        return Clocks.now().since(before)


async def _increment(store: Store, requests: Requests) -> Clocks:
    """What it took."""
    parsed = [[_model(event) for event in request] for request in requests.all]
    async with open_async_redis(store.url) as client:
        before = Clocks.now()
        for events in parsed:
            assert isinstance(client, redis.asyncio.Redis)
            await naive.increment(client, events)
        return Clocks.now().since(before)


def _model(event: Event) -> naive.Impression | naive.Click:
    return naive.Click(**event) if "click_id" in event else naive.Impression(**event)


def _check_accepted(accepted: int, request: Sequence[object]) -> None:
    if accepted != len(request):
        raise RuntimeError(f"{accepted} of {len(request)} events were accepted")


WAYS = {
    "over HTTP: sirocco": Way(lambda: _over_http("sirocco"), (PLAIN, IDS_AND_CLICKS, FIELDS)),
    "over HTTP: sirocco, binary": Way(
        lambda: _over_http("sirocco", columns_body, COLUMNS), (PLAIN, IDS, FIELDS)
    ),
    "over HTTP: naive": Way(lambda: _over_http("naive-events"), compared=True),
    "into Redis: sirocco": Way(lambda: _into_redis(_append), (PLAIN, IDS_AND_CLICKS, FIELDS)),
    "into Redis: HINCRBY": Way(lambda: _into_redis(_increment), compared=True),
}
PART = Part("ingest", "Ingest, CPU per event", __doc__, measure)
