"""The worker's sign of life."""

import pytest

from app.storage.keys import HEARTBEAT
from app.storage.lease import Heartbeat

STATE = {"at": 3600.5, "holder": "host:1", "refits": 3, "failures": 0, "error": None}


@pytest.fixture
def heartbeat(redis_client) -> Heartbeat:
    return Heartbeat(redis_client, ttl_seconds=60)


def test_before_the_first_there_is_none(heartbeat):
    assert heartbeat.read() is None


def test_it_is_read_as_it_was_written_and_replaced_as_a_whole(heartbeat):
    heartbeat.write({"at": 1.0, "old": True})
    heartbeat.write(STATE)
    assert heartbeat.read() == STATE


def test_every_beat_renews_its_life(heartbeat, redis_client):
    heartbeat.write(STATE)
    redis_client.expire(HEARTBEAT, 5)

    heartbeat.write(STATE)

    assert 50 < redis_client.ttl(HEARTBEAT) <= 60


def test_a_worker_that_is_silent_has_none(heartbeat, redis_client):
    heartbeat.write(STATE)
    redis_client.pexpire(HEARTBEAT, 1)
    while redis_client.exists(HEARTBEAT):
        pass
    assert heartbeat.read() is None
