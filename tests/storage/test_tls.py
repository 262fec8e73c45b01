"""The store over TLS, to servers that take nothing else and ask for a certificate, too."""

import asyncio
import os
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from app.cli.serving.store import external_store
from app.errors import CommandError
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.event_log import EventLog
from app.storage.redis.client import open_async_redis, open_redis
from calibrators import Atlas, CalibrationMap
from tests.api.events import impression
from tests.api.running_service import serving
from tests.recorded.commands import sirocco
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.several_servers import Node, certificate, cluster, query_of, until, watched

KEPT = ("--appendonly", "yes", "--repl-diskless-sync-delay", "0")


@pytest.fixture(scope="module")
def pem(tmp_path_factory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls") / "one.pem")


@pytest.fixture(scope="module")
def server(tmp_path_factory, pem) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("server"), *KEPT, pem=pem)
    node.start()
    until(node.client.ping, "it answers")
    yield node
    node.stop()


@pytest.fixture
def url(server, pem) -> str:
    server.client.flushall()
    return f"rediss://{server.address}/0{query_of(pem)}"


def append(url: str, count: int) -> None:
    async def send() -> None:
        async with open_async_redis(url, 10.0) as client:
            log = EventLog(client, TTL_SECONDS)
            for number in range(count):
                batch = EventBatch()
                batch.add("click", HOUR, "a", 0.5, 1.0, 0.0, str(number))
                assert (await log.append(batch, str(number), "p")).accepted == 1

    asyncio.run(send())


def stored(url: str) -> float:
    with open_redis(url, 10.0) as client:
        store = BinsStore(client, TTL_SECONDS)
        store.fold()
        return store.hour("click", HOUR).total().total_count


def test_a_service_works_over_tls(url):
    with serving(Settings(port=0, refresh_seconds=0.01), url) as service:
        answer = service.http.post("/v1/events", json=[impression(time.time())])
        assert answer.json()["accepted"] == 1
        service.publish({"click": Atlas.build({"a": CalibrationMap.proportional(0.5)})})
        asked = {"target": "click", "campaign": "a", "scores": [0.5]}
        found = service.http.post("/v1/calibrate", json=asked).json()
    assert found["probabilities"] == [0.25]


@pytest.mark.slow
def test_sentinels_and_what_they_watch_take_tls(pem, tmp_path):
    with watched(pem) as servers:
        assert external_store(Settings(redis_url=servers.url)) == servers.url
        append(servers.url, 3)
        assert stored(servers.url) == 3
        assert "exit code 0" in backed_up(servers.url, tmp_path / "a")
        servers.master.kill()
        until(lambda: stored(servers.url) == 3, "the replica has taken over")


@pytest.mark.slow
def test_a_cluster_takes_tls(pem, tmp_path):
    with cluster(pem) as servers:
        assert external_store(Settings(redis_url=servers.url)) == servers.url
        append(servers.url, 40)
        assert stored(servers.url) == 40
        assert "a cluster has no snapshot" in backed_up(servers.url, tmp_path / "a")


def backed_up(url: str, folder: Path) -> str:
    folder.parent.mkdir(exist_ok=True)
    return sirocco(f"backup {folder} --redis-url {url} --data-dir {folder}-data", folder.parent)


def test_a_backup_is_made_over_tls(url, tmp_path):
    append(url, 3)

    assert "exit code 0" in backed_up(url, tmp_path / "a")

    assert (tmp_path / "a" / "redis.rdb").read_bytes().startswith(b"REDIS")
    address, _, query = url.partition("?")
    assert "redis-cli --rdb failed" in backed_up(address, tmp_path / "b")
    own = query.partition("&")[2]
    assert "redis-cli --rdb failed" in backed_up(f"{address}?{own}", tmp_path / "c")
    assert "exit code 0" in backed_up(f"{address}?{own}&ssl_cert_reqs=none", tmp_path / "d")


def test_connections_share_certificates_that_no_loop_waits_for(url, pem):
    """To read them takes 40 ms: sixteen connections at once would take longer than they may."""
    readers: list[threading.Thread] = []
    create = ssl.create_default_context

    def noted() -> ssl.SSLContext:
        readers.append(threading.current_thread())
        return create()

    async def ask() -> list[int]:
        counts = []
        async with open_async_redis(url, 10.0) as client:
            for age in (0, 0, 60):
                os.utime(pem, (pem.stat().st_atime, pem.stat().st_mtime - age))
                await asyncio.gather(*(client.ping() for _ in range(16)))
                counts.append(len(readers))
                await client.connection_pool.disconnect()
        return counts

    with patch.object(ssl, "create_default_context", noted):
        assert asyncio.run(ask()) == [1, 1, 2]
    assert threading.main_thread() not in readers


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path):
    pem = certificate(tmp_path / "a.pem")
    node = Node(tmp_path, pem=pem)

    async def ask() -> None:
        async with open_async_redis(f"rediss://{node.address}/0{query_of(pem)}", 10.0) as client:
            await client.ping()
            await client.connection_pool.disconnect()
            node.kill()
            os.replace(certificate(tmp_path / "b.pem"), pem)
            node.start()
            until(node.client.ping, "it answers")
            await client.ping()

    try:
        node.start()
        until(node.client.ping, "it answers")
        asyncio.run(ask())
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("ssl_ca=x", "unexpected keyword argument 'ssl_ca'"),
        ("ssl_ca_certs=/nowhere", "ssl_ca_certs=/nowhere: there is no such file"),
        ("ssl_cert_reqs=maybe", "Invalid SSL Certificate Requirements Flag: maybe"),
        (f"ssl_certfile={__file__}", "its certificates cannot be used"),
    ],
)
@pytest.mark.parametrize(
    "kind", ["rediss://a:1/0", "rediss+sentinel://a:1/m", "rediss+cluster://a:1"]
)
def test_options_that_no_connection_can_have_are_refused(kind, query, reason):
    with pytest.raises(CommandError, match="SIROCCO_REDIS_URL") as caught:
        external_store(Settings(redis_url=f"{kind}?{query}"))
    assert reason in str(caught.value)
