"""The whole service as it runs in production, with bins to refit and a version in force."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

import numpy as np
import orjson

from app.cli.serving.client import ServiceClient
from app.cli.serving.processes import Child
from app.cli.serving.settings import free_port, url_of
from app.storage.keys import SHARDS, TargetHour, shard_of
from benchmarks import ROOT
from benchmarks.core.traffic import campaign_names
from benchmarks.http import HOST
from benchmarks.machine import on_core, tree_cpu_seconds
from benchmarks.soak.sampler import WINDOWS
from benchmarks.store import Store, private_store
from calibrators import BinsTable

SEED = 29
TARGET = "click"
IMPRESSIONS_PER_HOUR = 50
API_CORE, OTHER_CORE = 0, 1
READY_SECONDS, REFIT_SECONDS, STOP_SECONDS = 60.0, 300.0, 15.0
_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Service:
    """Where it answers, and its processes."""

    url: str
    port: int
    store: Store
    server: int
    worker: int

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the server so far."""
        return tree_cpu_seconds(self.server)


@contextmanager
def running_service(campaigns: int, hours: int, versions: int) -> Iterator[Service]:
    """API on one core; store, worker and whoever asks on the other.

    There are bins of the `hours` before now, and a version in force that was fitted to them;
    `versions` are kept.
    """
    with (
        TemporaryDirectory(prefix="sirocco-soak-") as folder,
        on_core(OTHER_CORE),
        private_store() as store,
    ):
        store_bins(store, campaigns, hours)
        port = free_port(HOST)
        environment = {
            "SIROCCO_REDIS_URL": store.url,
            "SIROCCO_DATA_DIR": folder,
            "SIROCCO_VERSIONS_KEPT": str(versions),
            "SIROCCO_PORT": str(port),
        }
        with (
            _running("serve", environment, Path(folder), API_CORE) as server,
            _running("worker", environment, Path(folder), OTHER_CORE) as worker,
        ):
            service = Service(url_of(HOST, port), port, store, server, worker)
            _await_first_version(service)
            yield service


def store_bins(store: Store, campaigns: int, hours: int) -> None:
    """Bins of whole hours, as the folds leave them, and of all hours that refits take turns at."""
    names = campaign_names(campaigns)
    last = int(time.time() // _HOUR_SECONDS)
    for hour in range(last - hours - WINDOWS, last):
        table = _hour(names, np.random.default_rng((SEED, hour)))
        for shard in range(SHARDS):
            some = [name for name in table.campaigns if shard_of(name) == shard]
            place = TargetHour(shard, TARGET, hour)
            table_bytes = table.select(some).to_bytes(place.checksum)
            store.client.hset(place.bins, "table", table_bytes)


def _hour(names: list[str], rng: np.random.Generator) -> BinsTable:
    """Events of scores that are too low by half."""
    rows = rng.integers(0, len(names), len(names) * IMPRESSIONS_PER_HOUR)
    scores = rng.beta(1.0, 40.0, len(rows))
    outcomes = (rng.random(len(rows)) < 1.5 * scores).astype(np.float64)
    return BinsTable.from_columns(names, rows, scores, np.ones(len(rows)), outcomes)


@contextmanager
def _running(name: str, environment: dict[str, str], folder: Path, core: int) -> Iterator[int]:
    log = folder / f"{name}.log"
    # As `sirocco up` has it.
    child = Child(name, (name,), environment, log, nice=name == "worker")
    with on_core(core):
        child.start()
    try:
        yield child.process_id or 0
    finally:
        child.stop()


def _await_first_version(service: Service) -> None:
    with ServiceClient(service.url) as client:
        end = time.monotonic() + READY_SECONDS
        while not client.is_ready():
            if time.monotonic() > end:
                raise RuntimeError(f"{service.url} is not ready after {READY_SECONDS:g} s")
            time.sleep(0.05)
        job = client.finished(client.change("retrain"), REFIT_SECONDS)
        client.await_version(job["result"]["version"], READY_SECONDS)


@contextmanager
def sampled(service: Service, every: float) -> Iterator[list[dict[str, Any]]]:
    """A sampler beside the block; the list of what it saw is filled when it ends."""
    seen: list[dict[str, Any]] = []
    options = {"url": service.url, "redis": service.store.url, "every": every, "core": API_CORE}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    arguments += [f"--parent={os.getpid()}", str(service.server), str(service.worker)]
    command = [sys.executable, "-m", "benchmarks.soak.sampler", *arguments]
    with TemporaryFile() as notes:
        sampler = subprocess.Popen(command, cwd=ROOT, stdout=notes, start_new_session=True)
        try:
            _await_note(sampler, notes)
            yield seen
        finally:
            sampler.terminate()
            sampler.wait(STOP_SECONDS)
            notes.seek(0)
            seen += (orjson.loads(line) for line in notes if line.endswith(b"\n"))


def _await_note(sampler: subprocess.Popen[bytes], notes: IO[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS
    while not os.fstat(notes.fileno()).st_size:
        if sampler.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the sampler did not start, exit code {sampler.returncode}")
        time.sleep(0.01)
