"""Jobs that the API hands to the worker: a bounded queue in which equal requests are one job.

A job is a hash of the fields of `Job`, each but `status` sealed (`keys.py`). Where one is damaged,
a failed job takes its place.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
import redis

from app.storage import keys
from app.storage.errors import QueueFull
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import seal, unseal
from app.storage.redis.client import as_text, lua, reaching_the_store

Status = Literal["queued", "running", "done", "failed", "cancelled"]

RETRAIN, TRAIN, APPROVE, REJECT = "retrain", "train", "approve", "reject"
QUEUE_LIMIT = 64
LIFE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Job:
    """One job; times are epoch seconds, `result` or `error` is set once it has finished, and
    `progress` and `fraction`, in [0, 1], say what is being done and how far it is until then. One
    whose cancellation was requested while it ran ends at its next step."""

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
    fraction: float | None = None
    cancel_requested_at: float | None = None


class Jobs:
    """The queue and the jobs of the last day."""

    def __init__(self, client: redis.Redis, limit: int = QUEUE_LIMIT) -> None:
        self._client = client
        self._limit = limit
        self._damage = Damage(client)
        self._submit = client.register_script(lua("submit_job"))
        self._take = client.register_script(lua("take_job"))
        self._advance = client.register_script(lua("advance_job"))
        self._cancel = client.register_script(lua("cancel_job"))
        self._finish = client.register_script(lua("finish_job"))
        self._requeue = client.register_script(lua("requeue_jobs"))

    @reaching_the_store()
    def submit(self, kind: str, request: dict[str, Any], now: float) -> Job:
        """Queue a job, or return the queued one that asks for the same; raises QueueFull."""
        packed = orjson.dumps(request, option=orjson.OPT_SORT_KEYS).decode()
        fields = {"kind": kind, "request": packed, "created_at": str(now)}
        names = [keys.JOBS_SAME, keys.JOBS_QUEUED, keys.JOBS_SEQUENCE]
        sealed = [seal(text, name) for name, text in fields.items()]
        arguments: list[str | int] = [*sealed, self._limit, LIFE_SECONDS, keys.job("")]
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
        try:
            return _job(job_id, fields) if fields else None
        except (ValueError, KeyError) as error:
            _log.error("job %s: %s", job_id, error)
            return self._failed(job_id)

    @reaching_the_store()
    def newest(self, count: int) -> list[Job]:
        """So many of the last day's jobs at most, newest first."""
        last = self._client.get(keys.JOBS_SEQUENCE) or b"0"
        number = int(last) if last.isdigit() else 0
        ids = (f"{one:06d}" for one in range(number, max(0, number - count), -1))
        return [job for job in map(self.get, ids) if job is not None]

    def _failed(self, job_id: str) -> Job:
        """What takes the place of a damaged job."""
        self._damage.set_key_aside(Damaged.JOB, keys.job(job_id))
        self._client.srem(keys.JOBS_RUNNING, job_id)
        job = Job(job_id, "unknown", {}, "failed", 0.0, error="what was stored of it is damaged")
        fields = {"kind": job.kind, "request": "{}", "created_at": "0.0", "error": str(job.error)}
        for name, text in fields.items():
            self._client.hset(keys.job(job_id), name, seal(text, name))
        self._client.hset(keys.job(job_id), "status", job.status)
        self._client.expire(keys.job(job_id), LIFE_SECONDS)
        return job

    @reaching_the_store()
    def take(self, now: float) -> Job | None:
        """Start the oldest queued job; None when nothing waits."""
        names = [keys.JOBS_QUEUED, keys.JOBS_RUNNING, keys.JOBS_SAME]
        while True:
            arguments = [seal(str(now), "started_at"), keys.job("")]
            job_id, skipped = self._take(keys=names, args=arguments)
            self._keep_names(skipped)
            job = self.get(job_id.decode()) if job_id else None
            if job is None or job.status == "running":
                return job

    @reaching_the_store()
    def advance(self, job_id: str, progress: str, fraction: float) -> bool:
        """Say what a running job is at, and how far; tells whether it is to be cancelled."""
        fields = {"progress": progress, "fraction": str(fraction)}
        sealed = [seal(text, name) for name, text in fields.items()]
        return bool(self._advance(keys=[keys.job(job_id)], args=sealed))

    @reaching_the_store()
    def cancel(self, job_id: str, now: float) -> Job | None:
        """Cancel a job: at once while it waits, at its next step while it runs; the job then."""
        names = [keys.job(job_id), keys.JOBS_QUEUED, keys.JOBS_SAME]
        ends = [seal(str(now), name) for name in ("finished_at", "cancel_requested_at")]
        self._cancel(keys=names, args=[job_id, *ends])
        return self.get(job_id)

    @reaching_the_store()
    def finish(
        self,
        job_id: str,
        now: float,
        *,
        result: dict[str, Any] | None = None,
        error: str | None = None,
        cancelled: bool = False,
    ) -> bool:
        """End a running job: cancelled, failed with an error, or else done; False if it is not
        running."""
        outcome = ("cancelled", *_outcome(None, None)[1:]) if cancelled else _outcome(result, error)
        names = [keys.job(job_id), keys.JOBS_RUNNING]
        finished_at = seal(str(now), "finished_at")
        return bool(self._finish(keys=names, args=[job_id, finished_at, *outcome]))

    @reaching_the_store()
    def requeue_running(self) -> int:
        """Queue again, and first, what a worker that is gone had started; returns how many."""
        names = [keys.JOBS_QUEUED, keys.JOBS_RUNNING, keys.JOBS_SAME]
        requeued, skipped = self._requeue(keys=names, args=[keys.job("")])
        self._keep_names(skipped)
        return int(requeued)

    def _keep_names(self, names: list[bytes]) -> None:
        for name in names:
            self._damage.keep(Damaged.NAME, 0, name)


def _outcome(result: dict[str, Any] | None, error: str | None) -> tuple[Status, str, str]:
    """The status, and the name and value of the field that says why."""
    if error is not None:
        return "failed", "error", seal(error, "error")
    packed = orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return "done", "result", seal(packed, "result")


_WORD, _TIME = re.compile(r"[a-z]+"), re.compile(r"[0-9.]+(e[-+]?[0-9]+)?")
_JSON, _NONE = re.compile(r"\{.*|null", re.DOTALL), re.compile(r"(?!)")
_FORMER = {
    "kind": _WORD,
    "request": _JSON,
    "status": re.compile("queued|running|done|failed|cancelled"),
    "result": _JSON,
    **dict.fromkeys(("created_at", "started_at", "finished_at"), _TIME),
}
_NEWER = {"error", "progress", "fraction", "cancel_requested_at"}
_log = logging.getLogger(__name__)


def _job(job_id: str, stored: Mapping[bytes | str, bytes | str]) -> Job:
    fields = {as_text(name): value for name, value in stored.items()}
    if unknown := fields.keys() - _FORMER.keys() - _NEWER:
        raise ValueError(f"unknown fields {sorted(unknown)}")
    # Of a job whose kind is bare, version 1 may have written any text.
    written = re.compile(".*", re.DOTALL) if _WORD.fullmatch(as_text(fields["kind"])) else _NONE
    text = {name: unseal(value, name, _FORMER.get(name, written)) for name, value in fields.items()}
    return Job(
        job_id,
        text["kind"],
        orjson.loads(text["request"]),
        cast(Status, text["status"]),
        float(text["created_at"]),
        _number(text.get("started_at")),
        _number(text.get("finished_at")),
        orjson.loads(text.get("result", "null")),
        text.get("error"),
        None if "finished_at" in text else text.get("progress"),
        None if "finished_at" in text else _number(text.get("fraction")),
        _number(text.get("cancel_requested_at")),
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
