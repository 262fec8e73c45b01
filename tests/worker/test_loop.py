"""The loop: schedule, jobs, lease and failures, step by step with a clock of the test's own."""

import json
import logging
import os
import signal
import subprocess
import sys
from threading import Event, Thread
from time import monotonic, sleep
from types import SimpleNamespace

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.errors import LeaseLost, StorageUnavailable
from app.storage.jobs import Jobs
from app.storage.keys import SHARDS, TargetHour, shard_of
from app.storage.lease import Heartbeat, Lease
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker import loop, refit
from app.worker.loop import LEASE, Worker
from calibrators.maps import look_up
from calibrators.maps.look_up import LARGE, aligned_rows
from tests.worker.conftest import HOUR, Clock

HELD = "sirocco:{maps}:lease:worker"


def as_of_hours(redis_client):
    history = Versions(redis_client, 8).history()
    return [entry["as_of"] / SECONDS - HOUR for entry in reversed(history)]


def test_a_refit_is_due_its_delay_after_the_hour(worker, settings, clock, redis_client):
    clock.seconds = HOUR * SECONDS + settings.refit_delay_seconds - 1
    worker.step()
    before = as_of_hours(redis_client)
    clock.seconds += 1
    worker.step()

    assert (before, as_of_hours(redis_client)) == ([-1], [-1, 0])


@pytest.mark.slow
def test_missed_hours_are_caught_up_in_order(worker, clock, redis_client):
    clock.seconds = (HOUR + 0.5) * SECONDS
    worker.step()
    clock.seconds = (HOUR + 3.5) * SECONDS
    worker.step()

    assert as_of_hours(redis_client) == [0, 1, 2, 3]


def test_in_event_time_nothing_is_scheduled(new_worker, redis_client):
    worker = new_worker(clock="event")

    assert worker.step() is False
    assert as_of_hours(redis_client) == []


def test_a_job_is_run_and_tells_its_version(
    worker, redis_client, append_log, outcomes, clock, caplog
):
    caplog.set_level(logging.INFO)
    append_log(outcomes(hours=2))
    jobs = Jobs(redis_client)
    job = jobs.submit("refit", {"as_of": (HOUR + 2) * SECONDS}, clock())
    clock.seconds = (HOUR - 0.5) * SECONDS

    assert worker.step()

    done = jobs.get(job.id)
    assert done.status == "done"
    assert done.result["version"] in [e["version"] for e in Versions(redis_client, 8).history()]
    told = next(line for line in caplog.messages if line.startswith("published "))
    assert json.loads(told.partition(": ")[2]) == done.result["targets"]
    assert done.result["targets"]["click"]["fitted"] >= 1


def test_a_worker_keeps_no_room_for_the_tables_of_the_next_refit(worker, clock, redis_client):
    """It needs that once an hour, and has several versions in use."""
    in_use = [aligned_rows(LARGE, np.float64) for _ in range(3)]
    in_use.pop()
    assert look_up._spare
    Jobs(redis_client).submit("refit", {"as_of": HOUR * SECONDS}, clock())

    assert worker.step()

    assert not look_up._spare


def test_a_job_without_as_of_takes_the_newest_hour_of_events_in_event_time(
    new_worker, redis_client, clock, append_log, outcomes
):
    append_log(outcomes(hours=3))
    worker = new_worker(clock="event")
    job = Jobs(redis_client).submit("refit", {}, clock())

    worker.step()

    assert Jobs(redis_client).get(job.id).result["as_of"] == (HOUR + 3) * SECONDS


def test_ids_are_packed_once_a_minute_while_their_hour_goes_on(worker, clock, redis_client, append):
    batch = EventBatch()
    for number in range(2000):
        batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, f"e{number}")
    append(batch)
    log = TargetHour(shard_of("a"), "click", HOUR)

    clock.seconds = HOUR * SECONDS + 600
    worker.step()
    before = redis_client.hget(log.packed_ids, "ids")
    for number in range(2000):
        batch.add("click", HOUR, "a", 0.25, 1.0, 0.0, f"f{number}")
    append(batch)
    clock.seconds += 59
    worker.step()
    within = redis_client.hget(log.packed_ids, "ids")
    clock.seconds += 1
    worker.step()

    assert (before, within, redis_client.hget(log.packed_ids, "ids")) == (b"2000", b"2000", b"4000")


def test_a_job_that_fails_says_why_and_the_worker_goes_on(new_worker, redis_client, clock):
    worker = new_worker(clock="event")
    jobs = Jobs(redis_client)
    job = jobs.submit("refit", {}, clock())

    worker.step()

    failed = jobs.get(job.id)
    assert (failed.status, failed.error) == (
        "failed",
        "ValueError: as_of: there are no events yet, so there is nothing to refit as of",
    )
    assert worker.step() is False


def test_a_scheduled_refit_that_fails_keeps_the_version_and_waits_a_minute(
    worker, clock, redis_client, append_log, outcomes, monkeypatch
):
    """What is in force stays and the failure is counted."""
    clock.seconds = (HOUR + 1.5) * SECONDS
    worker.step()
    append_log(outcomes(hours=2))
    monkeypatch.delattr(refit, "refit_target")
    in_force = Versions(redis_client, 8).current()

    clock.seconds = (HOUR + 2.5) * SECONDS
    worker.step()
    worker.step()

    assert Versions(redis_client, 8).current() == in_force
    assert Heartbeat(redis_client, 60).read()["failures"] == 1


def test_a_refit_whose_lease_is_lost_is_no_failure(
    worker, clock, redis_client, append_log, outcomes
):
    clock.seconds = (HOUR + 1.5) * SECONDS
    worker.step()
    append_log(outcomes(hours=2))
    redis_client.delete(HELD)

    clock.seconds = (HOUR + 2.5) * SECONDS
    with pytest.raises(LeaseLost):
        worker.step()

    assert (worker._state["failures"], worker._state["consecutive_failures"]) == (0, 0)


def test_an_outage_is_told_when_it_begins_each_minute_and_when_it_ends(worker, monkeypatch, caplog):
    stop, turns = Event(), iter([True] * 4 + [False])

    def work(_):
        if next(turns):
            raise StorageUnavailable("away")
        stop.set()

    monkeypatch.setattr(worker, "_wait_and_work", work)
    monkeypatch.setattr(worker._outage, "_clock", iter([0.0, 1.0, 60.0, 61.0, 90.0]).__next__)
    monkeypatch.setattr(loop, "_AWAY_SECONDS", 0.0)

    worker.run(stop)

    told = [record.getMessage() for record in caplog.records]
    assert told == ["away; trying again"] * 2 + ["the store is back after 90 s"]


def test_events_are_folded_now_and_then_without_a_refit(
    worker, clock, redis_client, append_log, outcomes
):
    append_log(outcomes(hours=1))
    clock.seconds = HOUR * SECONDS - 1
    worker.step()

    assert BinsStore(redis_client, 60).hour("click", HOUR).total().total_count == 900


def test_who_waits_for_the_lease_folds_while_its_holder_refits(
    worker, settings, clock, redis_client, append_log, outcomes
):
    """A refit may take minutes: what comes meanwhile is folded, once, and it ends as usual."""
    append_log(outcomes(hours=1))
    begun, go_on = Event(), Event()

    def stand_still(step):
        if step.phase.startswith("fitting"):
            begun.set()
            go_on.wait(60)

    def folded():
        return BinsStore(redis_client, 60).hour("click", HOUR).total().total_count

    worker._refitter.advance = stand_still
    clock.seconds = (HOUR + 1.5) * SECONDS
    refit = Thread(target=worker.step)
    refit.start()
    try:
        assert begun.wait(60)
        append_log(outcomes(hours=1, seed=2))
        before, standby = folded(), Worker(settings, redis_client, clock, "standby")
        stop = Event()
        stop.set()
        standby._wait_and_work(stop)
        meanwhile = folded()
    finally:
        go_on.set()
        refit.join(60)

    assert (before, meanwhile) == (900, 1800)
    assert not refit.is_alive()
    assert as_of_hours(redis_client)[-1] == 1
    worker.step()
    assert folded() == 1800


def test_workers_fold_shares_that_are_everything_together(
    worker, settings, clock, redis_client, append_log, outcomes
):
    """Each of two has half of the shards, whichever of them works."""
    standby, wanted = Worker(settings, redis_client, clock, "standby"), Event()
    wanted.set()
    shares = [[], []]
    for number, one in enumerate((worker, standby)):
        one._bins.fold = lambda shards, of=shares[number]: of.append(shards) or 0
    for _ in range(2):
        clock.seconds += 1
        worker._fold_own_share()
        standby._wait_and_work(wanted)
    standby.run(wanted)
    clock.seconds += 1
    worker._fold_own_share()

    assert sorted([*shares[0][1], *shares[1][1]]) == [*range(SHARDS)]
    assert (len(shares[0][1]), len(shares[1][1])) == (SHARDS / 2, SHARDS / 2)
    assert len(shares[0][2]) == SHARDS


def test_a_store_that_is_away_is_waited_for(redis_client, settings, clock):
    """The worker neither ends nor spins while Redis refuses writes, and works when it is back."""
    worker = Worker(settings, redis_client, clock, "test")
    stop = Event()
    redis_client.config_set("maxmemory", "1")
    thread = Thread(target=worker.run, args=(stop,))
    thread.start()
    sleep(0.2)
    away = Versions(redis_client, 8).current()
    redis_client.config_set("maxmemory", "0")
    try:
        wait_for(lambda: Versions(redis_client, 8).current())
    finally:
        stop.set()
        thread.join(60)

    assert away is None
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_second_worker_takes_over_when_the_first_is_killed(redis_url, redis_client):
    """kill -9 releases nothing: the lease runs out, and the waiting worker goes on."""
    first = start_worker(redis_url, "Settings(lease_seconds=600)")
    try:
        wait_for(lambda: str(first.pid) in str(redis_client.get(HELD)))
        second = Lease(redis_client, LEASE, "second", 1)
        refused = [second.acquire()]
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        refused.append(second.acquire())
        redis_client.pexpire(HELD, 1)
        wait_for(second.acquire)
    finally:
        first.kill()
        first.wait()

    assert refused == [False, False]


def test_a_worker_that_is_stuck_ends_itself_and_says_where(redis_url, redis_client):
    """Its lease would be renewed for ever: it is the work that hangs, in C, say."""
    code = (
        "import ctypes, sys; from app.settings import Settings;"
        "from app.worker import loop, progress; progress.STUCK_SECONDS = 1.0;"
        "loop.Worker.step = lambda _: ctypes.PyDLL(None).sleep(600);"
        "loop.run_worker(Settings(), sys.argv[1])"
    )
    command = [sys.executable, "-c", code, redis_url]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=False)

    assert (ended.returncode, bool(redis_client.get(HELD))) == (1, True)
    assert "Timeout (0:00:01)!" in ended.stderr
    assert "in _wait_and_work" in ended.stderr


@pytest.mark.slow
def test_sigterm_ends_the_worker_and_gives_the_lease_back(redis_url, redis_client):
    process = start_worker(redis_url, "Settings()")
    try:
        wait_for(lambda: redis_client.get(HELD))
        process.terminate()
        code = process.wait(240)
    finally:
        process.kill()
        process.wait()

    assert code == 0
    assert redis_client.get(HELD) is None


def test_a_running_job_of_a_killed_worker_is_run_by_the_next(redis_url, redis_client, clock):
    jobs = Jobs(redis_client)
    job = jobs.submit("refit", {"as_of": HOUR * SECONDS}, clock())
    jobs.take(clock())
    stop = Event()
    thread = Thread(target=run_worker_until, args=(redis_url, stop))
    thread.start()
    try:
        wait_for(lambda: jobs.get(job.id).status == "done")
    finally:
        stop.set()
        thread.join(60)


def start_worker(redis_url, settings):
    code = (
        "import sys; from app.worker.loop import run_worker; from app.settings import Settings;"
        f"run_worker({settings}, sys.argv[1])"
    )
    return subprocess.Popen([sys.executable, "-c", code, redis_url])


def run_worker_until(redis_url, stop):
    with open_redis(redis_url) as client:
        Worker(Settings(clock="event"), client, lambda: HOUR * SECONDS, "next").run(stop)


def wait_for(happened, seconds=240.0):
    limit = monotonic() + seconds
    while not happened():
        assert monotonic() < limit, "it did not happen in time"
        sleep(0.02)


@pytest.mark.parametrize("jump", [1, -1, 24, -24])
def test_a_clock_that_jumps_publishes_no_hour_twice_and_misses_none_for_long(worker, clock, jump):
    """It jumps by hours, and is right again two hours later; it was right for a day before."""
    schedule, token, published = worker._schedule, worker._lease.token, []
    passed = Clock(0)
    schedule.monotonic = passed

    def pass_hours(number):
        published.clear()
        for _ in range(number):
            passed.seconds += SECONDS
            for as_of in schedule.due():
                report = {"targets": {"click": {"fitted_as_of": as_of}}}
                schedule.versions.publish(token, as_of, clock(), {}, report)
                schedule.done(as_of)
                published.append(as_of / SECONDS - HOUR)
            clock.seconds += SECONDS
        return published.copy()

    clock.seconds += SECONDS / 2
    before = pass_hours(30)
    clock.seconds += jump * SECONDS
    meanwhile = pass_hours(2)
    clock.seconds -= jump * SECONDS

    after = pass_hours(4)

    assert before == [*range(30)]
    assert after == [*range(int(after[0]), 36)]
    assert 30 <= after[0] <= 33
    assert not set(before) & set(meanwhile)


@pytest.mark.parametrize("jump", [1, -1, 24, -24])
def test_a_pause_after_a_failure_does_not_last_as_long_as_a_jump(worker, clock, jump):
    worker._schedule.failed()
    clock.seconds += jump * SECONDS

    assert worker._schedule.due()


@pytest.mark.parametrize(
    ("seconds", "rows", "paused"),
    [
        (0.4, 10, 0.0),
        (3.5, 3_000_000, 0.0),
        (2.5, 0, 18.0),
        (2.5, 1_000_000, 9.0),
        (60.0, 0, 120.0),
    ],
)
def test_folds_of_large_tables_take_a_tenth_of_the_time(worker, monkeypatch, seconds, rows, paused):
    """And those of many events whatever they need; the worker gives signs of life meanwhile."""
    at, folded = [1000.0], []

    def fold(_):
        folded.append(at[0])
        at[0] += seconds
        return rows

    monkeypatch.setattr("app.worker.loop.time", SimpleNamespace(monotonic=lambda: at[0]))
    monkeypatch.setattr(worker._bins, "fold", fold)
    for _ in range(200):
        worker._folded_at = 0.0
        assert worker._fold_own_share()
        at[0] += 1.0

    assert np.diff(folded) - seconds == pytest.approx(max(1.0, paused))


def test_counts_go_on_where_the_lease_changes_hands(redis_client, settings, clock):
    """Failures of who held it before are neither forgotten nor counted again."""
    counted = {"failures": 3, "consecutive_failures": 2, "left_alone": 4}
    counted |= {"guard": {"kept": 5}, "pushes": {"click": 2}}
    delayed = {"refused_models": 1, "damaged_parts": 6}
    heartbeat = Heartbeat(redis_client, 60)
    heartbeat.write({"at": 1.0, **counted, **delayed})
    settings = settings.model_copy(update={"delayed_targets": ("conversion",)})
    worker, stop = Worker(settings, redis_client, clock, "next"), Event()
    stop.set()

    worker._wait_and_work(stop)
    worker._beat_again()
    at_once = heartbeat.read()
    worker._beat()

    # A count that fell for a moment would look like new failures behind it.
    assert at_once.items() >= counted.items()
    assert heartbeat.read().items() >= {**counted, **delayed}.items()
    assert Lease(redis_client, "worker", "another", 60).acquire()
