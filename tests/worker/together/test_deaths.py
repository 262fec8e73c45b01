"""Workers that refit together, one of which goes, dies, or tells what nobody can read: the maps are
those of one worker alone, and it only costs time."""

import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from threading import Event
from typing import Any

import pytest

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.jobs import Jobs
from app.storage.keys import JOINT_REFIT, SHARDS, joint_refit, lease, seal
from app.storage.lease import PLACES, JointRefits, Lease, Member, ShardShare
from app.storage.versions import Versions
from app.worker import loop
from app.worker.fitting import ReadBlocks, StoredHistory
from app.worker.monitoring import RawWindow, TargetReport
from app.worker.progress import JobCancelled
from app.worker.together import StorePeers, Together
from calibrators.peers import NotDivided
from calibrators.pooled import method
from tests.worker.together.conftest import (
    HOURS,
    JOINED,
    NEWEST,
    TARGET,
    alone_on_stored,
    history_of,
    refit,
    told,
)


def test_who_is_called_to_a_refit_that_is_cancelled_goes(stored, workers):
    first, helper = workers.worker("first"), workers.worker("second")

    def cancelled(share: float) -> None:
        if share > 0.1:
            raise JobCancelled("000001")

    bins = first.bins.history(TARGET, NEWEST - HOURS + 1, NEWEST + 1, cancelled)
    history = StoredHistory(NEWEST + 1.0, ReadBlocks(bins, RawWindow.none()))
    with ThreadPoolExecutor(1) as pool:
        helping = pool.submit(lambda: any(iter(helper.help, None)))
        with pytest.raises(JobCancelled):
            first.methods.refit("pooled", TARGET, history, True)
        assert helping.result(timeout=60)


def test_one_that_is_done_before_the_others_has_not_gone(stored, workers, monkeypatch, caplog):
    """It gives back its place while the slowest still has something to tell."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    window, scores = RawWindow(range(NEWEST - 2, NEWEST + 1), 20), TargetReport.scores

    def slow_at_the_last(self, target, window, shards):
        if shards.stop == SHARDS:
            time.sleep(1.0)
        return scores(self, target, window, shards)

    monkeypatch.setattr(TargetReport, "scores", slow_at_the_last)
    with workers.helping(helpers):
        first.refit(TARGET, "sir", history_of(first, window), None, True)

    assert window.complete
    assert "begins anew" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 11])
def test_one_that_dies_at_any_step_is_done_without(stored, workers, monkeypatch, step):
    """Its lease runs out, the others notice, and begin anew."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected, gather, died = alone_on_stored(workers), StorePeers.gather, Event()

    def dying(self, parts, to_first=False):
        if self.place == 2 and self.step == step and not died.is_set():
            died.set()
            helpers[0].client.delete(lease(PLACES[0]), lease(PLACES[1]))
            raise SystemError("killed")
        return gather(self, parts, to_first)

    monkeypatch.setattr(StorePeers, "gather", dying)
    with workers.helping(helpers):
        assert told(refit(first)) == expected
    assert died.is_set()


def test_the_place_of_a_dead_one_is_not_waited_for(stored, workers, caplog):
    """It holds its lease for some time still."""
    first, helper = workers.worker("first"), workers.worker("second")
    expected = alone_on_stored(workers, "sir")
    Lease(stored, PLACES[0], "dead", 600.0).acquire()

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first, "sir")) == expected
    assert "click is refitted by 2 workers" in caplog.text
    assert "begins anew" not in caplog.text


@pytest.mark.parametrize(
    "text", [b"junk", b"\xff", seal("{}", JOINT_REFIT).encode(), seal("[1]", "elsewhere").encode()]
)
def test_a_call_that_nobody_can_read_is_none(redis_client, text):
    redis_client.set(JOINT_REFIT, text)
    assert JointRefits(redis_client).called() is None


def test_who_has_lost_its_lease_is_gone(redis_client):
    own = Lease(redis_client, PLACES[0], "second", 60.0)
    own.acquire()
    member = Member(PLACES[0], own.token.value)
    refits = JointRefits(redis_client)

    assert refits.came() == [member]
    assert refits.gone([member]) == []
    assert refits.gone([member._replace(token="0:other")]) == [member._replace(token="0:other")]
    own.release()
    assert refits.gone([member]) == [member]


def test_places_that_nobody_can_read_leave_it_to_one(redis_client):
    redis_client.hset(joint_refit("refit", 3), mapping={"0": b"", "1": b""})
    assert JointRefits(redis_client).reporters("refit", 3) == {0, 1}

    redis_client.hset(joint_refit("refit", 3), "q", b"")
    with pytest.raises(NotDivided, match="damaged"):
        JointRefits(redis_client).reporters("refit", 3)


@pytest.mark.slow
def test_damaged_messages_leave_it_to_one(stored, workers, monkeypatch, caplog):
    first, helper = workers.worker("first"), workers.worker("second")
    expected, report = alone_on_stored(workers), JointRefits.report

    def damaging(self, refit, step, place, parts):
        if place and step == 5:
            stored.hset(joint_refit(refit, step), str(place), b"junk")
        else:
            report(self, refit, step, place, parts)

    monkeypatch.setattr(JointRefits, "report", damaging)
    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first)) == expected
    assert "is refitted by one worker: what a worker has told is damaged" in caplog.text


@pytest.mark.slow
def test_whatever_a_helper_breaks_on_ends_neither(stored, workers, monkeypatch, caplog):
    """It is tried three times, and then done by one."""
    first, helper = workers.worker("first"), workers.worker("second")
    expected, gather = alone_on_stored(workers), StorePeers.gather

    def breaking(self, parts, to_first=False):
        if self.place and self.step == 2:
            raise ZeroDivisionError("of the helper")
        return gather(self, parts, to_first)

    monkeypatch.setattr(StorePeers, "gather", breaking)
    with workers.helping([helper]):
        assert told(refit(first)) == expected
    assert caplog.text.count("begins anew: of the helper") == 3
    assert "helping with click failed" in caplog.text


LATEST = NEWEST * SECONDS_PER_HOUR + SECONDS_PER_HOUR


def run_in_process(settings: Settings, url: str) -> None:
    """A worker to which hundreds of campaigns are many."""
    method._JOINED = JOINED
    loop.Together = partial(Together, worth_it=JOINED)
    loop.run_worker(settings, url)


@contextmanager
def processes(settings: Settings, url: str, count: int) -> Iterator[None]:
    """Real workers."""
    context = get_context("spawn")
    running = [context.Process(target=run_in_process, args=(settings, url)) for _ in range(count)]
    for each in running:
        each.start()
    try:
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.join()


def await_that(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.002)


def steps_taken(client: Any, refit: str) -> int:
    """The newest step of a refit of which anybody has told something."""
    keys = client.keys(f"sirocco:{{maps}}:joint_refit:{refit}:*")
    return max((int(key.rpartition(b":")[2]) for key in keys), default=-1)


def digest_after_a_kill(client: Any, workers: int, seed: int) -> bytes:
    """Of the maps that these publish, one of whom, the first or a helper, is killed at a moment
    that the seed draws."""
    rng, refits, jobs = random.Random(seed), JointRefits(client), Jobs(client)
    share = ShardShare(client, "folds", "test", 1.0)
    await_that(lambda: share.others() >= workers - 1 and bool(client.exists(lease("worker"))))
    job = jobs.submit("retrain", {"as_of": float(LATEST)}, time.time())
    await_that(lambda: (call := refits.called()) is not None and bool(call.members))
    call, step = refits.called(), rng.randrange(200)
    await_that(lambda: steps_taken(client, call.id) >= step)
    holder = rng.choice(call.members).token.rpartition("-")[2]
    os.kill(int(holder), signal.SIGKILL)
    assert jobs.get(job.id).status == "running"
    await_that(lambda: jobs.get(job.id).status in ("done", "failed"))
    assert jobs.get(job.id).error is None
    versions = Versions(client, 3)
    return versions.load(versions.current()).atlases[TARGET]


@pytest.mark.slow
def test_maps_are_the_same_whoever_is_killed(stored, redis_url, settings, workers):
    """Real workers, SIGKILL at a step that is drawn, of one of four and then of one of the rest."""
    expected = alone_on_stored(workers)[0]

    with processes(settings, redis_url, 4):
        for count, seed in ((4, 1), (3, 2)):
            assert digest_after_a_kill(stored, count, seed) == expected
