"""A server that takes long to load its file is waited for, whatever happens meanwhile."""

import os
import signal
from pathlib import Path
from threading import Thread

import pytest

from app.cli.serving.processes import Supervision
from app.cli.serving.store import EmbeddedStore
from app.storage.redis import server
from app.storage.redis.client import open_redis
from app.storage.redis.server import (
    LONGEST_SOCKET_PATH,
    EmbeddedRedis,
    Standing,
    find_redis_binary,
    standing,
)
from tests.storage.slow_redis import KEYS, fill, slow_redis


@pytest.fixture
def data_dir(tmp_path, monkeypatch) -> Path:
    """One whose file takes longer to load than a server may be silent; its socket is elsewhere."""
    binary = slow_redis(tmp_path / "bin", find_redis_binary())
    monkeypatch.setenv("PATH", str(binary.parent), prepend=os.pathsep)
    folder = tmp_path / ("x" * LONGEST_SOCKET_PATH)
    with EmbeddedRedis(folder) as redis, open_redis(redis.url) as client:
        fill(client)
    # Not before: the first start has nothing to load, and a busy machine may take longer over it.
    monkeypatch.setattr(server, "START_SECONDS", 1.2)
    (binary.parent / "slow").touch()
    return folder


def stored(url: str) -> int:
    with open_redis(url) as client:
        return client.dbsize()


def test_loading_has_no_end_but_its_own(data_dir):
    with EmbeddedRedis(data_dir) as redis:
        assert stored(redis.url) == KEYS


def test_whoever_joins_waits_as_long(data_dir):
    first, second = EmbeddedRedis(data_dir), EmbeddedRedis(data_dir)
    starting = first.starting()
    while next(starting) is not Standing.LOADING:
        pass

    def load() -> None:
        for _ in starting:
            pass

    thread = Thread(target=load)
    thread.start()
    try:
        with second:
            assert stored(second.url) == KEYS
            assert second.exit_code is None
            thread.join()
            first.__exit__(None, None, None)
            assert second.exit_code == 0, "who joined learns that the owner has gone"
    finally:
        thread.join()
        first.__exit__(None, None, None)


def test_nobody_may_write_to_a_server_that_loads(data_dir):
    redis = EmbeddedRedis(data_dir)
    starting = redis.starting()

    found = {standing(redis.url) for said in starting if said is Standing.LOADING}

    assert found == {Standing.AWAY}
    assert standing(redis.url) is Standing.READY
    redis.__exit__(None, None, None)


@pytest.mark.slow
def test_killed_while_it_loads_it_starts_again_at_its_address(data_dir):
    """At the first start, after it has served, and twice in a row."""
    with Supervision() as supervision:
        store = supervision.add(EmbeddedStore(data_dir))
        for _ in range(2):
            supervision.begin(lambda: store.is_under_way and not store.is_ready)
            kill(store)
        supervision.begin(lambda: store.is_ready)
        url = store.url
        for _ in range(2):
            kill(store)
            supervision.begin(lambda: store.is_under_way)

        supervision.begin(lambda: store.is_ready)

        assert (store.url, stored(store.url)) == (url, KEYS)


def kill(store: EmbeddedStore) -> None:
    """Whatever the phase, and return when it is known."""
    process_id = store._redis.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    while store.exit_code is None:
        pass


def test_a_data_directory_that_cannot_be_used_is_named_with_its_setting(tmp_path):
    (tmp_path / "file").touch()
    store = EmbeddedStore(tmp_path / "file" / "data")
    store.start()

    expected = f"Redis did not start in SIROCCO_DATA_DIR = {tmp_path}/file/data: [Errno 20]"
    assert store.exit_code == 1
    assert store.last_output.startswith(expected)
