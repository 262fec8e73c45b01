"""The health check of the worker's containers."""

import time

import pytest

from app.storage.lease import Heartbeat
from app.worker.liveness import SILENT_SECONDS, silence
from tests.reserved_ports import reserved_port
from tests.storage.odd_servers import SAFE, server


def test_a_worker_is_alive_for_five_minutes_after_each_sign(redis_client, redis_url):
    assert silence(redis_url, 20.0) == "no worker has given a sign of life"
    heartbeat = Heartbeat(redis_client, 60)

    heartbeat.write({"at": time.time()})
    assert silence(redis_url, 20.0) is None
    heartbeat.write({"at": time.time() - SILENT_SECONDS - 60})
    assert str(silence(redis_url, 20.0)).startswith("the worker has been silent for 36")


def test_a_store_that_is_away_is_no_fault_of_the_worker():
    assert silence(f"redis://127.0.0.1:{reserved_port()}", 0.5) is None


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "demoted"])
def test_a_store_that_takes_no_writes_is_no_fault_of_the_worker(is_full):
    """A restart would not bring it back, and take from a worker what it was about."""
    with server(*SAFE) as (client, port):
        url = f"redis://127.0.0.1:{port}"
        Heartbeat(client, 60).write({"at": time.time() - SILENT_SECONDS - 60})
        assert silence(url, 20.0)
        client.config_set("maxmemory", 1) if is_full else client.replicaof("127.0.0.1", port)

        assert silence(url, 20.0) is None
