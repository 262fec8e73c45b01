"""Servers that events would be lost on: no service starts with them."""

import pytest

from app.cli.serving.store import external_store
from app.settings import Settings
from tests.api.test_store_dangers import url_of
from tests.reserved_ports import reserved_port
from tests.storage.odd_servers import server


@pytest.mark.parametrize("command", ["serve", "worker", "up"])
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("--cluster-enabled", "yes"), "is a node of a cluster"),
        (("--replicaof", "127.0.0.1 1"), "is a replica"),
        (("--maxmemory-policy", "volatile-ttl"), "set maxmemory-policy to noeviction"),
    ],
)
def test_what_is_unsafe_is_refused(refused, command, option, reason):
    with server(*option) as (client, _):
        port = () if command == "worker" else ("--port", reserved_port())
        said = refused(command, "--redis-url", url_of(client), *port)

    assert "SIROCCO_REDIS_URL: this Redis server" in said
    assert reason in said


def test_a_store_that_is_away_or_volatile_is_no_reason_not_to_start():
    with server("--appendonly", "no") as (client, _):
        url = url_of(client)
        assert external_store(Settings(redis_url=url)) == url

    assert external_store(Settings(redis_url=url)) == url
