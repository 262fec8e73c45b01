"""What an application opens at its start."""

import asyncio
import gc
from threading import Thread

import pytest

from app.api.application import create_app
from app.settings import Settings

IMPORTED_AT_LEAST = 10_000


async def frozen_meanwhile() -> int:
    """How many objects the garbage collector does not look at while the resources are open."""
    async with create_app(Settings(), "unix:///nowhere").state.resources.opened():
        return gc.get_freeze_count()


@pytest.fixture
def frozen_before():
    """The number before; what the test froze is set free."""
    yield gc.get_freeze_count()
    gc.unfreeze()


def test_what_lives_as_long_as_the_process_is_frozen(frozen_before):
    """Full collections would stop requests to walk it again and again."""
    assert asyncio.run(frozen_meanwhile()) > frozen_before + IMPORTED_AT_LEAST


def test_a_guest_in_a_thread_freezes_nothing(frozen_before):
    """The objects of the process are its host's."""
    found = []
    thread = Thread(target=lambda: found.append(asyncio.run(frozen_meanwhile())))
    thread.start()
    thread.join()

    assert found == [frozen_before]
