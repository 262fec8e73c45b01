"""A real service for the documented examples: uvicorn in a thread, on real Redis."""

import time
from collections.abc import Iterator
from threading import Thread

import pytest

from app.api.server.server import server_of
from app.settings import Settings
from tests.reserved_ports import reserved_port

HOST = "127.0.0.1"
_START_SECONDS = 120.0


@pytest.fixture
def service_url(redis_url: str) -> Iterator[str]:
    """The address of a fresh service that has published nothing yet."""
    settings = Settings(host=HOST, port=reserved_port(), snapshot_dir="off")
    server = server_of(settings, redis_url)
    thread = Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + _START_SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        assert server.started, "the service did not start"
        yield f"http://{settings.host}:{settings.port}"
    finally:
        server.should_exit = True
        thread.join()
