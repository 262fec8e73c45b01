"""Real services for the tests of the client, and a proxy that breaks what passes through it."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import atlas, lasting, published, service, settings, version
from tests.clients.faulty_proxy import FaultyProxy

__all__ = ["atlas", "lasting", "proxy", "published", "service", "settings", "version"]
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Iterator[FaultyProxy]:
    """A way to the service that can be told to fail; to nobody where a test asks for none."""
    asked_for = [name for name in ("service", "lasting") if name in request.fixturenames]
    urls = [request.getfixturevalue(name).url for name in asked_for]
    with FaultyProxy(*urls or [NOBODY]) as faulty:
        yield faulty
