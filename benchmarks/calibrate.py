"""`POST /v1/calibrate` with columns of mixed campaigns, in microseconds of the server's CPU.

Maps of 10,000 campaigns; 16 connections from another process. `sirocco` is the whole service: it
validates every value, counts metrics and watches Redis for new versions. The naive ones are
FastAPI with pydantic and one look-up per score, by numpy.interp or by scikit-learn. The echo is
a raw ASGI application that does nothing: what is above it is ours to answer for. All are served
by uvicorn with uvloop and httptools and without an access log.

    python -m benchmarks.calibrate [--json]
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import orjson

from benchmarks.figures import Figure, Table
from benchmarks.load import CONNECTIONS, Connections, post
from benchmarks.maps import campaign_names, random_maps, random_scores
from benchmarks.parts import Part, main
from benchmarks.servers import MAPS_SEED, Server, started
from benchmarks.store import private_store
from calibrators import Atlas

SEED = 17
BODIES = 16
SERVERS = {
    "sirocco": "sirocco",
    "naive, numpy.interp": "naive-interpolation",
    "naive, scikit-learn": "naive-scikit-learn",
    "raw ASGI echo": "echo",
}


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    batches: tuple[int, ...] = (1, 10, 100, 1_000)
    rounds: int = 9
    round_seconds: float = 0.25
    most_requests: int = 4_000


def cpu_per_request(server: Server, messages: Sequence[bytes], repeats: int) -> float:
    """Seconds of the server's CPU, on connections that are open and warm."""
    with Connections(server.port) as connections:
        connections.send(messages)
        before = server.cpu_seconds
        connections.send(list(messages) * repeats)
        return (server.cpu_seconds - before) / (len(messages) * repeats)


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each server, a column for each size of batch."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    with ExitStack() as opened:
        servers = _servers(opened, sizes.campaigns)
        by_batch = {size: _measure_batch(servers, size, sizes, rng) for size in sizes.batches}
    return {
        name: {f"batch of {size:,}": found[name] for size, found in by_batch.items()}
        for name in servers
    }


def _servers(opened: ExitStack, campaigns: int) -> dict[str, Server]:
    store = opened.enter_context(private_store())
    store.publish(Atlas.build(random_maps(campaigns, MAPS_SEED)))
    return {
        name: opened.enter_context(started(kind, store.url, campaigns))
        for name, kind in SERVERS.items()
    }


def _measure_batch(
    servers: Mapping[str, Server], size: int, sizes: Sizes, rng: np.random.Generator
) -> dict[str, Figure]:
    bodies = [_body(size, sizes.campaigns, rng) for _ in range(BODIES)]
    _check_agreement(servers, bodies[0])
    messages = [post("/v1/calibrate", body) for body in bodies]
    repeats = {name: _repeats(server, messages, sizes) for name, server in servers.items()}
    taken: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(sizes.rounds):
        for name, server in servers.items():
            taken[name].append(cpu_per_request(server, messages, repeats[name]) * 1e6)
    return {name: Figure.of(microseconds) for name, microseconds in taken.items()}


def _repeats(server: Server, messages: Sequence[bytes], sizes: Sizes) -> int:
    """How often to send the messages in a round."""
    once = max(cpu_per_request(server, messages, 1) * len(messages), 1e-6)
    return max(1, min(round(sizes.round_seconds / once), sizes.most_requests // len(messages)))


def _body(size: int, campaigns: int, rng: np.random.Generator) -> bytes:
    names = campaign_names(campaigns)
    chosen = [names[place] for place in rng.integers(0, campaigns, size).tolist()]
    scores = [round(score, 6) for score in random_scores(size, rng)]
    return orjson.dumps({"target": "click", "campaigns": chosen, "scores": scores})


def _check_agreement(servers: Mapping[str, Server], body: bytes) -> None:
    """Every server but the echo gives the same probabilities."""
    asked = [server for name, server in servers.items() if SERVERS[name] != "echo"]
    answers = [_probabilities(server, body) for server in asked]
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-9)


def _probabilities(server: Server, body: bytes) -> list[float]:
    with Connections(server.port) as connections:
        answer = orjson.loads(connections.send([post("/v1/calibrate", body)]))
    probabilities: list[float] = answer["probabilities"]
    return probabilities


PART = Part(
    "calibrate",
    f"Calibration over HTTP, microseconds of server CPU per request, {CONNECTIONS} connections",
    __doc__,
    measure,
)

if __name__ == "__main__":
    main(PART)
