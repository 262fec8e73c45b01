"""Notices wake who waits for them, and whatever happens to the connection, nobody hangs."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from app.storage import keys
from app.storage.redis.client import open_redis
from app.storage.redis.server import EmbeddedRedis
from app.storage.versions import Notices, Versions
from tests.api.conftest import new_redis
from tests.api.running_service import eventually

LONG = 60.0
SHORT = 0.01
PATIENCE_SECONDS = 240


@pytest.fixture
def notices(redis_client) -> Iterator[Notices]:
    """Subscribed: the first wait does that."""
    with_connection = Notices(redis_client)
    with_connection.wait(LONG)
    yield with_connection
    with_connection.close()
    with_connection.release()


def listeners(client: redis.Redis) -> int:
    return int(dict(client.pubsub_numsub(keys.PUBLISHED))[keys.PUBLISHED.encode()])


def test_publishing_a_version_ends_the_wait(redis_client, notices, token):
    """The wait is far longer than the test may take."""
    waiting = threading.Thread(target=notices.wait, args=(LONG,), daemon=True)
    waiting.start()

    Versions(redis_client, kept=1).publish(token, 1.0, 2.0, {}, {})

    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()


def test_the_notice_names_the_version(redis_client, token):
    with redis_client.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(keys.PUBLISHED)

        version = Versions(redis_client, kept=1).publish(token, 1.0, 2.0, {}, {})

        told = [message for _ in range(2) if (message := heard.get_message(timeout=LONG))]
    assert [message["data"] for message in told] == [1, version.encode()]


def test_a_notice_that_came_between_two_waits_is_not_lost(redis_client, notices):
    redis_client.publish(keys.PUBLISHED, "v")

    notices.wait(LONG)


def test_without_a_notice_the_wait_ends_by_itself(notices):
    started = time.monotonic()

    notices.wait(SHORT)

    assert time.monotonic() - started >= SHORT


def test_the_first_wait_returns_at_once_and_listens(redis_client):
    """What was published before is not told, so the caller has to look."""
    notices = Notices(redis_client)
    eventually(lambda: listeners(redis_client) == 0)

    notices.wait(LONG)

    assert listeners(redis_client) == 1
    notices.release()


def test_a_lost_connection_is_opened_again(redis_client, notices):
    redis_client.client_kill_filter(_type="pubsub")
    notices.wait(SHORT)
    assert listeners(redis_client) == 0

    notices.wait(LONG)

    assert listeners(redis_client) == 1


def test_after_a_lost_connection_the_wait_still_takes_its_time(redis_client, notices):
    """Or a server that drops every connection would be asked without a pause."""
    redis_client.client_kill_filter(_type="pubsub")
    started = time.monotonic()

    notices.wait(SHORT)

    assert time.monotonic() - started >= SHORT


def test_close_ends_the_wait_of_another_thread(notices):
    waiting = threading.Thread(target=notices.wait, args=(LONG,), daemon=True)
    waiting.start()

    notices.close()

    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()


def test_release_gives_the_connection_back(redis_client, notices):
    notices.release()
    notices.release()

    eventually(lambda: listeners(redis_client) == 0)


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A server that a test may freeze and kill."""
    with new_redis() as server:
        yield server


def test_a_frozen_server_holds_nobody_longer_than_the_timeouts(own_redis):
    assert own_redis.process_id is not None
    with open_redis(own_redis.url, 0.1) as client, open_redis(own_redis.url) as patient:
        silent, unsubscribed = Notices(client), Notices(client)

        def are_subscribed(*several: Notices) -> bool:
            """At the first wait, unless the server is slower than the timeout."""
            for notices in several:
                notices.wait(SHORT)
            return listeners(patient) == len(several)

        eventually(lambda: are_subscribed(silent))
        # Leaves a connection that was opened before: the server is silent only then.
        with suppress(redis.exceptions.TimeoutError):
            client.ping()
        os.kill(own_redis.process_id, signal.SIGSTOP)
        try:
            silent.wait(SHORT)
            unsubscribed.wait(SHORT)
        finally:
            os.kill(own_redis.process_id, signal.SIGCONT)

        eventually(lambda: are_subscribed(silent, unsubscribed))
        silent.release()
        unsubscribed.release()


def test_a_server_that_is_away_is_no_error():
    with open_redis("unix:///nowhere/redis.sock", timeout_seconds=0.1) as client:
        notices = Notices(client)

        notices.wait(SHORT)
        notices.wait(SHORT)


def test_a_publisher_who_may_not_send_notices_still_publishes(redis_client, redis_url, token):
    redis_client.acl_setuser(
        "mute", enabled=True, nopass=True, keys=["*"], categories=["+@all"], reset_channels=True
    )
    try:
        with redis.Redis.from_url(redis_url, username="mute", password="") as client:
            versions = Versions(client, kept=1)

            version = versions.publish(token, 1.0, 2.0, {}, {})

            assert versions.current() == version
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.publish(keys.PUBLISHED, version)
    finally:
        redis_client.acl_deluser("mute")
