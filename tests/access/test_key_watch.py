"""The keys that a process knows: what they follow, and what they outlive."""

import stat
import time

import pytest

from app.access.key_store import KeyStore
from app.access.key_watch import COPY, KeyCopy, KeyWatch
from app.access.keys import Scope
from app.storage.redis.client import open_redis

READ = frozenset({Scope.READ})
AWAY = "redis://127.0.0.1:1"


@pytest.fixture
def store(redis_client):
    return KeyStore(redis_client)


@pytest.fixture
def copy(tmp_path):
    return KeyCopy(tmp_path / "last-good", AWAY)


@pytest.fixture
def away():
    with open_redis(AWAY) as client:
        yield KeyStore(client)


def test_without_any_key_none_is_required(store, copy):
    watch = KeyWatch(store, copy, None)

    assert watch.begin()
    assert not watch.table.required
    assert KeyWatch(store, copy, "b" * 32).table.required
    assert KeyWatch(store, copy, None, always=True).table.required


def test_it_follows_the_store(store, copy):
    watch = KeyWatch(store, copy, None)
    watch.start()
    key, token = store.make(READ)
    watch.look()
    assert watch.table.find(token, time.time()) == key
    store.revoke(key.id)
    watch.look()

    assert watch.table.find(token, time.time()) is None
    assert watch.table.required
    watch.stop()


def test_a_process_that_starts_without_the_store_knows_its_keys(store, away, copy, tmp_path):
    _, token = store.make(READ)
    KeyWatch(store, copy, None).begin()

    watch = KeyWatch(away, copy, None)

    assert not watch.begin()
    assert watch.table.find(token, time.time())
    file = tmp_path / "last-good" / COPY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.split("_", 2)[2] not in file.read_text()


def test_a_damaged_copy_opens_no_door(store, away, copy, tmp_path, caplog):
    store.make(READ)
    KeyWatch(store, copy, None).begin()
    file = tmp_path / "last-good" / COPY
    whole = file.read_bytes()

    for place in (0, 70, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        watch = KeyWatch(away, copy, None)
        watch.begin()

        assert watch.table.required
        assert not watch.table.keys
    assert "left out the copy of the API keys" in caplog.text


def test_the_copy_of_another_store_is_not_read(store, away, tmp_path):
    store.make(READ)
    KeyWatch(store, KeyCopy(tmp_path, "redis://other"), None).begin()

    watch = KeyWatch(away, KeyCopy(tmp_path, AWAY), None)
    watch.begin()

    assert not watch.table.required


def test_a_store_that_lost_its_keys_gets_them_back(store, copy, redis_client):
    _, token = store.make(READ)
    watch = KeyWatch(store, copy, None)
    watch.begin()

    redis_client.flushall()
    watch.look()
    assert watch.table.find(token, time.time())

    assert KeyWatch(store, None, None).begin()
    assert [key.scopes for key in store.all()] == [READ]


def test_keys_from_the_disk_alone_are_not_put_into_a_store(store, away, copy, redis_client):
    """One of them may have been revoked since."""
    store.make(READ)
    KeyWatch(store, copy, None).begin()
    redis_client.flushall()

    watch = KeyWatch(store, copy, None)
    watch.begin()

    assert watch.table.keys
    assert store.all() == []


def test_a_disk_that_takes_nothing_is_told_once(store, tmp_path, caplog):
    (tmp_path / "file").touch()
    watch = KeyWatch(store, KeyCopy(tmp_path / "file", AWAY), None)
    _, token = store.make(READ)

    watch.begin()
    watch.look()

    assert watch.table.find(token, time.time())
    assert caplog.text.count("no copy on this host") == 1
