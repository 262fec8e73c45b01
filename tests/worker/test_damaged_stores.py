"""Damage and junk under the keys of a worker: nothing ends it, nothing hangs."""

from threading import Event, Thread

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.integrity.damage import Damage
from app.storage.integrity.inspection import TYPES, Inspection
from app.storage.jobs import Jobs
from app.storage.keys import TargetHour, shard_of
from app.storage.lease import Heartbeat
from app.storage.redis.client import open_redis
from app.storage.store_watch import StoreWatch
from app.storage.versions import Versions
from app.worker.loop import Worker
from tests.storage.contents import contents
from tests.worker.conftest import HOUR

PLACE = TargetHour(shard_of("big"), "click", HOUR)
AS_OF = (HOUR + 2) * SECONDS


@pytest.fixture
def worker(new_worker, clock, append_log, outcomes):
    append_log(outcomes(hours=2))
    clock.seconds = AS_OF - 60
    return new_worker()


def refitted(worker, client, clock):
    """What came of a refit that was asked for."""
    job = Jobs(client).submit("refit", {"as_of": AS_OF}, clock())
    worker.step()
    return Jobs(client).get(job.id)


def flip(client, key, field, at=40):
    data = bytearray(client.hget(key, field))
    data[at] ^= 1
    client.hset(key, field, bytes(data))


def test_a_damaged_hour_is_set_aside_named_and_counted_and_the_refit_goes_on(
    worker, redis_client, clock
):
    worker._bins.fold()
    flip(redis_client, PLACE.bins, "table")

    done = refitted(worker, redis_client, clock)

    about = {"kind": "bins", "shard": PLACE.shard, "target": "click", "hour": HOUR}
    assert (done.status, done.result["damaged"]) == ("done", [about])
    assert redis_client.hexists(keys.set_aside(PLACE.bins), "table")
    assert 0 < redis_client.ttl(keys.set_aside(PLACE.bins)) <= 7 * 24 * 3600
    assert Heartbeat(redis_client, 60).read()["damaged"]["bins"] == 1
    assert "damaged" not in refitted(worker, redis_client, clock).result


def test_a_fold_begins_a_damaged_hour_anew(worker, redis_client, append_log, outcomes):
    worker._bins.fold()
    flip(redis_client, PLACE.bins, "table")
    append_log(outcomes(hours=1))

    rows = worker._bins.fold()

    whole = BinsStore(redis_client, 3600).hour("click", HOUR)
    assert rows == 900
    assert 900 < whole.total().total_count < 1800
    assert Damage(redis_client).counts()["bins"] == 1


def test_a_damaged_evaluation_is_made_again(worker, redis_client, clock):
    refitted(worker, redis_client, clock)
    refitted(worker, redis_client, clock)
    store = BinsStore(redis_client, 3600)
    before = store.window("click", HOUR, HOUR + 2, calibrated=True)
    redis_client.setrange(PLACE.calibrated, 20, b"junk")

    assert store.window("click", HOUR, HOUR + 2, calibrated=True) != before
    refitted(worker, redis_client, clock)

    assert store.window("click", HOUR, HOUR + 2, calibrated=True) == before
    assert Damage(redis_client).counts()["calibrated-bins"] == 1


@pytest.mark.parametrize("junk", [b"junk", b"\xff\xfe", b"2:00000000:400000:click", b"x:click"])
def test_odd_names_are_taken_out_and_what_they_stood_for_is_found(
    worker, redis_client, clock, junk
):
    for names in (keys.logs, keys.conversion_logs):
        redis_client.sadd(names(PLACE.shard), junk)
    redis_client.srem(keys.logs(PLACE.shard), PLACE.member)
    redis_client.zadd(keys.hours(PLACE.shard), {junk: 1e12})

    worker.step()
    worker._folded_at = 0
    worker.step()

    assert redis_client.exists(PLACE.log) == 0
    assert BinsStore(redis_client, 3600).hour("click", HOUR).total().total_count == 900
    assert Damage(redis_client).counts()["name"] >= 1
    assert junk in redis_client.lrange(keys.damaged(PLACE.shard), 0, -1)


@pytest.mark.parametrize(
    "every", [pytest.param(6, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
def test_a_worker_outlives_a_wrong_type_under_each_kind_of_key(
    worker, redis_client, redis_url, settings, clock, every
):
    assert refitted(worker, redis_client, clock).status == "done"
    worker._lease.release()
    stored = contents(redis_client)
    assert len(stored) > 30

    known = sorted([*stored, keys.lease("worker").encode(), keys.DAMAGE.encode()])
    one_of_each_kind = list({_kind(key): key for key in known}.values())
    for key in one_of_each_kind[::every]:
        redis_client.delete(key)
        if TYPES[_kind(key)] == b"hash":
            redis_client.rpush(key, "junk")
        else:
            redis_client.hset(key, "junk", "junk")
        assert _works(settings, redis_url, clock), key


def _kind(key):
    rest = key.decode().split("}:", 1)[1]
    return rest if rest in TYPES else rest.partition(":")[0] + ":"


def _works(settings, url, clock):
    """Whether a worker that begins now runs a job to its end."""
    stop = Event()
    with open_redis(url) as client, open_redis(url) as own:
        thread = Thread(target=Worker(settings, own, clock, "next").run, args=[stop])
        thread.start()
        try:
            return _finished(client, clock, thread)
        finally:
            stop.set()
            thread.join()


def _finished(client, clock, thread):
    job, watch = None, StoreWatch(client)
    for _ in range(600):
        try:
            job = job or Jobs(client).submit("refit", {"as_of": AS_OF}, clock())
            found = Jobs(client).get(job.id)
            if found is not None and found.status in ("done", "failed"):
                return found.status == "done"
            job = found and job
        except StorageUnavailable as error:
            watch.failed(error)
            watch.mend()
        thread.join(0.02)
        if not thread.is_alive():
            return False
    return False


def test_junk_in_counters_is_set_aside(redis_client):
    redis_client.set(keys.SEQUENCE, "junk")
    redis_client.set(keys.fence("worker"), "junk")
    redis_client.hset(keys.click_counters(3), mapping={"closed": "junk", "orphans": "3"})

    Inspection(redis_client, 0.0).run()

    assert not redis_client.exists(keys.SEQUENCE, keys.fence("worker"))
    assert redis_client.hgetall(keys.click_counters(3)) == {b"orphans": b"3"}
    assert Damage(redis_client).counts()["counter"] == 3


def test_a_counter_of_versions_that_went_back_goes_on_behind_those_kept(
    worker, redis_client, clock
):
    refitted(worker, redis_client, clock)
    newest = Versions(redis_client, 8).history()[0]["version"]
    redis_client.delete(keys.SEQUENCE)

    version = refitted(worker, redis_client, clock).result["version"]

    assert int(version[:6]) == int(newest[:6]) + 1


def test_a_job_whose_name_or_fields_are_damaged_fails_or_runs_but_never_hangs(
    worker, redis_client, clock
):
    jobs = Jobs(redis_client)
    lost, damaged = (jobs.submit("refit", {"as_of": AS_OF + n}, clock()) for n in range(2))
    redis_client.lset(keys.JOBS_QUEUED, 0, "00000q")
    redis_client.hset(keys.job(damaged.id), "request", '{"as_of": 1}x')

    for _ in range(4):
        worker._folded_at = 0
        worker.step()

    assert jobs.get(lost.id).status == "done"
    assert (jobs.get(damaged.id).status, jobs.get(damaged.id).error) == (
        "failed",
        "what was stored of it is damaged",
    )
