"""The demo at every hour of a day and at the turns of a month and a year, in this process: its
traffic, and so each map, is another one at another hour."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from app.settings import Settings
from app.storage import EmbeddedRedis, open_redis
from app.worker.loop import Worker
from tests.api.conftest import new_redis
from tests.api.running_service import serving
from tests.command_line.conftest import Sirocco
from tests.command_line.test_demo import SMALL

TURNS = ("2026-03-01T00:30:00Z", "2027-01-01T00:30:00Z")
HOURS = tuple(f"2026-11-23T{hour:02d}:30:00Z" for hour in range(24))


@contextmanager
def working(settings: Settings, redis_url: str) -> Iterator[None]:
    """A worker in a thread."""
    stop = Event()
    with open_redis(redis_url) as client:
        worker = Worker(settings, client, time.time, "test")
        thread = Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def redis_server() -> Iterator[EmbeddedRedis]:
    """One kind of server is enough."""
    with new_redis() as server:
        yield server


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """The demo's service without processes of its own, on an empty store."""

    @contextmanager
    def service(given: dict[str, Any], port: int | None) -> Iterator[SimpleNamespace]:
        fit = {name: value for name, value in given.items() if value is not None}
        settings = Settings(clock="event", port=0, refresh_seconds=0.01, **fit)
        with serving(settings, redis_url) as running, working(settings, redis_url):
            yield SimpleNamespace(url=running.url)

    monkeypatch.setattr("app.cli.serving.demo.private_service", service)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "start", [*TURNS, *(pytest.param(hour, marks=pytest.mark.slow) for hour in HOURS)]
)
def test_it_runs_whenever_it_starts(called: Sirocco, start: str) -> None:
    run = called("demo", *SMALL, "--start", start, "--no-picture", "--json")

    assert run.returncode == 0, run.stderr
    rows = orjson.loads(run.stdout)["rows"]
    assert rows["pooled"]["n"] == rows["truth"]["n"] > 0
    assert rows["truth"]["log_loss"] < rows["raw"]["log_loss"]
