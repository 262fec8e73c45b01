"""A real Redis Cluster of three masters and three replicas: requests, folds, clicks, failovers."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from app.settings import Settings
from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks, Refusal
from app.storage.conversions import ConversionLog
from app.storage.errors import IdempotencyConflict, StorageUnavailable
from app.storage.event_log import Appended, EventLog
from app.storage.integrity.damage import Damage
from app.storage.integrity.inspection import Inspection
from app.storage.jobs import Jobs
from app.storage.lease import Lease
from app.storage.models import Models
from app.storage.redis.client import Replicas, open_async_redis, open_redis
from app.storage.redis.cluster import SlotMap
from app.storage.store_watch import StoreDanger, StoreWatch, store_dangers
from app.storage.versions import Notices, Versions
from tests.storage.clicks import AT, CELL, RULES, click, conversion, did, feature_kinds, of
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.several_servers import Cluster, cluster, move_slot, until
from tests.storage.stored_traffic import store_traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CAMPAIGNS = 40


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture
def served(running) -> Iterator[redis.Redis]:
    """A client of the cluster, which is empty."""
    running.wait_until_whole()
    running.flush()
    with open_redis(running.url) as client:
        yield client


def batch_of(count: int, ids: str | None = None) -> EventBatch:
    batch = EventBatch()
    for number in range(count):
        event_id = None if ids is None else f"{ids}{number}"
        campaign = f"c-{number % CAMPAIGNS}"
        batch.add("click", HOUR, campaign, number % 100 / 100, 1.0, 0.0, event_id)
    return batch


def append(url: str, *requests: tuple[Any, ...], **more: Any) -> list[Appended]:
    async def all_of() -> list[Appended]:
        async with open_async_redis(url) as client:
            log = EventLog(client, TTL_SECONDS, RULES, **more)
            return [await log.append(*request) for request in requests]

    return asyncio.run(all_of())


def total(client: redis.Redis) -> float:
    return BinsStore(client, TTL_SECONDS).hour("click", HOUR).total().total_count


def test_a_request_is_stored_once_and_folded_to_the_bytes_of_one_server(
    running, served, redis_client, redis_url
):
    mixed = batch_of(200)
    for number in range(100):
        mixed.add("click", HOUR, f"c-{number % CAMPAIGNS}", 0.25, 1.0, 0.0, f"id-{number}")
    requests = [(mixed, "key", "p"), (mixed, "key", "p"), (batch_of(50, "id-"),), (batch_of(30),)]
    found = [append(url, *requests) for url in (running.url, redis_url)]
    stores = [BinsStore(client, TTL_SECONDS) for client in (served, redis_client)]

    assert found[0] == found[1]
    assert [one.accepted for one in found[0]] == [300, 0, 0, 30]
    with pytest.raises(IdempotencyConflict):
        append(running.url, (batch_of(1), "key", "other"))
    assert [(store.fold(), store.fold(), store.hours("click")) for store in stores] == [
        (330, 0, [HOUR])
    ] * 2
    tables = [
        [table.to_bytes() for table in store.shards_of_hour("click", HOUR)] for store in stores
    ]
    assert tables[0] == tables[1]
    assert all(len(node.client.keys("*")) > 0 for node in running.nodes)


def test_clicks_gather_close_and_convert(running, served):
    clicks, log = OpenClicks(served), ConversionLog(served)
    many = [click(str(number), features={"age": 3.0}) for number in range(30)]
    done = [did(AT + 5, str(number)) for number in range(30)]
    bought = [conversion(AT + 9, str(number)) for number in range(30)]
    request = of(*many, *done, *bought, cell=CELL)

    assert append(running.url, (request, "k", "p"), (request, "k", "p")) == [
        Appended(90, 0),
        Appended(0, 90),
    ]
    (again,) = append(running.url, (of(click("1", "another"), *many[:2]),))
    assert ([one.reason for one in again.refused], again.duplicates) == ([Refusal.REUSED], 1 + 1)
    assert feature_kinds(served) == {"age": "n"}
    assert BinsStore(served, TTL_SECONDS).fold() == 30
    begun = clicks.begin_close(1e10, 100)
    assert (len(begun), {len(one.behaviours) for one in begun}) == (30, {1})
    assert (clicks.finish_close(begun), clicks.finish_close(begun)) == (30, 0)
    converted = 0
    for place in log.pending():
        mark, found = log.read(place)
        converted += len(found) * log.drop(place, mark)
    assert converted == 30
    append(running.url, (of(did(AT, "nobody")),))
    assert clicks.expire_waiting(1e12) == 1
    counts = clicks.counts()
    assert (counts["closed"], counts["open"], counts["orphans"]) == (30, 0, 1)


def test_versions_jobs_notices_and_the_watch(running, served):
    lease = Lease(served, "worker", "test", 60.0)
    versions, notices = Versions(served, 2), Notices(served)
    notices.wait(0.1)
    assert lease.acquire()
    version = versions.publish(lease.token, 1.0, 2.0, {"click": b"x" * 3_000_000}, {"a": 1})
    assert versions.load(version).atlases == {"click": b"x" * 3_000_000}
    assert [entry["version"] for entry in versions.history()] == [version]
    begun = time.monotonic()
    notices.wait(30.0)
    assert time.monotonic() - begun < 15.0
    notices.release()
    jobs = Jobs(served)
    assert jobs.take(2.0) is None
    assert jobs.submit("refit", {}, 1.0).status == "queued"
    assert (job := jobs.take(2.0)) is not None
    assert jobs.finish(job.id, 3.0)
    served.set("sirocco:{05}:logs", "no set")
    assert Inspection(served, 0.0).run() == 1
    watch = StoreWatch(served, wait=1, wait_seconds=5.0)
    watch.look()
    assert (watch.writable, watch.dangers, store_dangers(served)[0]) == (True, (), ())


def test_a_worker_refits_trains_and_closes_clicks(running, served, tmp_path):
    """Real traffic and a real worker, with a delayed target, leave something of every kind."""
    store_traffic(served, running.url, tmp_path)

    versions = Versions(served, 8)
    assert {*versions.load(versions.current() or "").atlases} == {"click", "conversion"}
    assert Models(served).history("conversion")
    assert OpenClicks(served).counts()["closed"] > 0
    assert Damage(served).counts() == {}


def test_one_node_by_itself_is_refused(running, served):
    with open_redis(f"redis://{running.nodes[0].address}") as alone:
        assert store_dangers(alone)[0] == (StoreDanger.CLUSTER,)


def test_what_is_sent_to_no_master_is_refused(served):
    """And does not go to whatever server listens on the usual port of this machine."""
    with pytest.raises(RuntimeError, match="not sent to a master"):
        served.pipeline().watch(keys.API_KEYS)


class Sender(threading.Thread):
    """Sends requests under keys, each again until it is acknowledged, while `wanted`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.wanted = True
        self.acknowledged = 0
        self.events = 0
        self.longest = 0.0
        self.failures: list[BaseException] = []
        self._url = url

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        async with open_async_redis(self._url, 1.0) as client:
            log = EventLog(client, TTL_SECONDS, wait=1, wait_seconds=0.5)
            number = 0
            while self.wanted:
                number += 1
                batch = batch_of(20)
                for event in range(10):
                    batch.add("click", HOUR, f"c-{event}", 0.5, 1.0, 0.0, f"{number}-{event}")
                await self._acknowledged(log, batch, str(number))

    async def _acknowledged(self, log: EventLog, batch: EventBatch, key: str) -> None:
        deadline = time.monotonic() + 90.0
        while time.monotonic() < deadline:
            begun = time.monotonic()
            try:
                answer = await log.append(batch, key, "p")
            except StorageUnavailable:
                await asyncio.sleep(0.02)
            except BaseException as error:
                # It would be a 500.
                self.failures.append(error)
                return
            else:
                assert answer.accepted + answer.duplicates == len(batch)
                self.acknowledged += 1
                self.events += len(batch)
                return
            finally:
                self.longest = max(self.longest, time.monotonic() - begun)


class Folder(threading.Thread):
    """Folds again and again, whatever fails."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.wanted = True
        self.failures: list[BaseException] = []
        self._url = url

    def run(self) -> None:
        with open_redis(self._url, 1.0) as client:
            store = BinsStore(client, TTL_SECONDS, replicas=Replicas(client, 1, 0.5))
            while self.wanted:
                try:
                    store.fold()
                except StorageUnavailable:
                    time.sleep(0.05)
                except BaseException as error:
                    self.failures.append(error)
                    return


def under_traffic(running: Cluster, served: redis.Redis, disturb: Any) -> None:
    """Nothing that was acknowledged is lost or doubled, and every failure is one of the store."""
    sender, folders = Sender(running.url), [Folder(running.url) for _ in range(2)]
    threads: list[Any] = [sender, *folders]
    for thread in threads:
        thread.start()
    try:
        disturb(sender)
        running.wait_until_whole()
        before = sender.acknowledged
        until(lambda: sender.acknowledged > before + 20, "requests are acknowledged again")
    finally:
        for thread in threads:
            thread.wanted = False
        for thread in threads:
            thread.join()
    assert [error for thread in threads for error in thread.failures] == []
    BinsStore(served, TTL_SECONDS).fold()
    assert total(served) == sender.events
    assert sender.longest < 5.0


def some_more(sender: Sender) -> None:
    """Requests are acknowledged, now."""
    before = sender.acknowledged
    until(lambda: sender.acknowledged > before + 20, "requests are acknowledged")


@pytest.mark.parametrize("shard", [0, 7])
def test_a_master_that_is_killed_loses_and_doubles_nothing(shard, running, served):
    def kill_and_restart(sender: Sender) -> None:
        some_more(sender)
        node = running.master_of(keys.logs(shard))
        node.kill()
        until(lambda: running.master_of(keys.logs(shard)) is not node, "its replica took over")
        node.start()

    under_traffic(running, served, kill_and_restart)


def test_nothing_is_lost_with_a_replica_that_lagged_and_is_promoted(running, served):
    """With WAIT nothing is acknowledged that it has not got, without everything is."""
    key = keys.logs(5)
    later = EventBatch()
    later.add("click", HOUR + 1, "c-0", 0.5, 1.0, 0.0)

    def lag_and_take_over(sender: Sender) -> None:
        some_more(sender)
        master = running.master_of(key)
        replica = running.replica_of(master)
        replica.freeze()
        try:
            time.sleep(1.0)
            before = sender.acknowledged
            time.sleep(1.0)
            # A request has ids of many shards, hardly ever all of those whose replicas follow.
            assert sender.acknowledged - before < 5
            assert append(running.url, *[(later,)] * keys.SHARDS) == [Appended(1, 0)] * keys.SHARDS
            master.kill()
        finally:
            replica.thaw()
        until(lambda: running.master_of(key) is replica, "the replica took over")
        master.start()

    under_traffic(running, served, lag_and_take_over)


def test_a_master_that_no_replica_follows_is_named_with_its_shards(running, served, caplog):
    master = running.master_of(keys.logs(3))
    replica = running.replica_of(master)
    replica.kill()
    try:
        with pytest.raises(StorageUnavailable, match="0 of 1 replicas") as caught:
            Replicas(served, 1, 0.2).confirm(range(keys.SHARDS))
        watch = StoreWatch(served, wait=1, wait_seconds=0.2)
        watch.look()
    finally:
        replica.start()

    assert f"master at {master.address} have" in str(caught.value)
    assert re.search(r"events of shards (\d+, )*3(, \d+)* stand still", str(caught.value))
    assert (watch.writable, watch.unreplicated) == (False, True)
    assert f"master at {master.address} have" in caplog.text


@pytest.mark.parametrize("shard", [3, 12])
def test_a_slot_that_moves_loses_and_doubles_nothing(shard, running, served):
    def move(sender: Sender) -> None:
        some_more(sender)
        source = running.master_of(keys.logs(shard))
        masters = map(running.master_of, map(keys.logs, range(keys.SHARDS)))
        target = next(node for node in masters if node is not source)
        slot = key_slot(keys.logs(shard).encode())
        move_slot(source, target, slot, lambda: time.sleep(0.01))

    under_traffic(running, served, move)


def test_a_map_that_was_read_with_a_hole_is_read_again(running, monkeypatch):
    """While the cluster came into being."""
    running.wait_until_whole()
    slot = key_slot(b"hole")
    with monkeypatch.context() as forming:
        forming.setattr(SlotMap, "_reported", lambda self, node: [(0, slot - 1, node)])
        client = open_redis(running.url)
        with pytest.raises(redis.ConnectionError, match=f"serves the slot {slot}"):
            client.get("sirocco:{hole}")
    with client:
        until(lambda: client.set("sirocco:{hole}", 1), "the map is whole")


def test_nodes_that_call_themselves_nothing_are_found(running):
    running.wait_until_whole()
    for node in running.nodes:
        node.client.config_set("cluster-preferred-endpoint-type", "unknown-endpoint")
    try:
        with open_redis(running.url) as client:
            assert client.set("sirocco:{anything}", 1)
    finally:
        for node in running.nodes:
            node.client.config_set("cluster-preferred-endpoint-type", "ip")


def test_who_waits_while_no_node_answers_does_not_ask_them_again(running, monkeypatch):
    asked: list[object] = []

    def silent(self: SlotMap, node: object) -> None:
        asked.append(node)
        time.sleep(0.05)
        raise redis.TimeoutError("a time-out each")

    monkeypatch.setattr(SlotMap, "_reported", silent)
    with open_redis(running.url) as client, ThreadPoolExecutor(8) as pool:
        for failed in [pool.submit(client.get, "x") for _ in range(8)]:
            assert isinstance(failed.exception(), redis.ConnectionError)

    assert len(asked) == len(set(asked))


def test_settings_take_these_addresses():
    url = "rediss+cluster://a:1,b:2"
    assert Settings(redis_url=url).redis_url == url
