"""Progress of refits: seldom told, never in their way; cancelled ones publish nothing."""

import logging
from threading import Event

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.settings import Settings
from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.storage.versions import Versions
from app.worker.loop import LeaseKeeper, Worker
from app.worker.progress import PUBLISHING, JobCancelled, Progress, Step
from tests.worker.conftest import HOUR
from tests.worker.test_loop import wait_for


class Listener:
    """A store of jobs, one of which may be cancelled; and the clock of the test."""

    def __init__(self):
        self.seconds, self.told, self.cancelled, self.away = 0.0, [], False, False

    def advance(self, _, phase, done):
        if self.away:
            raise StorageUnavailable("away")
        self.told.append((phase, done))
        return self.cancelled

    def progress(self):
        progress = Progress(self, ("click",), lambda: None, clock=lambda: self.seconds)
        progress.job = "000001"
        return progress


def test_at_most_two_steps_a_second_are_told_and_the_last_before_publishing():
    listener = Listener()
    progress = listener.progress()
    for number in range(1000):
        listener.seconds = number / 100
        progress(Step("fitting click", number / 1000, "click", number / 1000))
    progress(Step(PUBLISHING, 0.95))

    assert 20 <= len(listener.told) <= 22
    assert listener.told[-1] == (PUBLISHING, 0.95)


def test_a_target_is_one_while_it_is_not_fitted_and_going_through_it_again_is_no_step_back():
    progress = Listener().progress()
    shares = []
    for share in (0.0, 0.5, 0.25):
        progress(Step("fitting click", share, "click", share))
        shares.append(progress.state["progress"]["click"])
    progress(Step(PUBLISHING, 0.95))

    assert (shares, progress.state["progress"]) == ([0.0, 0.5, 0.5], {"click": 1.0})


def test_a_store_that_is_away_ends_no_refit():
    listener = Listener()
    listener.away = True

    listener.progress()(Step("fitting click", 0.5))

    assert not listener.told


def test_a_long_refit_is_in_the_log(caplog):
    listener = Listener()
    progress = listener.progress()
    with caplog.at_level(logging.INFO):
        for seconds in range(20):
            listener.seconds = float(seconds)
            progress(Step("fitting click", seconds / 20))

    assert 3 <= len(caplog.messages) <= 4
    assert caplog.messages[-1] == "fitting click: 75 % done"


def test_a_cancelled_job_ends_where_it_is():
    listener = Listener()
    listener.cancelled = True

    with pytest.raises(JobCancelled):
        listener.progress()(Step("fitting click", 0.5))


def test_a_refit_that_is_cancelled_publishes_nothing_and_the_next_goes_well(
    worker, append_log, outcomes, redis_client, clock, monkeypatch
):
    append_log(outcomes(hours=2))
    jobs, versions = Jobs(redis_client), Versions(redis_client, 8)
    request, fold = {"as_of": (HOUR + 2) * SECONDS}, BinsStore.fold
    job = jobs.submit("refit", request, clock())
    clock.seconds = (HOUR - 0.5) * SECONDS

    with monkeypatch.context() as patched:
        patched.setattr(
            BinsStore,
            "fold",
            lambda bins, *shards: jobs.cancel(job.id, 1.0) and fold(bins, *shards),
        )
        worker.step()
    ended, published = jobs.get(job.id), versions.history()
    after = jobs.submit("refit", request, clock())
    worker.step()

    assert (ended.status, ended.error) == ("cancelled", None)
    assert all(entry["as_of"] < HOUR * SECONDS for entry in published)
    assert jobs.get(after.id).status == "done"
    assert Heartbeat(redis_client, 60).read()["failures"] == 0


def test_a_refit_tells_how_far_it_is(
    worker, append_log, outcomes, redis_client, clock, monkeypatch
):
    append_log(outcomes(hours=2))
    told = []
    monkeypatch.setattr(worker._refitter, "advance", told.append)
    Jobs(redis_client).submit("refit", {"as_of": (HOUR + 2) * SECONDS}, clock())
    clock.seconds = (HOUR - 0.5) * SECONDS
    worker.step()

    phases = list(dict.fromkeys(step.phase for step in told))
    fits = [step for step in told if step.target == "click"]
    assert phases[:3] == ["folding events", "evaluating hours", "fitting click"]
    assert phases[-1] == PUBLISHING
    assert {0.0, 15 / 16} <= {step.of_target for step in fits}
    assert all(0.0 <= step.done <= 1.0 for step in told)


def test_the_worker_gives_signs_of_life_while_a_step_takes_its_time(
    redis_client, clock, monkeypatch
):
    """From a thread of its own: here the refit says nothing until one more sign has come."""
    short = lambda lease, _, beat: LeaseKeeper(lease, 0.1, beat)  # noqa: E731
    monkeypatch.setattr("app.worker.loop.LeaseKeeper", short)
    worker = Worker(Settings(clock="event", lease_seconds=600), redis_client, clock, "test")
    Jobs(redis_client).submit("retrain", {"as_of": HOUR * SECONDS}, clock())
    heartbeat, fold, stop, seen = Heartbeat(redis_client, 60), BinsStore.fold, Event(), []

    def slow(bins, *shards):
        redis_client.delete(keys.HEARTBEAT)
        try:
            wait_for(heartbeat.read)
            seen.append(heartbeat.read()["phase"])
        finally:
            stop.set()
        return fold(bins, *shards)

    monkeypatch.setattr(BinsStore, "fold", slow)
    worker.run(stop)

    assert (seen[0], heartbeat.read()["phase"]) == ("folding events", "idle")
