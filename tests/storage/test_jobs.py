"""Jobs: in order, one at a time for the same request, bounded, never lost by a dead worker."""

import pytest

from app.storage.errors import QueueFull
from app.storage.jobs import LIFE_SECONDS, Job, Jobs
from app.storage.keys import JOBS_QUEUED, JOBS_RUNNING, JOBS_SAME
from app.storage.keys import job as key_of

REQUEST = {"target": "click", "as_of": 3600.0}


@pytest.fixture
def jobs(redis_client) -> Jobs:
    return Jobs(redis_client, limit=3)


def take(jobs: Jobs, now: float = 20.0) -> Job:
    job = jobs.take(now)
    assert job is not None
    return job


def test_a_job_is_queued_taken_and_done(jobs):
    queued = jobs.submit("retrain", REQUEST, 10.5)
    assert queued == Job("000001", "retrain", REQUEST, "queued", 10.5)
    assert jobs.get(queued.id) == queued

    running = take(jobs, 20.5)
    assert running == Job("000001", "retrain", REQUEST, "running", 10.5, 20.5)

    assert jobs.finish(running.id, 30.5, result={"version": "000001-aa"})
    assert jobs.get(running.id) == Job(
        "000001", "retrain", REQUEST, "done", 10.5, 20.5, 30.5, {"version": "000001-aa"}
    )


@pytest.mark.parametrize(
    ("error", "status"), [("no events: größe", "failed"), (None, "done")], ids=["failed", "done"]
)
def test_a_job_that_failed_says_why_and_one_may_be_done_without_a_result(jobs, error, status):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    jobs.finish(job.id, 30.0, error=error)

    assert jobs.get(job.id) == Job(
        job.id, "retrain", REQUEST, status, 10.0, 20.0, 30.0, error=error
    )


def test_an_unknown_job_is_none(jobs):
    assert jobs.get("000099") is None
    assert jobs.take(1.0) is None


def test_the_oldest_job_comes_first(jobs):
    ids = [jobs.submit("retrain", {"as_of": number}, 10.0).id for number in range(3)]
    assert [take(jobs).id for _ in range(3)] == ids
    assert jobs.take(20.0) is None


def test_who_asks_for_what_already_waits_gets_the_job_that_waits(jobs):
    """Single flight: a hundred clicks on one button are one job."""
    first = jobs.submit("retrain", {"a": 1, "b": 2}, 10.0)
    again = [jobs.submit("retrain", {"b": 2, "a": 1}, 11.0) for _ in range(100)]

    assert again == [first] * 100
    assert take(jobs).id == first.id
    assert jobs.take(20.0) is None


@pytest.mark.parametrize(("kind", "request_"), [("replay", REQUEST), ("retrain", {})])
def test_another_kind_or_request_is_another_job(kind, request_, jobs):
    first = jobs.submit("retrain", REQUEST, 10.0)
    assert jobs.submit(kind, request_, 10.0).id != first.id


@pytest.mark.parametrize("requeued", [False, True])
def test_a_running_job_stands_for_no_new_request_until_it_is_queued_again(jobs, requeued):
    """It may have read its events before the request came."""
    first = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    if requeued:
        jobs.requeue_running()

    assert (jobs.submit("retrain", REQUEST, 11.0).id == first.id) is requeued


def test_the_queue_is_bounded(jobs):
    waiting = [jobs.submit("retrain", {"as_of": number}, 10.0) for number in range(3)]
    with pytest.raises(QueueFull, match="3 jobs are waiting already"):
        jobs.submit("retrain", {"as_of": 3}, 10.0)
    assert jobs.submit("retrain", {"as_of": 1}, 10.0) == waiting[1], "it waits already"

    take(jobs)

    assert jobs.submit("retrain", {"as_of": 3}, 10.0).status == "queued"


def test_a_job_is_finished_once(jobs):
    """The second worker to finish it must not change what the first one said."""
    job = jobs.submit("retrain", REQUEST, 10.0)
    assert not jobs.finish(job.id, 30.0), "it is not running"
    take(jobs)

    assert jobs.finish(job.id, 30.0, result={})
    assert not jobs.finish(job.id, 40.0, error="too late")

    done = jobs.get(job.id)
    assert (done.status, done.finished_at, done.error) == ("done", 30.0, None)


def test_what_a_dead_worker_ran_is_queued_again_and_first(jobs):
    ids = [jobs.submit("retrain", {"as_of": number}, 10.0).id for number in range(3)]
    take(jobs), take(jobs)

    assert jobs.requeue_running() == 2

    requeued = jobs.get(ids[0])
    assert (requeued.status, requeued.started_at) == ("queued", None)
    assert [take(jobs, 50.0).id for _ in range(3)] == ids
    assert jobs.requeue_running() == 3


def test_nothing_to_requeue_is_fine(jobs):
    jobs.submit("retrain", REQUEST, 10.0)
    assert jobs.requeue_running() == 0


def test_a_job_that_waits_stands_for_its_request_though_an_older_equal_one_was_taken(jobs):
    old = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    new = jobs.submit("retrain", REQUEST, 11.0)
    jobs.requeue_running()
    assert take(jobs).id == old.id

    assert jobs.submit("retrain", REQUEST, 12.0).id == new.id

    assert take(jobs).id == new.id
    assert jobs.take(20.0) is None


def test_a_dead_worker_cannot_finish_what_was_queued_again(jobs):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    jobs.requeue_running()

    assert not jobs.finish(job.id, 30.0, result={})


def test_a_job_lives_for_a_day(jobs, redis_client):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    jobs.finish(job.id, 30.0)
    assert LIFE_SECONDS - 60 < redis_client.ttl(key_of(job.id)) <= LIFE_SECONDS


def test_jobs_that_expired_while_they_waited_are_passed_over(jobs, redis_client):
    expired, alive, forgotten = (
        jobs.submit("retrain", {"as_of": number}, 10.0) for number in range(3)
    )
    redis_client.delete(key_of(expired.id), key_of(forgotten.id))
    assert take(jobs).id == alive.id

    assert jobs.submit("retrain", {"as_of": 0}, 11.0).id != expired.id

    assert take(jobs).request == {"as_of": 0}
    assert jobs.take(20.0) is None
    assert not redis_client.exists(JOBS_QUEUED, JOBS_SAME), "nothing of them is left"


def test_jobs_that_expired_while_they_ran_are_over(jobs, redis_client):
    for number in range(2):
        jobs.submit("retrain", {"as_of": number}, 10.0)
    ended, requeued = take(jobs), take(jobs)
    redis_client.delete(key_of(ended.id), key_of(requeued.id))

    assert not jobs.finish(ended.id, 30.0, result={})
    assert jobs.requeue_running() == 0

    assert not redis_client.exists(JOBS_QUEUED, JOBS_RUNNING, key_of(ended.id))


def test_a_job_that_waits_is_cancelled_at_once(jobs, redis_client):
    job = jobs.submit("retrain", REQUEST, 10.0)

    cancelled, again = jobs.cancel(job.id, 20.0), jobs.cancel(job.id, 30.0)

    assert cancelled == again == Job(job.id, "retrain", REQUEST, "cancelled", 10.0, None, 20.0)
    assert jobs.take(40.0) is None
    assert not redis_client.exists(JOBS_QUEUED, JOBS_SAME)
    assert jobs.submit("retrain", REQUEST, 50.0).id != job.id


def test_a_job_that_runs_is_told_at_its_next_step(jobs):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)

    before = jobs.advance(job.id, "fitting click", 0.25)
    running, _ = jobs.cancel(job.id, 30.0), jobs.cancel(job.id, 31.0)

    assert (before, jobs.advance(job.id, "fitting click", 0.5)) == (False, True)
    assert (running.status, running.fraction) == ("running", 0.25)
    assert running.cancel_requested_at == 30.0
    assert jobs.finish(job.id, 40.0, cancelled=True)
    ended = jobs.get(job.id)
    assert (ended.status, ended.finished_at, ended.progress) == ("cancelled", 40.0, None)


def test_what_has_finished_or_is_unknown_is_not_cancelled(jobs):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    jobs.finish(job.id, 30.0)

    assert jobs.cancel(job.id, 40.0) == jobs.get(job.id)
    assert jobs.cancel("999999", 40.0) is None


def test_a_cancelled_job_whose_worker_died_is_still_cancelled(jobs):
    job = jobs.submit("retrain", REQUEST, 10.0)
    take(jobs)
    jobs.cancel(job.id, 20.0)
    jobs.requeue_running()
    take(jobs)

    assert jobs.advance(job.id, "folding events", 0.0)
