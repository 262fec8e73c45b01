"""Addresses of several hosts, and a master that Sentinel replaces."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.exceptions import RedisError

from app.cli.serving.store import external_store
from app.errors import CommandError
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.event_log import EventLog
from app.storage.redis.addresses import address_of
from app.storage.redis.client import drop_connections, open_async_redis, open_redis, store_of
from app.storage.redis.cluster import MasterFinder
from app.storage.store_watch import store_dangers
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.several_servers import until, watched


def test_addresses_of_several_hosts_are_read():
    sentinel = address_of("rediss+sentinel://me:p%40ss@a:1,b/orders/3?ssl_cert_reqs=none")
    assert sentinel.hosts == (("a", 1), ("b", 26379))
    assert (sentinel.master, sentinel.database, sentinel.tls) == ("orders", 3, True)
    assert sentinel.server_url("::1", 7) == "rediss://me:p%40ss@[::1]:7/3?ssl_cert_reqs=none"
    assert sentinel.sentinel_url("a", 1) == "rediss://a:1?ssl_cert_reqs=none"
    known = address_of("redis+sentinel://a/m?sentinel_username=s&sentinel_password=p%2Fw")
    assert known.sentinel_url("a", 1) == "redis://s:p%2Fw@a:1"
    cluster = address_of("redis+cluster://:secret@b:2,a")
    assert (cluster.hosts, cluster.server_url("a", 9)) == (
        (("b", 2), ("a", 6379)),
        "redis://:secret@a:9/0",
    )
    assert address_of("redis://a,b") is None


def test_stores_are_told_apart_without_their_passwords():
    names = [store_of(url) for url in ("redis+cluster://:x@b:2,a:1", "redis+sentinel://a/m/2")]
    assert names == ["cluster:a:1,b:2", "sentinel:m/2"]


def test_sentinels_are_asked_by_many_threads_at_once():
    address = address_of("redis+sentinel://a,b,c/m")
    finder, seen = MasterFinder(address, 1.0), set()

    def found(number: int) -> None:
        seen.add(len(finder._order))
        finder._found(address.hosts[number % 3], (b"a", 1))

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(found, range(3000)))
    finally:
        sys.setswitchinterval(usual)
    assert seen == {3}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis+sentinel://a:1,b:2", "name is that of the master"),
        ("redis+sentinel://a:1/m/x", "name is that of the master"),
        ("redis+cluster://a:1,:2", "':...' is no host:port"),
        ("redis+cluster://a:99999", "'a:...' is no host:port"),
        ("redis+sentinel://me:secret/calibration", "'me:...' is no host:port"),
        ("redis+cluster://:secret@a:1/3", "a cluster has the database 0 alone"),
        ("redis+cluster://me:secret@a:1,me:secret@b:2", "user and password stand once"),
        ("redis+cluster://:secret/more@a:1", "/, ? and # in them are %40, %2F"),
        ("redis+sentinel://:secret#more@a:1/m", "user and password stand once"),
        ("redis+sentinel://:secret?more@a:1/m", "user and password stand once"),
        ("redis+sentinel://a:1/m/0?db=3", "database 3, 0: must be a number, given once"),
        ("redis+cluster://a:1?max_connections=1", "max_connections: there is no such option"),
        ("redis://:secret@a:1/name", "database name: must be a number"),
        ("redis://a:1/1/2", "database 1/2: must be a number"),
        ("redis://a:1?db=-1", "database -1: must be a number"),
        ("redis://:secret?more@a:1", "user and password stand once"),
        ("redis://:secret", "its port must be from 0 to 65535"),
        ("unix://", "it must name a socket"),
        ("unix:///socket?decode_responses=1", "decode_responses: there is no such option"),
    ],
)
def test_an_address_that_is_none_is_refused_in_words(url, reason):
    with pytest.raises(CommandError, match="SIROCCO_REDIS_URL") as caught:
        external_store(Settings(redis_url=url))
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_that_nobody_answers_is_a_store_that_is_away():
    for url in ("redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m"):
        why = "no node of the cluster|no Sentinel answers: Error 111|Connection refused"
        with open_redis(url) as client, pytest.raises(StorageUnavailable, match=why):
            store_dangers(client)
        with pytest.raises(StorageUnavailable):
            asyncio.run(_append(url, "1"))


async def _append(url: str, key: str) -> None:
    batch = EventBatch()
    batch.add("click", HOUR, "a", 0.5, 1.0, 0.0)
    async with open_async_redis(url, 1.0) as client:
        await EventLog(client, TTL_SECONDS, wait=1, wait_seconds=1.0).append(batch, key, "p")


@pytest.mark.slow
def test_a_promoted_replica_is_found_and_has_what_was_acknowledged():
    with watched() as servers:
        assert external_store(Settings(redis_url=servers.url)) == servers.url
        other = servers.url.replace("/orders", "/other")
        with open_redis(other) as client, pytest.raises(RedisError, match="knows a master 'other'"):
            client.ping()

        async def send() -> list[BaseException]:
            failures = []
            async with open_async_redis(servers.url, 1.0) as client:
                replicated = EventLog(client, TTL_SECONDS, wait=1, wait_seconds=1.0)
                alone = EventLog(client, TTL_SECONDS)
                for number in range(40):
                    batch = EventBatch()
                    batch.add("click", HOUR, "a", 0.5, 1.0, 0.0, str(number))
                    log = replicated if number < 20 else alone
                    if number == 20:
                        servers.master.kill()
                    while True:
                        try:
                            await log.append(batch, str(number), "p")
                            break
                        except StorageUnavailable as error:
                            failures.append(error)
                            await asyncio.sleep(0.05)
            return failures

        with open_redis(servers.url) as client:
            store = BinsStore(client, TTL_SECONDS)
            assert store.hours("click") == []
            assert asyncio.run(send()), "the master was away for a while"
            drop_connections(client)
            # The Sentinels learn of it one after the other.
            until(lambda: client.set("sirocco:{maps}:probe", 1), "all Sentinels name the new one")
            assert store.fold() == 40
            assert client.info("server")["tcp_port"] == servers.replica.port
        servers.master.start()
        until(lambda: servers.master.client.info("replication")["role"] == "slave", "demoted")
        with open_redis(servers.url) as client:
            assert client.info("replication")["role"] == "master"
