"""The loop with delayed targets: daily trainings, jobs, and failures that stop nothing."""

from unittest.mock import Mock

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.batch import EventBatch
from app.storage.clicks import OpenClick
from app.storage.errors import StorageUnavailable
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.storage.versions import Versions
from app.worker.loop import Worker
from app.worker.schedule import TrainingSchedule
from app.worker.training import Lesson
from tests.click_log.rows import clicks_in
from tests.worker.delayed.click_world import DAY, MIDNIGHT, TARGET

AS_OF = MIDNIGHT + 4 * DAY
DELAY = 120.0


@pytest.fixture
def worker(redis_client, settings, clock, monkeypatch):
    clock.seconds = AS_OF + DELAY
    return started(redis_client, settings, clock)


def started(client, settings, clock):
    worker = Worker(settings, client, clock, "test")
    assert worker._lease.acquire()
    worker._delayed.cache._trial = lambda data: None
    return worker


def trained(models):
    return [(row["as_of"] - AS_OF) / DAY for row in reversed(models.history(TARGET))]


def state(client):
    return Heartbeat(client, 60).read()


def report(client):
    versions = Versions(client, 8)
    return versions.load(versions.current()).report["targets"][TARGET]


@pytest.mark.slow
def test_a_training_is_due_at_midnight_and_the_refit_learns_from_it(
    worker, logged, clock, models, redis_client
):
    clock.seconds = AS_OF + DELAY - 1
    worker.step()
    before = trained(models)
    clock.seconds += 1
    worker.step()

    assert (before, trained(models)) == ([-1], [-1, 0])
    found = report(redis_client)
    assert found["model"]["version"] == models.history(TARGET)[0]["version"]
    assert (found["source"], found["fitted_as_of"]) == ("model", AS_OF)
    assert state(redis_client)["trainings"] == 2


@pytest.mark.slow
def test_missed_midnights_are_made_up_for_by_the_newest(worker, logged, clock, models):
    clock.seconds = AS_OF - DAY - SECONDS
    worker.step()
    clock.seconds = AS_OF + DELAY
    worker.step()
    worker.step()

    assert trained(models) == [-2, 0]


@pytest.mark.slow
def test_nothing_is_trained_twice(worker, logged, redis_client, settings, clock, models):
    worker.step()
    worker._lease.release()

    started(redis_client, settings, clock).step()

    assert trained(models) == [0]


def test_an_idle_target_costs_nothing(worker, settings, models, redis_client, clock):
    worker.step()
    clock.seconds += 60
    worker.step()

    assert trained(models) == []
    assert list(settings.data_dir.iterdir()) == []
    assert report(redis_client) == {"source": "none"}
    assert state(redis_client)["training_failures"] == 0


def test_without_delayed_targets_nothing_is_told_of_them(redis_client, settings, clock):
    plain = settings.model_copy(update={"delayed_targets": (), "attribution_hours": {}})
    started(redis_client, plain, clock).step()

    versions = Versions(redis_client, 8)
    assert list(versions.load(versions.current()).report["targets"]) == ["click"]
    assert "clicks" not in state(redis_client)


@pytest.mark.slow
def test_a_training_that_fails_is_tried_again_and_stops_no_refit(
    worker, logged, clock, models, redis_client, monkeypatch
):
    """After pauses that grow to an hour."""

    def fail(*arguments):
        raise RuntimeError("out of luck")

    failures = []
    with monkeypatch.context() as broken:
        broken.setattr(Lesson, "_train", fail)
        for pause in (60, 120, 240, 480, 960, 1920, 3600, 3600):
            # At its end, and a second before the next one's.
            for seconds in (pause - 1, 1):
                worker.step()
                failures.append(worker._state["training_failures"])
                clock.seconds += seconds
    in_force = Versions(redis_client, 8).history()[0]["as_of"]
    worker.step()

    assert failures == [number for number in range(1, 9) for _ in range(2)]
    assert in_force == AS_OF + 3 * SECONDS
    assert trained(models) == [0]


def test_a_failed_training_is_left_alone_for_a_minute(worker, settings, models, clock):
    schedule = new_schedule(settings, models, worker, clock)
    first = list(schedule.due())
    schedule.failed(TARGET, AS_OF)
    at_once = list(schedule.due())
    clock.seconds += 60

    assert first == list(schedule.due()) == [(TARGET, AS_OF)]
    assert at_once == []


def test_a_training_that_takes_the_worker_down_is_given_up(settings, models, worker, clock):
    """Each worker that comes back finds how often it was begun."""
    begun = [list(new_schedule(settings, models, worker, clock).due()) for _ in range(5)]

    assert [len(due) for due in begun] == [1, 1, 1, 0, 0]


def test_a_store_that_is_away_amid_trainings_gives_nothing_up(worker, models, clock, monkeypatch):
    clock.seconds = AS_OF + DELAY
    with monkeypatch.context() as away:
        away.setattr(worker, "_train", Mock(side_effect=StorageUnavailable("a timeout")))
        for _ in range(5):
            with pytest.raises(StorageUnavailable):
                worker.step()

    assert models.attempt(TARGET, AS_OF) == 1


def test_workers_that_find_too_little_give_nothing_up(redis_client, settings, clock, models):
    """However often they are started again: nobody died of it."""
    clock.seconds = AS_OF + DELAY
    for _ in range(5):
        worker = started(redis_client, settings, clock)
        worker.step()
        worker._lease.release()

    assert models.attempt(TARGET, AS_OF) == 1
    assert worker._state["trainings"] == worker._state["training_failures"] == 0


def new_schedule(settings, models, worker, clock):
    return TrainingSchedule(settings, models, worker._delayed.cache, clock)


def test_in_event_time_nothing_is_trained(redis_client, settings, clock, models, logged):
    event = settings.model_copy(update={"clock": "event"})
    clock.seconds = AS_OF + DELAY
    started(redis_client, event, clock).step()

    assert trained(models) == []


@pytest.mark.slow
def test_a_job_trains_and_tells_what_came_of_it(redis_client, settings, clock, models, logged):
    two = settings.model_copy(update={"clock": "event", "delayed_targets": ("install", TARGET)})
    worker = started(redis_client, two, clock)
    jobs = Jobs(redis_client)
    job = jobs.submit("train", {"as_of": AS_OF}, clock())

    assert worker.step()

    done = jobs.get(job.id)
    assert done.status == "done", done.error
    assert done.result["targets"]["install"]["version"] is None
    assert done.result["targets"]["install"]["refused"].startswith("0 mature clicks")
    conversion = done.result["targets"][TARGET]
    assert conversion["version"] == models.history(TARGET)[0]["version"]
    assert (conversion["source"], conversion["refused"]) == ("model", None)
    assert conversion["clicks"] > conversion["conversions"] > 100


@pytest.mark.slow
def test_a_job_refits_a_delayed_target(redis_client, settings, clock, logged):
    worker = started(redis_client, settings.model_copy(update={"clock": "event"}), clock)
    jobs = Jobs(redis_client)
    training = jobs.submit("train", {"target": TARGET, "as_of": AS_OF}, clock())
    job = jobs.submit("retrain", {"target": TARGET, "as_of": AS_OF}, clock())

    worker.step()
    worker.step()

    result = jobs.get(job.id).result
    assert list(jobs.get(training.id).result["targets"]) == [TARGET]
    assert result["targets"][TARGET]["source"] == "model"
    assert result["targets"][TARGET]["fitted"] == 2


def test_clicks_are_closed_with_every_fold(worker, append, clock, log, redis_client):
    worker.step()
    batch = EventBatch()
    at = AS_OF - SECONDS
    batch.add_click(0, OpenClick("a", "big", at, {TARGET: 0.2}), opens=True)
    append(batch)
    clock.seconds = AS_OF + DELAY - 1
    worker.step()
    before = state(redis_client)["clicks"]["open"]
    clock.seconds += 1
    worker.step()

    assert before == 1
    assert state(redis_client)["clicks"]["open"] == 0
    assert clicks_in(log, TARGET, at, at + 1).click_ids.to_pylist() == ["a"]


def test_in_event_time_clicks_are_closed_by_jobs_only(redis_client, settings, clock, append, log):
    worker = started(redis_client, settings.model_copy(update={"clock": "event"}), clock)
    batch = EventBatch()
    at = AS_OF - SECONDS
    batch.add_click(0, OpenClick("a", "big", at, {TARGET: 0.2}), opens=True)
    append(batch)
    clock.seconds = 4e9
    worker.step()
    before = len(clicks_in(log, TARGET, at, at + 1))
    Jobs(redis_client).submit("retrain", {"as_of": AS_OF}, clock())
    worker.step()

    assert (before, len(clicks_in(log, TARGET, at, at + 1))) == (0, 1)


def test_a_click_log_that_is_away_ends_no_worker(redis_client, settings, clock, append):
    away = settings.model_copy(update={"click_log_url": "nowhere://at-all"})
    clock.seconds = AS_OF + DELAY
    worker = started(redis_client, away, clock)
    worker.step()
    clock.seconds += 60
    worker.step()

    found = state(redis_client)
    assert found["closing_failures"] == 2
    assert found["left_alone"] == 1
    assert found["training_failures"] >= 1
    assert Versions(redis_client, 8).history()[0]["as_of"] == AS_OF


def test_an_outage_of_the_click_log_is_told_in_lines(
    redis_client, settings, clock, append, tmp_path, caplog
):
    """Closings are tried every ten seconds: with a traceback of each, a night fills a disk."""
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    away = settings.model_copy(update={"click_log_url": str(in_the_way / "log")})
    worker = started(redis_client, away, clock)
    for _ in range(3):
        worker._close()
    in_the_way.unlink()
    worker._close()

    told = [(line.levelname, line.exc_info, line.message) for line in caplog.records]
    assert [(level, info) for level, info, _ in told] == [("WARNING", None)] * 2
    assert told[0][2].endswith("; trying again")
    assert told[1][2].startswith("the click log is back after")


@pytest.mark.slow
def test_old_clicks_are_settled_and_then_expire(worker, logged, clock, settings):
    clock.seconds = AS_OF + DELAY
    worker.step()
    settled = list((settings.data_dir / "click-log/clicks").rglob("settled-*"))
    clock.seconds = AS_OF + (settings.click_log_days - 2) * DAY + DELAY
    worker.step()

    kept = clicks_in(logged, TARGET, MIDNIGHT, MIDNIGHT + 9 * DAY).clicks.clicked_at
    assert len(settled) == 3 * 24
    assert kept.min() >= MIDNIGHT + 2 * DAY
    assert kept.max() < MIDNIGHT + 5 * DAY
