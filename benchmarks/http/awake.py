"""What it is worth to stay awake: latency of calibrations at steady rates.

Two `sirocco serve` take turns on one core: one that sleeps until the next request comes, as by
default, and one that looks for it all the time (`SIROCCO_BUSY_POLL_SECONDS`). The load is that of
the soak without events: calibrations of 1, 10 and 100 scores at random moments, sent from the
other core, over 10,000 campaigns. Latency is from when a request was sent until the kernel had its
answer, and counts from when it was due where it found every connection waiting. Medians of the
turns with quartiles; `sleeps over polls` are the medians of the two in one line.

    python -m benchmarks awake [--json] [--write]
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import sleep

import numpy as np

from benchmarks.core.traffic import random_maps
from benchmarks.figures import Cell, Figure, Table, middle
from benchmarks.http.servers import AWAKE_SECONDS, MAPS_SEED, Server, started
from benchmarks.machine import first_in_line, on_core
from benchmarks.parts import Part
from benchmarks.soak.mixed_load import SEED, calibrations, of_all
from benchmarks.soak.open_loop import Kind, Load
from benchmarks.store import private_store
from calibrators import Atlas

SLEEPS, POLLS = "sleeps", "polls"
KINDS = {SLEEPS: "sirocco", POLLS: "sirocco-awake"}
OTHER_CORE = 1
CORES = "server cores"
PERCENTILES = {"p50, us": 50.0, "p90, us": 90.0, "p99, us": 99.0, "p99.9, us": 99.9}


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    campaigns: int = 10_000
    messages: int = 200
    connections: int = 64
    rates: tuple[int, ...] = (500, 2_000, 5_000)
    seconds: float = 5.0
    rounds: int = 7


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each rate and each of the two."""
    sizes = sizes or Sizes()
    asked = calibrations(sizes.campaigns, sizes.messages)
    kinds = of_all([calibration.kind for calibration in asked])
    with ExitStack() as opened, on_core(OTHER_CORE):
        store = opened.enter_context(private_store())
        store.publish(Atlas.build(random_maps(sizes.campaigns, MAPS_SEED)))
        servers = {
            name: opened.enter_context(started(kind, store.url)) for name, kind in KINDS.items()
        }
        opened.enter_context(first_in_line(os.getpid()))
        return _measured(servers, kinds, sizes)


def ratios(rows: Table) -> Table:
    """How many times longer requests take where the server sleeps."""
    rates = [name.removesuffix(f", {SLEEPS}") for name in rows if name.endswith(SLEEPS)]
    return {
        f"{rate}, {SLEEPS} over {POLLS}": {
            column.removesuffix(", us"): middle(rows[f"{rate}, {SLEEPS}"][column])
            / middle(rows[f"{rate}, {POLLS}"][column])
            for column in PERCENTILES
        }
        for rate in rates
    }


def _measured(servers: dict[str, Server], kinds: Sequence[Kind], sizes: Sizes) -> Table:
    found: dict[str, list[list[float]]] = {}
    for turn in range(sizes.rounds):
        for rate in sizes.rates:
            for name, server in servers.items():
                figures = _turn(server, kinds, rate, turn, sizes)
                found.setdefault(f"{rate:,}/s, {name}", []).append(figures)
                # The one that stays awake leaves the core to the other.
                sleep(2 * AWAKE_SECONDS)
    return {name: _row(turns) for name, turns in found.items()}


def _turn(
    server: Server, kinds: Sequence[Kind], rate: float, turn: int, sizes: Sizes
) -> list[float]:
    """Cores, and microseconds at the percentiles."""
    load = Load(server.port, kinds, sizes.connections, SEED + turn)
    try:
        before = server.cpu_seconds
        load.run(rate, sizes.seconds)
        cores = (server.cpu_seconds - before) / sizes.seconds
    finally:
        load.close()
    if load.errors:
        raise RuntimeError(f"the server failed: {load.first_errors[0]}")
    latencies = np.concatenate([np.array(record.latencies) for record in load.records])
    return [cores, *(np.percentile(latencies, list(PERCENTILES.values())) * 1e6).tolist()]


def _row(turns: Sequence[Sequence[float]]) -> dict[str, Cell]:
    columns = zip((CORES, *PERCENTILES), zip(*turns, strict=True), strict=True)
    return {column: Figure.of(values) for column, values in columns}


PART = Part(
    "awake",
    "Staying awake between requests",
    __doc__ or "",
    measure,
    ratios=ratios,
)
