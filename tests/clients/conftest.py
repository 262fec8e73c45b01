"""Real services for the tests of the client, and a proxy that breaks what passes through it."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import atlas, service, settings, version
from tests.api.running_service import RunningService
from tests.clients.faulty_proxy import FaultyProxy

__all__ = ["atlas", "proxy", "service", "settings", "version"]


@pytest.fixture
def proxy(service: RunningService) -> Iterator[FaultyProxy]:
    """A way to the service that can be told to fail."""
    with FaultyProxy(service.url) as faulty:
        yield faulty
