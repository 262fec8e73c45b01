"""Real services for the tests of the client, and a proxy that breaks what passes through it."""

from collections.abc import Iterator

import pytest

from app.settings import Settings
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, serving
from tests.clients.faulty_proxy import FaultyProxy


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The defaults, on a free port, and quick to see a new version."""
    return Settings(port=0, refresh_seconds=0.01)


@pytest.fixture
def service(settings: Settings, redis_url: str) -> Iterator[RunningService]:
    """A service on an empty store."""
    with serving(settings, redis_url) as running:
        yield running


@pytest.fixture
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


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultyProxy]:
    """A way to the service that can be told to fail."""
    with FaultyProxy(service.url) as faulty:
        yield faulty
