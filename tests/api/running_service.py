"""The service as its callers meet it: over HTTP, on a free loopback port, on real Redis."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Thread
from typing import Any

import httpx
import redis
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from app.api.hot_path import HotPath
from app.api.server.server import server_of
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.keys import PROBE
from app.storage.lease import Lease, LeaseToken
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from calibrators import Atlas, BinsTable

IDLE_SECONDS = "app.api.server.server._IDLE_SECONDS"
"""How long a server that ends waits for connections that a caller keeps open; to be patched."""
LEASE_SECONDS = 600
PATIENCE_SECONDS = 240


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that answers at `url`; `http` asks it, `store` looks into its Redis."""

    url: str
    http: httpx.Client
    store: redis.Redis
    settings: Settings
    app: HotPath

    def publish(
        self,
        atlases: Mapping[str, Atlas],
        report: Mapping[str, Any] | None = None,
        as_of: float = 1_767_225_600.0,
        published_at: float | None = None,
    ) -> str:
        """Bring a version into force as the worker does, and return once it is served."""
        packed = {target: atlas.to_bytes() for target, atlas in atlases.items()}
        at = time.time() if published_at is None else published_at
        versions = Versions(self.store, self.settings.versions_kept)
        with leased(self.store) as token:
            version = versions.publish(token, as_of, at, packed, dict(report or {}))
        eventually(lambda: self.serving == version)
        return version

    def refit(self, until: float, **parts: Any) -> dict[str, Any]:
        """Refit as the worker does, with these parts of a `Refitter`; returns the report once its
        version is served."""
        bins = BinsStore(self.store, self.settings.ttl_seconds)
        given = {"settings": self.settings, "bins": bins, "versions": Versions(self.store, 8)}
        with leased(self.store) as token:
            report = Refitter(**{**given, **parts}).run(Request(until), token, lambda: until)
        eventually(lambda: self.serving == report["version"])
        return report

    def hold(self) -> str:
        """Have a version without maps wait for approval, as the worker does; returns its id."""
        versions, why = Versions(self.store, self.settings.versions_kept), {"click": "no-maps"}
        with leased(self.store) as token:
            return versions.hold(token, 1.0, 2.0, {}, {}, {"reasons": why})

    def know_keys(self) -> None:
        """Have the service know every key that is stored, without waiting for its next look."""
        self.app.state.resources.key_watch.look()

    @property
    def serving(self) -> str:
        """The version that the service says it serves."""
        return str(self.http.get("/readyz").json()["version"])

    @property
    def stored_keys(self) -> list[bytes]:
        """Every key in Redis but the watch's probe, for tests that show that there is none."""
        return sorted(name for name in self.store.keys("*") if name.decode() != PROBE)

    def ids(self, target: str = "click") -> tuple[int, dict[str, int]]:
        """The dictionary in force, and the number that stands for each campaign."""
        listed = self.http.get(f"/v1/atlas/{target}/ids").json()
        return int(listed["dictionary"], 16), dict(zip(listed["campaigns"], count(1)))

    def bins(self, target: str, hour: int) -> BinsTable:
        """What the events stored so far add up to."""
        store = BinsStore(self.store, self.settings.ttl_seconds)
        store.fold()
        return store.hour(target, hour)

    def metrics(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The samples of that name, by their sorted labels."""
        families = text_string_to_metric_families(self.http.get("/metrics").text)
        samples = (sample for family in families for sample in family.samples)
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for sample in samples
            if sample.name == name
        }

    def metric(self, name: str, **labels: str) -> float | None:
        """One sample; None if there is none."""
        return self.metrics(name).get(tuple(sorted(labels.items())))


@contextmanager
def leased(store: redis.Redis) -> Iterator[LeaseToken]:
    """The token of whoever holds the worker's lease meanwhile."""
    lease = Lease(store, "worker", "test", LEASE_SECONDS)
    assert lease.acquire()
    yield lease.token
    lease.release()


@contextmanager
def serving(settings: Settings, redis_url: str) -> Iterator[RunningService]:
    """The service of these settings while inside; port 0 takes a free one. It keeps its last good
    maps only where the settings say so: tests share the working directory."""
    if settings.snapshot_dir is None:
        settings = settings.model_copy(update={"snapshot_dir": "off"})
    port = settings.admin_port
    admin = socket.create_server((settings.host, port)) if port else None
    server = server_of(settings, redis_url, admin=admin)
    thread = Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive())
        url = f"http://127.0.0.1:{_port(server)}"
        with httpx.Client(base_url=url, timeout=60) as http, open_redis(redis_url) as store:
            yield RunningService(url, http, store, settings, server.config.app)
    finally:
        server.should_exit = True
        thread.join()


def eventually(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds; fails after a long while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)


def _port(server: uvicorn.Server) -> int:
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port
