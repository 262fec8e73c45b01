"""Jobs that the API hands to the worker: a bounded queue in which equal requests are one job."""

from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
import redis

from app.storage import keys
from app.storage.errors import QueueFull
from app.storage.redis.client import as_text, lua, reaching_the_store

Status = Literal["queued", "running", "done", "failed"]

QUEUE_LIMIT = 64
LIFE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Job:
    """One job; times are epoch seconds, `result` or `error` is set once it has finished, and
    `progress` says what is being done until then."""

    id: str
    kind: str
    request: dict[str, Any]
    status: Status
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    result: dict[str, Any] | None = None
    error: str | None = None
    progress: str | None = None


class Jobs:
    """The queue and the jobs of the last day."""

    def __init__(self, client: redis.Redis, limit: int = QUEUE_LIMIT) -> None:
        self._client = client
        self._limit = limit
        self._submit = client.register_script(lua("submit_job"))
        self._take = client.register_script(lua("take_job"))
        self._finish = client.register_script(lua("finish_job"))
        self._requeue = client.register_script(lua("requeue_jobs"))

    @reaching_the_store()
    def submit(self, kind: str, request: dict[str, Any], now: float) -> Job:
        """Queue a job, or return the queued one that asks for the same; raises QueueFull."""
        packed = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
        names = [keys.JOBS_SAME, keys.JOBS_QUEUED, keys.JOBS_SEQUENCE]
        arguments = (kind, packed, now, self._limit, LIFE_SECONDS, keys.job(""))
        job_id = self._submit(keys=names, args=arguments)
        if job_id is None:
            raise QueueFull(self._limit)
        job = self.get(job_id.decode())
        assert job is not None, "a job lives for a day"
        return job

    @reaching_the_store()
    def get(self, job_id: str) -> Job | None:
        """The job, or None when there is none or it is over a day old."""
        fields = self._client.hgetall(keys.job(job_id))
        text = {as_text(name): as_text(value) for name, value in fields.items()}
        return _job(job_id, text) if text else None

    @reaching_the_store()
    def take(self, now: float) -> Job | None:
        """Start the oldest queued job; None when nothing waits."""
        names = [keys.JOBS_QUEUED, keys.JOBS_RUNNING, keys.JOBS_SAME]
        job_id = self._take(keys=names, args=[now, keys.job("")])
        return None if job_id is None else self.get(job_id.decode())

    @reaching_the_store()
    def advance(self, job_id: str, progress: str) -> None:
        """Say what a running job is at."""
        if self._client.exists(keys.job(job_id)):
            self._client.hset(keys.job(job_id), "progress", progress)

    @reaching_the_store()
    def finish(
        self,
        job_id: str,
        now: float,
        *,
        result: dict[str, Any] | None = None,
        error: str | None = None,
    ) -> bool:
        """End a running job: failed with an error, done without; False if it is not running."""
        outcome = _outcome(result, error)
        names = [keys.job(job_id), keys.JOBS_RUNNING]
        return bool(self._finish(keys=names, args=[job_id, now, *outcome]))

    @reaching_the_store()
    def requeue_running(self) -> int:
        """Queue again, and first, what a worker that is gone had started; returns how many."""
        names = [keys.JOBS_QUEUED, keys.JOBS_RUNNING, keys.JOBS_SAME]
        return int(self._requeue(keys=names, args=[keys.job("")]))


def _outcome(result: dict[str, Any] | None, error: str | None) -> tuple[Status, str, str | bytes]:
    """The status, and the name and value of the field that says why."""
    if error is not None:
        return "failed", "error", error
    return "done", "result", orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY)


def _job(job_id: str, text: dict[str, str]) -> Job:
    return Job(
        job_id,
        text["kind"],
        orjson.loads(text["request"]),
        cast(Status, text["status"]),
        float(text["created_at"]),
        _time(text.get("started_at")),
        _time(text.get("finished_at")),
        orjson.loads(text.get("result", "null")),
        text.get("error"),
        None if "finished_at" in text else text.get("progress"),
    )


def _time(text: str | None) -> float | None:
    return None if text is None else float(text)
