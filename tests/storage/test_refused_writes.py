"""A store that refuses writes: an error for the caller, and nothing half done."""

from collections.abc import Callable, Iterator

import pytest
import redis

from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat, Lease
from app.storage.overrides import Overrides
from app.storage.versions import Versions
from calibrators import BinsTable
from tests.storage.conftest import HOUR, TTL_SECONDS
from tests.storage.contents import contents
from tests.storage.interrupted_redis import InterruptedRedis
from tests.storage.shards import by_shard

Refuse = Callable[[], None]

OUT_OF_MEMORY = "out of memory"
READ_ONLY = "read-only"


@pytest.fixture(params=[OUT_OF_MEMORY, READ_ONLY])
def refuse(request, redis_client) -> Iterator[Refuse]:
    """Lets the server refuse writes: at its memory limit, or as a replica."""

    def out_of_memory() -> None:
        redis_client.config_set("maxmemory", 1)

    def read_only() -> None:
        redis_client.replicaof("127.0.0.1", "1")

    yield {OUT_OF_MEMORY: out_of_memory, READ_ONLY: read_only}[request.param]
    accept(redis_client)


def accept(client: redis.Redis) -> None:
    """The opposite of `refuse`."""
    client.config_set("maxmemory", 0)
    client.replicaof("NO", "ONE")


@pytest.mark.parametrize("ids", [None, "e"], ids=["without ids", "with ids"])
@pytest.mark.parametrize("key", [None, "key"], ids=["without key", "with key"])
def test_a_request_that_is_refused_leaves_nothing_and_may_be_sent_again(
    ids, key, refuse, append, store, redis_client, impressions
):
    """Were its key or its ids kept, the retry would be taken for a duplicate."""
    append(impressions(40, "known"))
    stored = contents(redis_client)
    refuse()

    with pytest.raises(StorageUnavailable):
        append(impressions(300, ids), key, "print")

    assert contents(redis_client) == stored
    accept(redis_client)
    assert append(impressions(300, ids), key, "print").accepted == 300
    assert store.fold() == 340


def test_a_fold_that_is_refused_loses_no_event(refuse, append, store, redis_client, impressions):
    append(impressions(300))
    stored = contents(redis_client)
    refuse()

    with pytest.raises(StorageUnavailable):
        store.fold()

    assert contents(redis_client) == stored
    accept(redis_client)
    assert store.fold() == 300


def test_a_publish_that_is_refused_leaves_the_old_version_in_force(refuse, redis_client, token):
    versions = Versions(redis_client, kept=2)
    old = versions.publish(token, 1.0, 2.0, {"click": b"old"}, {})
    refuse()

    with pytest.raises(StorageUnavailable):
        versions.publish(token, 2.0, 3.0, {"click": b"new"}, {})

    assert versions.load(old).atlases == {"click": b"old"}
    assert versions.current() == old


def test_a_publish_that_is_refused_at_its_last_step_moves_nothing(
    refuse, redis_client, redis_url, token
):
    """All or nothing: the pointer, the history and what is dropped from it."""
    interrupted = InterruptedRedis(redis_url, "publish_version", before=refuse)
    old = Versions(redis_client, kept=1).publish(token, 1.0, 2.0, {"click": b"old"}, {})

    with pytest.raises(StorageUnavailable):
        Versions(interrupted, kept=1).publish(token, 2.0, 3.0, {"click": b"new"}, {})

    versions = Versions(redis_client, kept=1)
    assert versions.current() == old
    assert [manifest["version"] for manifest in versions.history()] == [old]
    assert versions.load(old).atlases == {"click": b"old"}
    orphan = next(key for key in redis_client.keys("*version:*") if old.encode() not in key)
    assert redis_client.ttl(orphan) > 0


WRITES: dict[str, Callable[[redis.Redis], object]] = {
    "judged": lambda client: BinsStore(client, TTL_SECONDS).write_calibrated(
        "click", HOUR, by_shard(BinsTable.empty())
    ),
    "lease": lambda client: Lease(client, "other", "b", ttl=10.0).acquire(),
    "job": lambda client: Jobs(client).submit("retrain", {"target": "click"}, 1.0),
    "requeue": lambda client: Jobs(client).requeue_running(),
    "heartbeat": lambda client: Heartbeat(client, ttl_seconds=10).write({"at": 1.0}),
    "override": lambda client: Overrides(client).put("click", "a", "sir"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_other_write_that_is_refused_changes_nothing(write, refuse, redis_client):
    jobs = Jobs(redis_client)
    jobs.submit("replay", {}, 1.0)
    jobs.take(2.0)
    stored = contents(redis_client)
    refuse()

    with pytest.raises(StorageUnavailable):
        write(redis_client)

    assert contents(redis_client) == stored
    accept(redis_client)
    write(redis_client)
    assert contents(redis_client) != stored


def test_what_was_accepted_before_memory_ended_is_there_and_no_more(
    append, store, redis_client, impressions
):
    """The limit is met in the middle of a stream of requests, each of many keys."""
    accepted: list[int] = []

    def append_until_refused() -> None:
        for request in range(500):
            answer = append(impressions(200, f"{request}-"), f"{request}", "print")
            accepted.append(answer.accepted)

    redis_client.config_set("maxmemory", redis_client.info("memory")["used_memory"] + 1_000_000)
    try:
        with pytest.raises(StorageUnavailable, match="maxmemory"):
            append_until_refused()
    finally:
        accept(redis_client)

    assert sum(accepted) > 0
    assert store.fold() == sum(accepted)
