"""A Redis of the benchmark's own, as `sirocco up` starts it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import redis

from app.storage.lease import Lease
from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis
from app.storage.versions import Versions
from benchmarks.machine import cpu_seconds
from calibrators import Atlas

TIMEOUT_SECONDS = 60.0
LEASE_SECONDS = 3600.0
STOP_SECONDS = 0.05
STOPPING = (
    *("command", "fast-command", "fork", "expire-cycle", "expire-del", "eviction-cycle"),
    *("aof-fsync-always", "aof-write", "aof-write-alone", "aof-write-active-child"),
    *("aof-write-pending-fsync", "aof-rename", "rdb-unlink-temp-file", "active-defrag-cycle"),
)
"""Events of Redis's latency monitor."""


class Stop(NamedTuple):
    """What the server was busy with, when (epoch seconds), and for how many seconds."""

    event: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Store:
    """A running server and a client of it."""

    url: str
    process_id: int
    client: redis.Redis

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the server so far."""
        return cpu_seconds(self.process_id)

    @property
    def used_bytes(self) -> int:
        """Memory that the data take."""
        return int(self.client.info("memory")["used_memory"])

    def watch_stops(self) -> None:
        """From now on the server keeps what it stood still for."""
        self.client.config_set("latency-monitor-threshold", int(STOP_SECONDS * 1e3))

    def stops(self) -> list[Stop]:
        """The last 160 at most of each event, as Redis keeps them: one for each second."""
        return [
            Stop(event, float(at), milliseconds / 1e3)
            for event in STOPPING
            for at, milliseconds in self.client.latency_history(event)
        ]

    def lease(self) -> Lease:
        """The worker's lease, held."""
        lease = Lease(self.client, "worker", "benchmark", LEASE_SECONDS)
        lease.acquire()
        return lease

    def publish(self, atlas: Atlas) -> None:
        """Bring an atlas of the target `click` into force."""
        token = self.lease().token
        Versions(self.client, 1).publish(token, 0.0, 0.0, {"click": atlas.to_bytes()}, {})


@contextmanager
def private_store() -> Iterator[Store]:
    """An empty server on a unix socket; it ends with the block."""
    with (
        TemporaryDirectory(prefix="sirocco-bench-") as folder,
        EmbeddedRedis(Path(folder)) as server,
        open_redis(server.url, TIMEOUT_SECONDS) as client,
    ):
        yield Store(server.url, server.process_id or 0, client)
