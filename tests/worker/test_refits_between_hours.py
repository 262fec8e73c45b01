"""Refits every few minutes: when they are due, and what they leave to the whole hours."""

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.versions import Versions
from app.worker.loop import Worker
from app.worker.monitoring import PrequentialEvaluation, TargetReport, carried_over
from tests.worker.conftest import HOUR

MINUTE = 60


@pytest.fixture
def worker(new_worker):
    return new_worker(refit_minutes=15)


def refit_minutes(redis_client):
    """As of which minutes after HOUR the versions are, oldest first."""
    history = Versions(redis_client, 24).history()
    return [entry["as_of"] / MINUTE - HOUR * MINUTE for entry in reversed(history)]


def at(clock, minute):
    clock.seconds = HOUR * SECONDS + minute * MINUTE


def reports(redis_client):
    versions = Versions(redis_client, 24)
    history = reversed(versions.history())
    return [versions.load(entry["version"]).report["targets"]["click"] for entry in history]


def test_they_are_due_at_the_same_minutes_of_every_hour(worker, clock, redis_client):
    """Whole hours wait for late events, moments between them do not."""
    for minute in (2, 14.9, 15, 29, 44, 50, 59, 61.9, 62, 75):
        at(clock, minute)
        worker.step()
        worker.step()

    assert refit_minutes(redis_client) == [0, 15, 30, 45, 60, 75]


def test_of_the_moments_that_were_missed_between_hours_the_newest_is_made_up_for(
    worker, clock, redis_client
):
    """Hours are judged one by one; a refit every few minutes of a day would be a flood."""
    at(clock, 2)
    worker.step()
    at(clock, 3 * 60 + 50)
    worker.step()
    worker.step()

    assert refit_minutes(redis_client) == [0, 60, 120, 180, 225]


def test_a_wait_for_late_events_never_outlasts_the_pause_between_refits(
    new_worker, redis_client, clock
):
    worker = new_worker(refit_minutes=1)
    for minute in (1, 2, 2.5, 3):
        at(clock, minute)
        worker.step()

    assert refit_minutes(redis_client) == [0, 1, 2, 3]


def test_they_learn_from_what_the_hour_has_so_far(
    worker, clock, redis_client, append_log, outcomes
):
    append_log(outcomes(hours=1))
    at(clock, 15)
    worker.step()

    assert [report["fitted"] for report in reports(redis_client)] == [0, 2]


def test_an_hour_is_judged_by_what_served_when_it_began(
    worker, clock, redis_client, append_log, outcomes, monkeypatch
):
    """However many refits came since: they have seen a part of it."""
    judged = []

    def judge(self, target, name, hour, in_force):
        judged.append((hour - HOUR, len(in_force)))
        original(self, target, name, hour, in_force)

    original = PrequentialEvaluation._bin
    monkeypatch.setattr(PrequentialEvaluation, "_bin", judge)
    append_log(outcomes(hours=2))
    for minute in (2, *range(15, 60, 15), 62, *range(75, 120, 15), 122):
        at(clock, minute)
        worker.step()

    # At first nothing serves; by the second hour's beginning maps of the first hour do.
    assert judged[-2:] == [(0, 0), (1, 2)]


def test_hours_are_judged_by_the_refits_of_whole_hours(
    worker, clock, append_log, outcomes, monkeypatch
):
    """Once when they close and once more an hour later, not every few minutes."""
    judged, original = [], PrequentialEvaluation._bin

    def judge(self, target, name, hour, in_force):
        judged.append(hour - HOUR)
        original(self, target, name, hour, in_force)

    append_log(outcomes(hours=2))
    at(clock, 2)
    worker.step()
    monkeypatch.setattr(PrequentialEvaluation, "_bin", judge)
    for minute in (15, 30, 62, 75, 90, 122, 135):
        at(clock, minute)
        worker.step()

    assert judged == [-1, 0, 0, 1]


def test_the_report_of_hours_that_closed_before_is_not_made_again(
    worker, clock, redis_client, append_log, outcomes, monkeypatch
):
    append_log(outcomes(hours=1))
    at(clock, 62)
    worker.step()
    monkeypatch.setattr(TargetReport, "of", lambda *_: pytest.fail("made again"))
    at(clock, 75)
    worker.step()

    of_hour, between = reports(redis_client)[-2:]
    for name in ("hour", "window", "judged_until"):
        assert between[name] == of_hour[name]
    assert of_hour["hour"]["raw"]["n"] == 900


def test_hours_of_them_do_not_drop_what_the_hours_are_judged_by(new_worker, redis_client, clock):
    """Six versions are kept, twelve an hour are published."""
    worker = new_worker(refit_minutes=5, versions_kept=6)
    for minute in (2, *range(5, 60, 5), 62, *range(65, 120, 5), 122):
        at(clock, minute)
        worker.step()

    assert {0, 60, 120} <= set(refit_minutes(redis_client))
    assert len(refit_minutes(redis_client)) == 6


def test_a_worker_that_gets_the_lease_begins_anew(redis_client, settings, clock):
    """Another one may have refitted meanwhile."""
    worker = Worker(settings, redis_client, clock, "test")
    worker._refitter.methods._memories["click", "pooled"] = object()
    assert worker._lease.acquire()
    worker._lease.release()

    class Stopped:
        def is_set(self):
            return True

    worker._wait_and_work(Stopped())

    assert worker._refitter.methods._memories == {}


def test_a_report_of_other_hours_or_of_none_is_not_repeated():
    closed = {"judged_until": 7.0 * SECONDS, "hour": {}, "window": {}, "top": [], "bounds": {}}
    before = {**closed, "fitted": 3}

    assert carried_over(before, closed=8) is carried_over({}, closed=8) is None
    assert carried_over(before, closed=7) == closed
