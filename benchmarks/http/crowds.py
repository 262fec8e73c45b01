"""Crowds of clients that misbehave, each crowd in a process of its own, on the clients' core.

python -m benchmarks.http.crowds KIND --port PORT --count N --parent PID
"""

import os
import resource
import socket
import struct
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from app.cli.signals import end_with
from benchmarks import ROOT
from benchmarks.http import HOST, TIMEOUT_SECONDS

HALF_HEAD = b"POST /v1/calibrate HTTP/1.1\r\nHost: a\r\nX-Slow: "
HALF_BODY = b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n[{"
_READY = b"ready\n"
_TURNS_PER_SECOND = 100
# On close the connection is reset: the client is gone without a goodbye.
_RESET = struct.pack("ii", 1, 0)


@contextmanager
def gathered(kind: str, port: int, count: int) -> Iterator[None]:
    """A crowd of one of KINDS while inside: all its connections are open when it begins."""
    arguments = [f"--port={port}", f"--count={count}", f"--parent={os.getpid()}"]
    command = [sys.executable, "-m", "benchmarks.http.crowds", kind, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        if process.stdout is None or process.stdout.readline() != _READY:
            raise RuntimeError(f"the crowd {kind} did not gather")
        yield
    finally:
        process.kill()
        process.communicate()


def idle(port: int, count: int, say_ready: Callable[[], None]) -> None:
    """Connections that say nothing."""
    _hold([_connected(port, b"") for _ in range(count)], say_ready)


def half_bodies(port: int, count: int, say_ready: Callable[[], None]) -> None:
    """Connections that stop in the middle of a body."""
    _hold([_connected(port, HALF_BODY) for _ in range(count)], say_ready)


def slow_heads(port: int, count: int, say_ready: Callable[[], None]) -> None:
    """Connections that send a byte of their head every second."""
    connections = [_connected(port, HALF_HEAD) for _ in range(count)]
    say_ready()
    for turn in _turns():
        for place in range(turn % _TURNS_PER_SECOND, count, _TURNS_PER_SECOND):
            try:
                connections[place].send(b"x")
            except OSError:
                connections[place].close()
                connections[place] = _connected(port, HALF_HEAD)


def dropped(port: int, count: int, say_ready: Callable[[], None]) -> None:
    """So many connections a second that are reset in the middle of a body."""
    say_ready()
    for _ in _turns():
        for _ in range(-(-count // _TURNS_PER_SECOND)):
            connection = _connected(port, HALF_BODY)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.close()


KINDS: dict[str, Callable[[int, int, Callable[[], None]], None]] = {
    "idle": idle,
    "half-bodies": half_bodies,
    "slow-heads": slow_heads,
    "dropped": dropped,
}


def _connected(port: int, begun: bytes) -> socket.socket:
    connection = socket.create_connection((HOST, port), TIMEOUT_SECONDS)
    connection.sendall(begun)
    return connection


def _hold(connections: list[socket.socket], say_ready: Callable[[], None]) -> None:
    say_ready()
    while connections:
        time.sleep(TIMEOUT_SECONDS)


def _turns() -> Iterator[int]:
    """Evenly spread over time; those that were missed are left out."""
    turn = 0
    while True:
        yield turn
        turn += 1
        time.sleep(1 / _TURNS_PER_SECOND)


def _say_ready() -> None:
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()


def main() -> None:
    """Misbehave until told to stop."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    for name in ("port", "count", "parent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    end_with(given.parent)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    KINDS[given.kind](given.port, given.count, _say_ready)


if __name__ == "__main__":
    main()
