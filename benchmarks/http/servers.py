"""The servers that are measured, each in a process of its own on loopback.

`started` runs one of KINDS on a core of its own; `service` runs `sirocco serve` as a user does.

python -m benchmarks.http.servers KIND --port PORT [--redis URL] [--campaigns N] --parent PID
"""

import os
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import uvicorn
from fastapi import FastAPI

from app.api.server.server import server_of
from app.cli.serving.settings import free_port
from app.cli.signals import end_with
from app.settings import load_settings
from benchmarks import ROOT
from benchmarks.core.traffic import random_maps
from benchmarks.http import naive
from benchmarks.http.bodies import FIELD_VALUES
from benchmarks.http.echo import echo
from benchmarks.machine import cpu_seconds, tree_cpu_seconds

HOST = "127.0.0.1"
CORE = 0
"""Theirs alone."""
MAPS_SEED = 3
START_SECONDS, STOP_SECONDS, POLL_SECONDS, LOOK_SECONDS = 120.0, 15.0, 0.05, 0.002


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    process_id: int

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far of the process and of those that it started, all threads."""
        return tree_cpu_seconds(self.process_id)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Its turn."""
        yield


@contextmanager
def started(
    kind: str,
    redis_url: str = "",
    campaigns: int = 0,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Server]:
    """A server of one of KINDS, with more in its environment; it ends with the block, and with this
    process."""
    port = free_port(HOST)
    options = {"port": port, "redis": redis_url, "campaigns": campaigns, "parent": os.getpid()}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "benchmarks.http.servers", kind, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
    try:
        await_listening(process, port)
        yield Server(port, process.pid)
    finally:
        stop(process)


def await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    """Returns once it takes connections; raises RuntimeError when it ends, or after a while."""
    deadline = time.monotonic() + START_SECONDS
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start, exit code {process.returncode}")
        time.sleep(POLL_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started, by force after a while."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _sirocco(given: Namespace) -> uvicorn.Server:
    # Event time: the events of the benchmark have fixed times.
    settings = load_settings(
        host=HOST, port=given.port, clock="event", snapshot_dir="off", fields=[*FIELD_VALUES]
    )
    return server_of(settings, given.redis)


def _interpolating(given: Namespace) -> uvicorn.Server:
    maps = random_maps(given.campaigns, MAPS_SEED)
    return _served(naive.calibrate_app(naive.by_interpolation(maps)), given.port)


def _predicting(given: Namespace) -> uvicorn.Server:
    maps = random_maps(given.campaigns, MAPS_SEED)
    return _served(naive.calibrate_app(naive.by_prediction(maps)), given.port)


def _incrementing(given: Namespace) -> uvicorn.Server:
    return _served(naive.events_app(given.redis), given.port)


def _echoing(given: Namespace) -> uvicorn.Server:
    """Just as sirocco is served: its protocol and its options, with another application."""
    server = _sirocco(given)
    server.config.app, server.config.lifespan = echo, "off"
    return server


def _echoing_plainly(given: Namespace) -> uvicorn.Server:
    """The same without sirocco's bounds on connections."""
    server = _echoing(given)
    server.config.http = "httptools"
    return server


def _served(app: FastAPI, port: int) -> uvicorn.Server:
    """The application with the options that sirocco's own server has."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=HOST,
            port=port,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            date_header=False,
            proxy_headers=False,
        )
    )


KINDS: dict[str, Callable[[Namespace], uvicorn.Server]] = {
    "sirocco": _sirocco,
    "naive-interpolation": _interpolating,
    "naive-scikit-learn": _predicting,
    "naive-events": _incrementing,
    "echo": _echoing,
    "uvicorn-echo": _echoing_plainly,
}


@dataclass(frozen=True, slots=True)
class Started:
    """A service that is ready, what its start took, and the memory that it held then."""

    http: HTTPConnection
    seconds: float
    cpu_seconds: float
    resident_bytes: int
    process_id: int


@contextmanager
def service(redis_url: str) -> Iterator[Started]:
    """A service on the store, with no maps of its host; it ends with the block, and with this
    process."""
    port = free_port(HOST)
    command = [sys.executable, "-P", "-m", "app.cli", "--parent", str(os.getpid()), "serve"]
    with TemporaryDirectory(prefix="sirocco-bench-") as folder:
        options = ["--redis-url", redis_url, "--port", str(port), "--data-dir", folder]
        began = time.perf_counter()
        process = subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.DEVNULL)
        http = HTTPConnection(HOST, port)
        try:
            _await_ready(process, http)
            seconds = time.perf_counter() - began
            number = process.pid
            yield Started(http, seconds, cpu_seconds(number), _resident_bytes(number), number)
        finally:
            http.close()
            process.terminate()
            process.wait(STOP_SECONDS)


def seconds_until_served(version: str, services: Sequence[HTTPConnection]) -> float:
    """Seconds from now until each of the services says that it serves the version."""
    began = time.perf_counter()
    for http in services:
        while version not in _readiness(http):
            if time.perf_counter() - began > START_SECONDS:
                raise RuntimeError(f"{version} is not served")
            time.sleep(LOOK_SECONDS)
    return time.perf_counter() - began


def _readiness(http: HTTPConnection) -> str:
    """What `/readyz` says; nothing while it is not ready."""
    http.request("GET", "/readyz")
    answer = http.getresponse()
    body = answer.read().decode()
    return body if answer.status == 200 else ""


def _await_ready(process: subprocess.Popen[bytes], http: HTTPConnection) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready(http):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the service did not start, exit code {process.returncode}")
        time.sleep(LOOK_SECONDS)


def _is_ready(http: HTTPConnection) -> bool:
    try:
        return bool(_readiness(http))
    except (OSError, HTTPException):
        http.close()
        return False


def _resident_bytes(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def main() -> None:
    """Serve until told to stop."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--redis", default="")
    for name in ("port", "campaigns", "parent"):
        parser.add_argument(f"--{name}", type=int, default=0)
    given = parser.parse_args()
    end_with(given.parent)
    os.sched_setaffinity(0, {CORE})
    KINDS[given.kind](given).run()


if __name__ == "__main__":
    main()
