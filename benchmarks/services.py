"""`sirocco serve` as a user starts it, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from app.cli.serving.settings import free_port
from benchmarks.machine import cpu_seconds
from benchmarks.servers import START_SECONDS, STOP_SECONDS

ROOT, HOST = Path(__file__).parents[1], "127.0.0.1"
LOOK_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Started:
    """A service that is ready, what its start took, and the memory that it held then."""

    http: HTTPConnection
    seconds: float
    cpu_seconds: float
    resident_bytes: int


@contextmanager
def service(redis_url: str) -> Iterator[Started]:
    """A service on the store; it ends with the block, and with this process."""
    port = free_port(HOST)
    options = ["--redis-url", redis_url, "--port", str(port)]
    command = [sys.executable, "-m", "app.cli", "--parent", str(os.getpid()), "serve"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.DEVNULL)
    http = HTTPConnection(HOST, port)
    try:
        _await_ready(process, http)
        seconds = time.perf_counter() - began
        yield Started(http, seconds, cpu_seconds(process.pid), _resident_bytes(process.pid))
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
