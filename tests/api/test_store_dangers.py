"""A store that is up and yet not to be relied on: `/readyz`, the metrics and the answers say so."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import redis

from app.settings import Settings
from app.storage.redis.server import socket_url
from app.storage.store_watch import StoreDanger
from tests.api.events import impression
from tests.api.problems import problem
from tests.api.running_service import RunningService, eventually, serving
from tests.storage.odd_servers import SAFE, server

SETTINGS = Settings(port=0, refresh_seconds=0.01)


def url_of(client: redis.Redis) -> str:
    return socket_url(Path(client.connection_pool.connection_kwargs["path"]))


def said(service: RunningService) -> list[str]:
    return service.http.get("/readyz").json().get("reasons", [])


def post(service: RunningService, key: str = "a"):
    headers = {"Idempotency-Key": key}
    return service.http.post("/v1/events", json=[impression(NOW)], headers=headers)


NOW = time.time()


def test_every_danger_is_a_reason():
    with (
        server("--appendonly", "no", "--maxmemory", "1150kb") as (client, _),
        serving(SETTINGS, url_of(client)) as service,
    ):
        answer = service.http.get("/readyz")

        assert answer.status_code == 200
        assert answer.json() == {
            "status": "degraded",
            "version": "none",
            "reason": "store-volatile",
            "reasons": ["store-volatile", "store-nearly-full"],
        }
        assert {*answer.json()["reasons"]} < {*StoreDanger}


@pytest.fixture
def own_service() -> Iterator[tuple[redis.Redis, RunningService]]:
    """A service on a server that nobody else uses."""
    with server(*SAFE) as (client, _), serving(SETTINGS, url_of(client)) as service:
        assert said(service) == []
        yield client, service


def test_a_full_store_is_not_up(own_service):
    client, service = own_service
    client.config_set("maxmemory", 1)

    refused = post(service)
    eventually(lambda: said(service)[:1] == ["store-refuses-writes"])

    problem(refused, 503, "store-unavailable")
    assert service.metric("sirocco_store_up") == 0
    client.config_set("maxmemory", 0)
    eventually(lambda: said(service) == [])
    assert (post(service).json()["accepted"], service.metric("sirocco_store_up")) == (1, 1)


@pytest.mark.parametrize("denied", ["-evalsha", "-sadd"])
def test_a_user_who_may_not_store_events_is_known(denied, caplog):
    """`sadd` is of the scripts alone: what fails is a request, and the log says why, once."""
    with server(*SAFE) as (client, _):
        everything = ["+@all", denied]
        client.acl_setuser("few", enabled=True, passwords=["+pw"], keys=["*"], commands=everything)
        url = url_of(client).replace("unix://", "unix://few:pw@")
        with serving(SETTINGS, url) as service:
            for key in "abc":
                refused = post(service, key)
                problem(refused, 503, "store-unavailable")
                assert refused.json()["detail"].startswith("the store denies this service access")
            eventually(lambda: denied == "-sadd" or said(service) == ["store-refuses-writes"])

    warned = [line.message for line in caplog.records if "store failed" in line.message]
    assert len([text for text in warned if "can't run" in text or "permissions" in text]) == 1


def test_a_password_that_is_refused_is_no_outage_and_may_be_mended(caplog):
    with server(*SAFE) as (client, _):
        client.acl_setuser("few", enabled=True, passwords=["+old"], keys=["*"], channels=["*"])
        with serving(SETTINGS, url_of(client).replace("unix://", "unix://few:new@")) as service:
            answer = service.http.get("/readyz")
            unread = service.http.get("/v1/admin/versions").json()["detail"]
            client.acl_setuser("few", enabled=True, passwords=["+new"], commands=["+@all"])
            eventually(lambda: service.http.get("/readyz").json()["status"] == "ready")

    assert (answer.status_code, answer.json()["reasons"]) == (503, ["store-denied"])
    why = "the store denies this service access, as its log says"
    assert unread == f"{why}, so this cannot be read; ask again"
    assert "Redis denies access by SIROCCO_REDIS_URL: invalid username-password" in caplog.text
    assert "few:new" not in caplog.text


@pytest.mark.slow
def test_a_demoted_master_is_left_for_its_successor(tmp_path):
    """Its name leads elsewhere; connections that are open do not."""
    with ExitStack() as stack:
        (old, _), (new, port) = (stack.enter_context(server(*SAFE)) for _ in range(2))
        name = tmp_path / "name"
        name.symlink_to(old.connection_pool.connection_kwargs["path"])
        service = stack.enter_context(serving(SETTINGS, socket_url(name)))
        assert post(service).json()["accepted"] == 1
        old.replicaof("127.0.0.1", port)

        refused = post(service, "b")
        eventually(lambda: said(service) == ["store-refuses-writes", "store-replica"])
        up = service.metric("sirocco_store_up")
        name.unlink()
        name.symlink_to(new.connection_pool.connection_kwargs["path"])
        eventually(lambda: said(service) == [])

        problem(refused, 503, "store-unavailable")
        assert up == 0
        assert post(service, "b").json()["accepted"] == 1
        assert new.keys("*:log:*")


def tried_until_acknowledged(service: RunningService, event_id: str) -> httpx.Response:
    """As a caller does: a replica may take its time."""
    tries = []

    def acknowledged() -> bool:
        tries.append(post(service, event_id))
        return tries[-1].is_success

    eventually(acknowledged)
    return tries[-1]


def test_an_event_is_acknowledged_once_replicas_have_it():
    settings = SETTINGS.model_copy(update={"redis_wait": 1, "redis_wait_seconds": 0.2})
    with (
        server(*SAFE) as (master, port),
        server(*SAFE, "--replicaof", f"127.0.0.1 {port}") as (replica, _),
        serving(settings, url_of(master)) as service,
    ):
        eventually(lambda: said(service) == [])
        stored = tried_until_acknowledged(service, "a")
        assert replica.keys("*:log:*") == master.keys("*:log:*")

        replica.replicaof("NO", "ONE")
        alone, again = post(service, "b"), post(service, "b")
        eventually(lambda: said(service) == ["store-refuses-writes", "store-unreplicated"])
        replica.replicaof("127.0.0.1", port)
        eventually(lambda: said(service) == [])
        retried = tried_until_acknowledged(service, "b")

    assert stored.json()["accepted"] + stored.json()["duplicates"] == 1
    for refused in (alone, again):
        problem(refused, 503, "store-unavailable")
        assert refused.headers["retry-after"] == "1"
        assert "0 of 1 replicas have confirmed it" in refused.json()["detail"]
    assert (retried.json()["accepted"], retried.json()["duplicates"]) == (0, 1)


def test_the_oldest_hour_that_is_not_folded_is_a_gauge(own_service):
    _, service = own_service
    name = "sirocco_oldest_unfolded_hour_age_seconds"
    before = service.metric(name)
    unfolded = service.app.state.resources.watch.unfolded
    unfolded.oldest = int(NOW // 3600) - 3

    assert before == 0
    assert 2 * 3600 <= (service.metric(name) or 0) < 5 * 3600
