"""What is wrong with a server: found, named, and found again when it is mended."""

from contextlib import ExitStack

import pytest

from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.keys import logs
from app.storage.redis.client import open_redis
from app.storage.redis.server import socket_url
from app.storage.store_watch import StoreCondition, StoreDanger, StoreWatch
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.odd_servers import SAFE, server


@pytest.mark.parametrize(
    ("options", "danger"),
    [
        (("--cluster-enabled", "yes"), StoreDanger.CLUSTER),
        (("--maxmemory-policy", "allkeys-lru"), StoreDanger.EVICTS),
        (("--replicaof", "127.0.0.1 1"), StoreDanger.REPLICA),
        (("--appendonly", "no"), StoreDanger.VOLATILE),
        (("--appendfsync", "no"), StoreDanger.VOLATILE),
        (("--maxmemory", "1mb"), StoreDanger.NEARLY_FULL),
    ],
)
def test_each_danger_is_known(options, danger):
    with server(*SAFE, *options) as (client, _):
        condition = StoreCondition.of(client)

        assert condition.dangers() == (danger,)
        assert condition.unknown == []
        volatile = danger is StoreDanger.VOLATILE
        assert condition.dangers(allow_volatile=True) == (() if volatile else (danger,))


def test_what_a_managed_server_does_not_say_is_no_danger():
    with server() as (client, _):
        client.execute_command("ACL", "SETUSER", "default", "-config", "-info")
        condition = StoreCondition.of(client)

        assert condition.dangers() == ()
        assert len(condition.unknown) == 4


def test_a_node_of_a_cluster_is_known_where_the_mode_has_another_name():
    """As Valkey 8 says it."""
    info = {"role": "master", "server_mode": "cluster", "cluster_enabled": 1}

    assert StoreCondition(info, "everysec").dangers() == (StoreDanger.CLUSTER,)
    assert StoreCondition(info | {"cluster_enabled": 0}, "everysec").dangers() == ()


@pytest.fixture
def watch(redis_client) -> tuple[StoreWatch, list[float]]:
    """Of an empty server, and the time it is."""
    now = [0.0]
    return StoreWatch(redis_client, clock=lambda: now[0]), now


def test_a_server_is_looked_at_now_and_then(watch, redis_client):
    """Sooner where a write has failed."""
    watched, now = watch
    watched.look()
    redis_client.config_set("maxmemory", 1)
    try:
        watched.look()
        assert watched.writable
        now[0] = 10.0
        watched.look()
        assert not watched.writable
    finally:
        redis_client.config_set("maxmemory", 0)
    now[0] = 11.0
    watched.look()
    assert watched.writable

    watched.write_failed(StorageUnavailable("away"))
    assert not watched.writable
    watched.look()
    assert watched.writable


@pytest.mark.usefixtures("one_log")
def test_hours_that_nobody_folds_are_known(watch, redis_client, append, impressions):
    """A log that is folded and filled again is not behind; junk is passed over."""
    watched, now = watch
    store = BinsStore(redis_client, TTL_SECONDS)
    redis_client.sadd(logs(0), "junk", b"\xff")
    redis_client.set(logs(1), "no set")
    found = []
    for fold in (False, True, False, False):
        append(impressions(5))
        if fold:
            redis_client.delete(logs(0), logs(1))
            store.fold()
            append(impressions(5))
        watched.look()
        found.append(watched.unfolded.age((HOUR + 3) * 3600.0))
        now[0] += 10.0

    assert found == [0.0, 0.0, 2 * 3600.0, 2 * 3600.0]
    assert watched.unfolded.age(0.0) == 0.0, "a clock that went back"


def test_a_demoted_master_takes_no_writes_and_its_successor_is_found(tmp_path):
    """One name, which leads to another server after a while."""
    with ExitStack() as stack:
        (old, _), (new, port) = (stack.enter_context(server(*SAFE)) for _ in range(2))
        name = tmp_path / "name"
        name.symlink_to(old.connection_pool.connection_kwargs["path"])
        client = stack.enter_context(open_redis(socket_url(name)))
        now = [0.0]
        watched = StoreWatch(client, clock=lambda: now[0])
        watched.look()
        assert watched.writable
        old.replicaof("127.0.0.1", port)
        name.unlink()
        name.symlink_to(new.connection_pool.connection_kwargs["path"])

        now[0] = 10.0
        watched.look()
        refused = watched.writable
        now[0] = 11.0
        watched.look()

        assert (refused, watched.writable, watched.dangers) == (False, True, ())
