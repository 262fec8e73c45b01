"""Workers of a pool and of Dask that are killed in the middle of a job."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE_SECONDS = 5.0


def die_once(marker: str) -> None:
    """The first child that is started dies."""
    if not os.path.exists(marker):
        Path(marker).touch()
        die()


def die() -> None:
    """Every child dies."""
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt_parent_and_stay() -> None:
    """The child is at something when Ctrl-C comes, and again after a while."""
    while True:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(_PATIENCE_SECONDS)


@dataclass(frozen=True)
class MortalCluster:
    """Two nannies with a worker each: the processes of the workers, and the first nanny's."""

    address: str
    workers: list[int]
    nanny: int

    def kill_a_worker(self) -> None:
        """Its nanny begins another."""
        os.kill(min(self.workers), signal.SIGKILL)

    def kill_a_nanny(self) -> None:
        """With the worker that it has by then."""
        os.killpg(self.nanny, signal.SIGKILL)


@contextmanager
def mortal_cluster(distributed: Any) -> Iterator[MortalCluster]:
    """A scheduler of Dask on this machine, and its workers."""
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as cluster,
        _worker(cluster.scheduler_address) as first,
        _worker(cluster.scheduler_address),
    ):
        with distributed.Client(cluster.scheduler_address) as client:
            client.wait_for_workers(2)
            pids = client.run(os.getpid)
        yield MortalCluster(cluster.scheduler_address, [*pids.values()], first.pid)


@contextmanager
def _worker(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A nanny with its worker, as a process group."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
    with subprocess.Popen([*command, *options], start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
