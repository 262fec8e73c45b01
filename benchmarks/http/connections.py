"""A normal client, alone and beside crowds of clients that misbehave.

The client sends one `POST /v1/calibrate` of ten scores after the other on one connection, and times
each; the server's CPU is all that it used meanwhile, for the crowd too. The crowds, in another
process on the client's core: idle connections, connections that send a byte of a head every second,
connections that stopped in the middle of a body, and connections reset in the middle of a body, so
many each second. Memory is what the server's process grew by with the first crowd of idle
connections; the kernel's own is not in it. The last two rows are the cost of the bounds themselves:
the raw ASGI echo on uvicorn's own protocol and on sirocco's, on 16 connections, and there a round
trip's time is not taken.

    python -m benchmarks connections [--json]
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import orjson

from benchmarks.core.traffic import campaign_names, random_maps, random_scores
from benchmarks.figures import Cell, Figure, Table
from benchmarks.http.crowds import gathered
from benchmarks.http.load import Connections, get, post
from benchmarks.http.servers import MAPS_SEED, Server, started
from benchmarks.machine import on_core
from benchmarks.parts import Part
from benchmarks.store import private_store
from calibrators import Atlas

SEED = 19
BATCH = 10
CAMPAIGNS = 1_000
ALONE = "alone"
CPU, P50, P99, MEMORY = "CPU, us", "p50, us", "p99, us", "KB of a connection"
ECHOES = {"echo, uvicorn's protocol": "uvicorn-echo", "echo, sirocco's protocol": "echo"}
_OPEN = re.compile(rb"^sirocco_connections (\S+)$", re.MULTILINE)
_LOOK_SECONDS = 0.05
# The difference between the two is small.
_ECHOES_FOR_ONE = 4


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    crowds: Mapping[str, int] = field(
        default_factory=lambda: {
            "idle": 10_000,
            "slow-heads": 1_000,
            "half-bodies": 200,
            "dropped": 1_000,
        }
    )
    echoes: Mapping[str, str] = field(default_factory=lambda: ECHOES)
    requests: int = 1_500
    rounds: int = 5


TITLES = {
    "idle": "beside {:,} idle",
    "slow-heads": "beside {:,} with a byte a second",
    "half-bodies": "beside {:,} half bodies",
    "dropped": "beside {:,} dropped a second",
}


def measure(sizes: Sizes | None = None) -> Table:
    """A row for the client alone, one beside each crowd, and two for the protocols."""
    sizes = sizes or Sizes()
    message = _message(np.random.default_rng(SEED))
    with ExitStack() as opened, on_core(1):
        store = opened.enter_context(private_store())
        store.publish(Atlas.build(random_maps(CAMPAIGNS, MAPS_SEED)))
        server = opened.enter_context(started("sirocco", store.url))
        echoes = {
            name: opened.enter_context(started(kind, store.url))
            for name, kind in sizes.echoes.items()
        }
        return _measured(server, echoes, message, sizes)


def _measured(server: Server, echoes: dict[str, Server], message: bytes, sizes: Sizes) -> Table:
    _round(server, message, sizes.requests)
    memory = 0.0
    rounds: dict[str, list[tuple[float, ...]]] = {}
    for turn in range(sizes.rounds):
        rounds.setdefault(ALONE, []).append(_round(server, message, sizes.requests))
        for kind, count in sizes.crowds.items():
            before = _resident_bytes(server)
            with _crowd(server, kind, count):
                if kind == "idle" and turn == 0:
                    memory = (_resident_bytes(server) - before) / count / 1e3
                found = _round(server, message, sizes.requests)
            rounds.setdefault(TITLES[kind].format(count), []).append(found)
        for name, echo in echoes.items():
            rounds.setdefault(name, []).append((_cpu_of_echo(echo, message, sizes.requests),))
    rows: Table = {name: _row(found) for name, found in rounds.items()}
    of_idle = TITLES["idle"].format(sizes.crowds["idle"])
    return rows | {of_idle: {**rows[of_idle], MEMORY: memory}}


def _row(rounds: Sequence[tuple[float, ...]]) -> dict[str, Cell]:
    by_column = zip((CPU, P50, P99), zip(*rounds, strict=True), strict=False)
    return {column: Figure.of(values) for column, values in by_column}


def _round(server: Server, message: bytes, requests: int) -> tuple[float, ...]:
    """Microseconds: CPU per request, median and 99th percentile of the time of one."""
    taken = []
    with Connections(server.port, count=1) as connection:
        connection.send([message])
        before = server.cpu_seconds
        for _ in range(requests):
            began = perf_counter()
            connection.send([message])
            taken.append(perf_counter() - began)
        used = server.cpu_seconds - before
    return used / requests * 1e6, *(np.percentile(taken, (50, 99)) * 1e6).tolist()


def _cpu_of_echo(server: Server, message: bytes, requests: int) -> float:
    with Connections(server.port) as connections:
        connections.send([message] * 100)
        before = server.cpu_seconds
        connections.send([message] * requests * _ECHOES_FOR_ONE)
        return (server.cpu_seconds - before) / requests / _ECHOES_FOR_ONE * 1e6


@contextmanager
def _crowd(server: Server, kind: str, count: int) -> Iterator[None]:
    """Inside, the server has the whole crowd; afterwards it has forgotten it."""
    with Connections(server.port, count=1) as connection:
        with gathered(kind, server.port, count):
            if kind != "dropped":
                _wait(connection, at_least=count)
            yield
        _wait(connection, at_most=1)


def _wait(connection: Connections, at_least: int = 0, at_most: float = float("inf")) -> None:
    while not at_least <= _open(connection) <= at_most:
        sleep(_LOOK_SECONDS)


def _open(connection: Connections) -> float:
    found = _OPEN.search(connection.send([get("/metrics")]))
    if found is None:
        raise RuntimeError("the server does not say how many connections are open")
    return float(found[1])


def _resident_bytes(server: Server) -> int:
    lines = Path(f"/proc/{server.process_id}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _message(rng: np.random.Generator) -> bytes:
    names = campaign_names(CAMPAIGNS)
    chosen = [names[place] for place in rng.integers(0, CAMPAIGNS, BATCH).tolist()]
    scores = [round(score, 6) for score in random_scores(BATCH, rng)]
    question = {"target": "click", "campaigns": chosen, "scores": scores}
    return post("/v1/calibrate", orjson.dumps(question))


PART = Part(
    "connections",
    f"A normal client beside clients that misbehave, batches of {BATCH}, microseconds per request",
    __doc__,
    measure,
)
