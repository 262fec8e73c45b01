"""Redis servers as others set them up."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

import redis

from app.storage.redis.client import open_redis
from app.storage.redis.server import Standing, find_redis_binary, socket_url, standing
from tests.reserved_ports import reserved_port

SAFE = ("--appendonly", "yes", "--maxmemory", "64mb")


def answers(url: str) -> bool:
    """Whether a server answers at the URL and has loaded its file."""
    return standing(url) is Standing.READY


@contextmanager
def server(*options: object) -> Iterator[tuple[redis.Redis, int]]:
    """A server with these options and a port, so that others can follow it."""
    port = reserved_port()
    with TemporaryDirectory(prefix="sirocco-test-") as folder:
        socket = Path(folder) / "s"
        command = [find_redis_binary(), "--port", port, "--unixsocket", socket, "--dir", folder]
        command += ["--save", "", "--repl-diskless-sync-delay", 0, *options]
        with Popen(list(map(str, command)), stdout=DEVNULL) as process:
            try:
                while standing(socket_url(socket)) is not Standing.READY:
                    assert process.poll() is None
                with open_redis(socket_url(socket)) as client:
                    yield client, port
            finally:
                process.terminate()
