"""Refits that wait for approval: what is published meanwhile, and what becomes of them."""

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage import keys
from app.storage.errors import LeaseLost, NewerVersion
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat, Lease
from app.storage.overrides import FrozenTargets
from app.storage.versions import Versions, pack_manifest
from app.worker.loop import Worker
from calibrators import Atlas
from evaluation import EventTable
from tests.worker.conftest import HOUR


@pytest.fixture
def worker(new_worker):
    return new_worker(guard=True, clock="event", delayed_targets=())


@pytest.fixture
def run(worker, redis_client, clock):
    """Runs a job to its end."""
    jobs = Jobs(redis_client)

    def to_its_end(kind, **request):
        job = jobs.submit(kind, request, clock())
        while jobs.get(job.id).finished_at is None:
            worker.step()
        done = jobs.get(job.id)
        return done.result or done.error

    return to_its_end


@pytest.fixture
def refit(run):
    return lambda hour, **request: run("retrain", as_of=hour * SECONDS, **request)


def test_a_refit_that_finds_the_events_gone_is_held_and_can_be_approved(
    refit, run, append_log, outcomes, redis_client
):
    append_log(outcomes(hours=4))
    good = refit(HOUR + 4)
    for key in redis_client.scan_iter("sirocco:{*}:bins:*"):
        redis_client.delete(key)
    versions = Versions(redis_client, 8)

    held = refit(HOUR + 5)

    assert (held["version"], versions.current()) == (None, good["version"])
    assert held["held"]["reasons"] == {"click": "no-maps"}
    assert Heartbeat(redis_client, 60).read()["held"]["version"] == held["held"]["version"]
    approved = run("approve", version=held["held"]["version"])
    assert versions.current() == approved["version"] != good["version"]
    assert approved["approved"] == held["held"]["version"]
    assert (versions.held(), Heartbeat(redis_client, 60).read()["held"]) == (None, None)
    assert not redis_client.exists(keys.version(held["held"]["version"]))


def test_a_store_that_was_emptied_is_no_fresh_one(refit, append_log, outcomes, redis_client):
    """The counter of versions is gone, too; the worker remembers that there was one."""
    append_log(outcomes(hours=4))
    refit(HOUR + 4)
    redis_client.flushall()
    assert Lease(redis_client, "worker", "test", 600).acquire()

    held = refit(HOUR + 5)

    assert (held["version"], held["held"]["reasons"]) == (None, {"click": "store-emptied"})
    assert Versions(redis_client, 8).current() is None


@pytest.mark.parametrize("newer_part", ["atlas", "manifest"])
@pytest.mark.parametrize("frozen", [(), ("click",)])
def test_a_store_of_a_newer_release_is_no_fresh_one(
    newer_part, frozen, refit, run, append_log, outcomes, redis_client, worker
):
    """A worker from before it reads no version: what is frozen would get no map at all."""
    append_log(outcomes(hours=4))
    newer = Atlas.empty().to_bytes()
    if newer_part == "atlas":
        newer = newer.replace(b"SATL\x01\x00", b"SATL\xff\x00", 1)
    versions, token = worker._versions, worker._lease.token
    in_force = versions.publish(token, HOUR * SECONDS, 1.0, {"click": newer}, {})
    if newer_part == "manifest":
        manifest = pack_manifest({**versions.manifest(in_force), "schema_version": 2})
        redis_client.hset(keys.version(in_force), "manifest", manifest)
        with pytest.raises(NewerVersion, match="is of a newer release: only schema_version 1 is"):
            versions.load(in_force)
    FrozenTargets(redis_client).freeze(frozen, 2.0)

    held = refit(HOUR + 4)

    assert (held["version"], held["held"]["reasons"]) == (None, {"click": "versions-unreadable"})
    assert versions.current() == in_force
    run("approve", version=held["held"]["version"])
    assert (versions.current() == in_force) is bool(frozen)
    versions.publish(token, HOUR * SECONDS, 2.0, {"click": Atlas.empty().to_bytes()}, {}, ())
    assert (refit(HOUR + 4)["held"], versions.held()) == (None, None)


def test_a_refit_as_of_long_ago_is_held(refit, append_log, outcomes):
    append_log(outcomes(hours=6))
    refit(HOUR + 6)

    before = refit(HOUR + 1)
    within = refit(HOUR + 2)
    empty = refit(HOUR - 6)

    assert (within["held"], before["held"]["reasons"]) == (None, {"click": "of-the-past"})
    assert empty["held"]["reasons"] == {"click": "no-maps"}


@pytest.mark.slow
def test_a_refit_that_moves_far_is_held_until_one_is_usual_again(
    refit, append_log, outcomes, redis_client
):
    """Every map is a factor of three away, more than in any hour before."""
    log = outcomes(hours=12, per_hour=3000)
    wrong = log.hours == HOUR + 8
    more = np.random.default_rng(2).random(len(log.scores)) < 20 * log.scores
    found = np.where(wrong, more, log.outcomes)
    append_log(EventTable(log.times, log.campaigns, log.rows, log.scores, found, None))
    usual = [refit(hour) for hour in range(HOUR + 4, HOUR + 9)]

    broken = refit(HOUR + 9)

    assert [result["held"] for result in usual] == [None] * 5
    assert (broken["version"], broken["held"]["reasons"]) == (None, {"click": "moved-far"})
    again = refit(HOUR + 13)
    assert (again["held"], Versions(redis_client, 8).held()) == (None, None)


def test_what_is_rejected_is_gone(refit, run, append_log, outcomes, redis_client):
    append_log(outcomes(hours=6))
    refit(HOUR + 6)
    held = refit(HOUR + 1)["held"]["version"]

    rejected = run("reject", version=held)

    assert (rejected["rejected"], Versions(redis_client, 8).held()) == (held, None)
    assert run("approve", version=held) == f"UnknownVersion: version '{held}' is not kept"
    assert not redis_client.exists(keys.version(held))


@pytest.mark.parametrize("junk", [b"", b"junk", b"x" * 40])
def test_junk_in_the_place_of_what_is_held_is_nothing(redis_client, junk):
    redis_client.set(keys.HELD, junk)

    assert Versions(redis_client, 8).held() is None


def test_a_held_hour_is_not_refitted_again(new_worker, redis_client, clock, append_log, outcomes):
    worker = new_worker(guard=True, delayed_targets=())
    append_log(outcomes(hours=4))
    clock.seconds = (HOUR + 4.5) * SECONDS
    worker.step()
    for key in redis_client.scan_iter("sirocco:{*}:bins:*"):
        redis_client.delete(key)

    clock.seconds = (HOUR + 5.5) * SECONDS
    first, second = worker.step(), worker.step()

    versions = Versions(redis_client, 8)
    assert (first, second) == (True, False)
    assert versions.held()["as_of"] == (HOUR + 5) * SECONDS
    versions.reject()
    later = Worker(worker._settings, redis_client, clock, "test")
    later._lease = worker._lease
    assert (later.step(), versions.held()) == (False, None)


def test_who_has_lost_the_lease_holds_nothing(redis_client, worker):
    versions, token = worker._versions, worker._lease.token
    held = versions.hold(token, 2.0, 3.0, {}, {}, {"reasons": {}})
    worker._lease.release()

    with pytest.raises(LeaseLost):
        versions.hold(token, 1.0, 3.0, {}, {}, {"reasons": {}})

    assert versions.held()["version"] == held


def test_after_a_damaged_version_the_newest_whole_one_is_compared_with(
    refit, append_log, outcomes, redis_client, worker
):
    """It is no first refit, whatever it finds."""
    append_log(outcomes(hours=5))
    refit(HOUR + 4)
    damaged = refit(HOUR + 5)["version"]
    redis_client.hset(keys.version(damaged), "click:0", b"damaged")
    for key in redis_client.scan_iter("sirocco:{*}:bins:*"):
        redis_client.delete(key)
    worker._refitter.cache._held.clear()

    assert refit(HOUR + 6)["held"]["reasons"] == {"click": "no-maps"}
