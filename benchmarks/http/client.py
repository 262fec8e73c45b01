"""`sirocco-client` in the caller's process, over the maps of 10,000 campaigns: CPU of the caller.

`edge` rows are look-ups by `EdgeCalibrator`, in nanoseconds per value, compiled and in Python
alone, beside the service's own atlas in the same process. `call` rows are `Sirocco.calibrate` to a
service in another process, in microseconds per call, beside httpx with the JSON of the
documentation and no checks, retries or deadline.

    python -m benchmarks client [--json]
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import httpx
import numpy as np
from sirocco_client import EdgeCalibrator, Sirocco
from sirocco_client.maps import COMPILED, index_of, plain_index

from benchmarks.core.traffic import campaign_names, random_atlas, random_scores
from benchmarks.figures import Figure, Table
from benchmarks.http.servers import HOST, MAPS_SEED, started
from benchmarks.parts import Part
from benchmarks.store import private_store
from benchmarks.timing import interleaved
from calibrators import Atlas

SEED = 23
SCALARS = 1000
PATIENCE_SECONDS = 60.0

Ways = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    looked_up: tuple[int, ...] = (10, 100, 1_000, 10_000)
    called: tuple[int, ...] = (1, 100, 1_000)
    budget_seconds: float = 0.5


@dataclass(frozen=True)
class Callers:
    """The ways to the same probabilities."""

    atlas: Atlas
    edge: EdgeCalibrator
    plain: EdgeCalibrator
    sirocco: Sirocco
    http: httpx.Client


def measure(sizes: Sizes | None = None) -> Table:
    """Rows of look-ups by size, then of calls by size."""
    sizes = sizes or Sizes()
    rng = np.random.default_rng(SEED)
    with ExitStack() as opened:
        callers = _callers(opened, sizes.campaigns)
        rows: Table = {"edge, one score, ns": _timed(_scalars(callers, rng, sizes), sizes, SCALARS)}
        for size in sizes.looked_up:
            ways = _batches(callers, rng, sizes, size)
            rows[f"edge, batch of {size:,}, ns"] = _timed(ways, sizes, size)
        for size in sizes.called:
            rows[f"call, batch of {size:,}, us"] = _timed(
                _calls(callers, rng, sizes, size), sizes, 1000
            )
    return rows


def _callers(opened: ExitStack, campaigns: int) -> Callers:
    atlas = random_atlas(campaigns, MAPS_SEED)
    store = opened.enter_context(private_store())
    store.publish(atlas)
    url = f"http://{HOST}:{opened.enter_context(started('sirocco', store.url)).port}"
    edge = opened.enter_context(_edge(url, index_of))
    plain = opened.enter_context(_edge(url, plain_index))
    sirocco = opened.enter_context(Sirocco(url, timeout=PATIENCE_SECONDS))
    http = opened.enter_context(httpx.Client(base_url=url, timeout=PATIENCE_SECONDS))
    return Callers(atlas, edge, plain, sirocco, http)


def _edge(url: str, index: object) -> EdgeCalibrator:
    if not COMPILED:
        raise RuntimeError("sirocco-client was installed without a compiler")
    with patch("sirocco_client.atlas.index_of", index):
        edge = EdgeCalibrator(url, "click", refresh_seconds=3600.0)
        if not edge.wait(PATIENCE_SECONDS):
            raise RuntimeError("no atlas came")
    return edge


def _timed(ways: Ways, sizes: Sizes, values: int) -> dict[str, Figure]:
    """Per value in nanoseconds; with 1000 values of a call, that is microseconds per call."""
    seconds = interleaved(ways, sizes.budget_seconds)
    return {name: figure.times(1e9 / values) for name, figure in seconds.items()}


def _scalars(callers: Callers, rng: np.random.Generator, sizes: Sizes) -> Ways:
    names, scores = _names_and_scores(sizes.campaigns, SCALARS, rng)
    pairs = list(zip(names, scores.tolist(), strict=True))
    return {
        "sirocco-client": lambda: [callers.edge.at(name, score) for name, score in pairs],
        "the same in Python": lambda: [callers.plain.at(name, score) for name, score in pairs],
        "the service's atlas": lambda: [callers.atlas.at(name, score) for name, score in pairs],
    }


def _batches(callers: Callers, rng: np.random.Generator, sizes: Sizes, size: int) -> Ways:
    names, scores = _names_and_scores(sizes.campaigns, size, rng)
    if (
        len({way(names, scores).tobytes() for way in (callers.edge, callers.plain, callers.atlas)})
        > 1
    ):
        raise RuntimeError("the client's probabilities are not the service's")
    return {
        "sirocco-client": lambda: callers.edge(names, scores),
        "the same in Python": lambda: callers.plain(names, scores),
        "the service's atlas": lambda: callers.atlas(names, scores),
    }


def _calls(callers: Callers, rng: np.random.Generator, sizes: Sizes, size: int) -> Ways:
    names, scores = _names_and_scores(sizes.campaigns, size, rng)

    def by_httpx() -> object:
        request = {"target": "click", "campaigns": names, "scores": scores.tolist()}
        return np.array(callers.http.post("/v1/calibrate", json=request).json()["probabilities"])

    return {
        "sirocco-client": lambda: callers.sirocco.calibrate("click", names, scores),
        "httpx": by_httpx,
    }


def _names_and_scores(
    campaigns: int, size: int, rng: np.random.Generator
) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    names = campaign_names(campaigns)
    chosen = [names[place] for place in rng.integers(0, campaigns, size).tolist()]
    return chosen, np.array(random_scores(size, rng))


PART = Part("client", "Client: CPU of the caller", __doc__, measure)
