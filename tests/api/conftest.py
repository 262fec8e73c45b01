"""Running services for the tests of the API; `running_service.serving` starts others."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from app.settings import Settings
from app.storage.redis.server import EmbeddedRedis
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, serving
from tests.conftest import untraced


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[None]:
    """A caller over HTTP is not traced: what it tests runs in threads of the service, which are."""
    calls = any(isinstance(value, RunningService) for value in item.funcargs.values())
    with untraced() if calls else nullcontext():
        yield


@contextmanager
def new_redis() -> Iterator[EmbeddedRedis]:
    with (
        TemporaryDirectory(prefix="sirocco-test-") as folder,
        EmbeddedRedis(Path(folder)) as server,
    ):
        yield server


@contextmanager
def alone(settings: Settings, **changes: Any) -> Iterator[RunningService]:
    """A service of these settings, with changes, on a store of its own."""
    changed = settings.model_copy(update=changes)
    with new_redis() as server, serving(changed, server.url) as running:
        yield running


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The defaults, on a free port, and quick to see a new version."""
    return Settings(port=0, refresh_seconds=0.01, snapshot_dir="off")


@pytest.fixture
def service(settings: Settings, redis_url: str) -> Iterator[RunningService]:
    """A service of the test's own, on an empty store."""
    with serving(settings, redis_url) as running:
        yield running


@pytest.fixture
def event_clock_service(settings: Settings, redis_url: str) -> Iterator[RunningService]:
    """The same, with time told by the events."""
    with serving(settings.model_copy(update={"clock": "event"}), redis_url) as running:
        yield running


@pytest.fixture(scope="session")
def shared_service(settings: Settings) -> Iterator[RunningService]:
    """One for all tests that leave nothing behind, on a store of its own: nothing is published."""
    with alone(settings) as running:
        yield running


@pytest.fixture(scope="module")
def lasting(settings: Settings) -> Iterator[RunningService]:
    """One for the tests of a file that need no empty store, and publish what they look at."""
    with alone(settings) as running:
        yield running


@pytest.fixture
def refusing(shared_service: RunningService) -> Iterator[RunningService]:
    """For requests that must be refused: checks that nothing is stored and the service goes on."""
    shared_service.store.flushall()
    yield shared_service
    assert shared_service.stored_keys == []
    asked = {"target": "click", "campaign": "a", "scores": [0.25]}
    assert shared_service.http.post("/v1/calibrate", json=asked).json()["probabilities"] == [0.25]


@pytest.fixture(scope="session")
def atlas() -> Atlas:
    """Two campaigns with maps of their own, and a target's map for all others."""
    maps = {
        "hats": CalibrationMap.proportional(0.5),
        "shoes": CalibrationMap([0.0, 0.2, 1.0], [0.0, 0.1, 0.9]),
    }
    return Atlas.build(maps, target_map=CalibrationMap.proportional(2.0))


@pytest.fixture
def version(service: RunningService, atlas: Atlas) -> str:
    """The id of a version in force that has maps for clicks only."""
    return service.publish({"click": atlas})


@pytest.fixture(scope="module")
def published(lasting: RunningService, atlas: Atlas) -> str:
    """The same of the service of a file, where no test publishes another."""
    return lasting.publish({"click": atlas})
