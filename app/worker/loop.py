"""The worker's loop: hold the lease, fold, run jobs, refit and train on schedule, beat.

Workers that wait for the lease fold their share of the logs and close their share of the clicks,
and all of them while its holder refits or trains.
"""

import faulthandler
import json
import logging
import os
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, current_thread, main_thread
from typing import Any

import redis

from app.click_log.folder import ClickLogUnavailable, OtherClickLog
from app.click_log.log import ClickLog
from app.log_lines import set_log_fields
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.errors import LeaseLost, StorageUnavailable, UnknownVersion
from app.storage.ids import IdPacker
from app.storage.integrity.damage import Damage, Damaged, is_damage
from app.storage.integrity.inspection import Inspection
from app.storage.jobs import APPROVE, REJECT, TRAIN, Job, Jobs
from app.storage.lease import Heartbeat, Lease, LeaseKeeper, ShardShare
from app.storage.overrides import FrozenTargets, Overrides
from app.storage.redis.client import Replicas, drop_connections, open_redis
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.store_watch import Outage, StoreWatch
from app.storage.versions import Versions
from app.tracing import NO_TRACER, Tracer, open_tracer
from app.worker.delayed_targets import DelayedTargets, claim_click_log
from app.worker.fitting import give_memory_back
from app.worker.progress import JobCancelled, Progress, Step, end_if_stuck
from app.worker.refit import Refitter, Request
from app.worker.schedule import Schedule, TrainingSchedule
from app.worker.together import COME_SECONDS, Together
from app.worker.training import NothingToTrain
from calibrators.samples import use_files

_log = logging.getLogger(__name__)

LEASE, FOLDS, CLOSES = "worker", "folds", "closes"
_COUNTED = (
    *("refits", "failures", "consecutive_failures"),
    *("trainings", "training_failures", "closing_failures"),
    "left_alone",
)
_IDLE_SECONDS = 0.05
_AWAY_SECONDS = 1.0
_HEARTBEAT_LIFE = 24 * SECONDS_PER_HOUR
_PACK_SECONDS = 60.0
_LOOK_SECONDS = 60.0
# Folds that may be missed before others take over a share.
_FOLDS_MISSED = 3
# A fold writes the tables of all campaigns anew, however few events are new. What that takes beyond
# half a second and the events' own time may be a tenth of a worker's.
_FREE_SECONDS, _EVENT_SECONDS, _TIMES_AS_LONG, _LONGEST_PAUSE = 0.5, 1e-6, 9.0, 120.0


def run_worker(settings: Settings, redis_url: str, *, adopt_click_log: bool = False) -> None:
    """Work until SIGTERM or SIGINT; any number may run, one at a time holds the lease. Where the
    click log is adopted, clicks are closed into that of these settings, whatever was before."""
    stop, has_process = Event(), current_thread() is main_thread()
    if has_process:
        use_files()
        # The folder of the system is in memory on many.
        if "TMPDIR" not in os.environ and settings.data_dir.is_dir():
            tempfile.tempdir = str(settings.data_dir)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    client = open_redis(redis_url, settings.redis_timeout_seconds)
    holder = f"{socket.gethostname()}-{os.getpid()}"
    if adopt_click_log:
        log = ClickLog.open(settings.click_log)
        claim_click_log(settings, OpenClicks(client), log, instead=True)
    tracer = open_tracer(settings, "worker")
    try:
        worker = Worker(settings, client, time.time, holder, tracer)
        if has_process:
            worker.progress.moved = end_if_stuck
        worker.run(stop)
    finally:
        if has_process:
            faulthandler.cancel_dump_traceback_later()
        tracer.close()


class Worker:
    """One worker; `now` is its only clock."""

    def __init__(
        self,
        settings: Settings,
        client: redis.Redis,
        now: Callable[[], float],
        holder: str,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._settings = settings
        self._client = client
        self._now = now
        self._holder = holder
        self._watch = StoreWatch.of(settings, client)
        self._lease = Lease(client, LEASE, holder, settings.lease_seconds)
        share_seconds = max(settings.lease_seconds, _FOLDS_MISSED * settings.fold_seconds)
        self._share = ShardShare(client, FOLDS, holder, share_seconds)
        self._closes = ShardShare(client, CLOSES, holder, share_seconds)
        self._bins = BinsStore(
            client,
            settings.ttl_seconds,
            calibrated_seconds=settings.event_ttl_seconds,
            fields=DeclaredFields.of(settings),
            replicas=Replicas(client, settings.redis_wait, settings.redis_wait_seconds),
        )
        self._ids = IdPacker(client)
        self._jobs = Jobs(client)
        self._heartbeat = Heartbeat(client, _HEARTBEAT_LIFE)
        versions = self._versions = Versions(client, settings.versions_kept)
        overrides = Overrides(client)
        refitter = self._refitter = Refitter(settings, self._bins, versions, overrides)
        refitter.frozen = FrozenTargets(client)
        self._delayed = DelayedTargets(settings, client, versions, refitter.cache)
        self._together = Together(
            settings,
            client,
            self._bins,
            refitter.methods,
            holder,
            lambda: self._lease.token,
            self._share,
            self._fold_own_share,
            self._delayed,
        )
        refitter.delayed = self._delayed
        self._tracer = tracer
        self.progress = Progress(self._jobs, settings.known_targets, self._beat_again, tracer.phase)
        refitter.advance = self.progress
        frozen = refitter.frozen.read
        self._schedule = Schedule(settings, versions, refitter.cache, now, frozen)
        self._trainings = TrainingSchedule(settings, self._delayed.models, self._delayed.cache, now)
        self._folded_at = self._packed_at = self._looked_at = self._fold_again = 0.0
        self._damage = Damage(client)
        self._inspection = Inspection(client, settings.post_click_seconds)
        self._damaged_names = 0.0
        self._state: dict[str, Any] = {"holder": holder, **dict.fromkeys(_COUNTED, 0)}
        self._beats = Lock()
        self._outage = Outage()
        self._closing_outage = Outage("the click log")

    def run(self, stop: Event) -> None:
        """Wait for the lease, work while it holds; a store that is away is waited for."""
        self._together.stop = stop
        while not stop.is_set():
            self.progress.moved()
            try:
                self._wait_and_work(stop)
                self._outage.end()
            except StorageUnavailable as error:
                self._outage.tell(error)
                drop_connections(self._client)
                self._mend(error)
                stop.wait(_AWAY_SECONDS)
            except LeaseLost:
                _log.warning("another worker has taken over")
        with suppress(StorageUnavailable):
            self._leave_to_others()

    def _wait_and_work(self, stop: Event) -> None:
        if not self._lease.acquire():
            if self._together.help():
                give_memory_back()
            else:
                if self._fold_own_share():
                    self._close(leads=False)
                stop.wait(min(self._settings.lease_seconds / 3, COME_SECONDS))
            return
        _log.info("holding the lease as %s", self._holder)
        try:
            self._jobs.requeue_running()
            self._refitter.methods.forget()
            self._count_on()
            with LeaseKeeper(self._lease, self._settings.lease_seconds, self._beat_again) as keeper:
                while keeper.held and not stop.is_set():
                    self.progress.moved()
                    worked = self.step()
                    self._outage.end()
                    if not worked:
                        stop.wait(_IDLE_SECONDS)
        finally:
            self._lease.release()

    def _count_on(self) -> None:
        """A lease that changes hands is no failure, nor does it end one."""
        before = self._heartbeat.read() or self._state
        tables = {name: before.get(name, {}) for name in ("guard", "pushes")}
        self._state |= {name: before.get(name, 0) for name in _COUNTED} | tables
        self._refitter.left_alone = self._state["left_alone"]
        self._refitter.held, self._refitter.pushes = map(Counter, tables.values())
        self._delayed.count_on(before)

    def _mend(self, error: StorageUnavailable) -> None:
        """Where damage is what failed, the next try finds it set aside."""
        if is_damage(error.__cause__):
            with suppress(StorageUnavailable):
                self._inspection.run()

    def step(self) -> bool:
        """Do what is due; tells whether there was anything, so that a queue is not slept on."""
        self._watch.look()
        job = self._jobs.take(self._now())
        if job is not None:
            self._run_job(job)
        # First, so that the refit as of midnight learns from midnight's model.
        for target, as_of in self._trainings.due():
            self._run_scheduled_training(target, as_of)
        due = self._schedule.due()
        for as_of in due:
            if not self._run_scheduled(as_of):
                break
        self._fold_now_and_then()
        self._look_for_pushes()
        self._pack_now_and_then()
        if job or due:
            give_memory_back()
        return bool(job or due)

    def _run_job(self, job: Job) -> None:
        self.progress.job, result, error, cancelled = job.id, None, None, False
        set_log_fields(job=job.id)
        try:
            result = self._done(job)
        except JobCancelled:
            cancelled = True
            _log.warning("job %s was cancelled", job.id)
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception as failure:
            # Whatever a job breaks on must reach who asked, and must not end the worker.
            _log.exception("job %s failed", job.id)
            error = f"{type(failure).__name__}: {failure}"
        finally:
            self.progress.job = None
            set_log_fields(job=None)
            self.progress.rest()
        self._jobs.finish(job.id, self._now(), result=result, error=error, cancelled=cancelled)

    def _done(self, job: Job) -> dict[str, Any]:
        """What came of a job, whatever it is for."""
        if job.kind in (APPROVE, REJECT):
            return self._decide(job.kind, job.request["version"])
        run = self._train_all if job.kind == TRAIN else self._refit
        return run(self._request(job))

    def _decide(self, decision: str, version: str) -> dict[str, Any]:
        """Bring the version that is held into force, or drop it; raises UnknownVersion."""
        held = self._versions.held()
        if held is None or held["version"] != version:
            raise UnknownVersion(version)
        if decision == APPROVE:
            report = self._refitter.approve(version, self._lease.token, self._now())
            result = {"approved": version, **summary(report)}
        else:
            self._versions.reject()
            result = {"rejected": version, "version": self._versions.current()}
        self._beat()
        _log.warning("%s of %s: %s is in force", decision, version, result["version"])
        return result

    def _run_scheduled(self, as_of: float, target: str | None = None) -> bool:
        try:
            self._refit(Request(as_of, target, between_hours=as_of % SECONDS_PER_HOUR != 0))
            self._schedule.done(as_of)
            return True
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception:
            _log.exception("refit as of %s failed; the version in force stays", as_of)
            self._schedule.failed()
            return False

    def _run_scheduled_training(self, target: str, as_of: float) -> None:
        try:
            self._train(target, as_of)
            self._delayed.finalise(as_of)
        except (StorageUnavailable, LeaseLost):
            with suppress(StorageUnavailable):
                self._trainings.interrupted(target, as_of)
            raise
        except Exception:
            _log.exception("training %s as of %s failed; the model in force stays", target, as_of)
            self._trainings.failed(target, as_of)
        else:
            self._trainings.done(target, as_of)

    def _train_all(self, request: Request) -> dict[str, Any]:
        chosen = [request.target] if request.target else self._settings.delayed_targets
        trained = {
            target: self._train(target, request.as_of, place / len(chosen), 1 / len(chosen))
            for place, target in enumerate(chosen)
        }
        self._delayed.finalise(request.as_of)
        return {"as_of": request.as_of, "targets": trained}

    def _train(
        self, target: str, as_of: float, done: float = 0.0, share: float = 1.0
    ) -> dict[str, Any]:
        """What came of it; that there is too little to learn from is no failure. So much of all was
        `done` before, and this is so large a `share` of it."""

        def advance(phase: str, of_target: float) -> None:
            self.progress(Step(phase, done + share * of_target))

        try:
            self._leave_to_others()
            with self._tracer.operation("training", target=target, as_of=as_of):
                advance("closing clicks", 0.0)
                self._delayed.prepare(self._now(), as_of)
                report = self._delayed.train(target, as_of, self._lease.token, self._now, advance)
        except NothingToTrain as reason:
            _log.info("no model of %s: %s", target, reason)
            return {"version": None, "source": None, "refused": str(reason)}
        except Exception as failure:
            self._count(failure, "training_failures")
            raise
        self._state["trainings"] += 1
        self._beat()
        summary = training_summary(report)
        about = {"target": target, "version": report["version"], "seconds": report["seconds"]}
        told = json.dumps(summary, default=str)
        _log.info("trained %s as of %s: %s", target, as_of, told, extra=about)
        return summary

    def _request(self, job: Job) -> Request:
        asked = job.request
        as_of = asked.get("as_of")
        moment = self._newest_moment() if as_of is None else float(as_of)
        return Request(moment, asked.get("target"), asked.get("campaigns"))

    def _newest_moment(self) -> float:
        """Now; in event time the end of the newest hour that holds events."""
        if self._settings.clock == "wall":
            return self._now()
        hours = [hour for target in self._settings.targets for hour in self._bins.hours(target)]
        if not hours:
            raise ValueError("as_of: there are no events yet, so there is nothing to refit as of")
        return float((max(hours) + 1) * SECONDS_PER_HOUR)

    def _refit(self, request: Request) -> dict[str, Any]:
        try:
            self._leave_to_others()
            with self._tracer.operation("refit", as_of=request.as_of):
                report = self._refitter.run(request, self._lease.token, self._now)
        except Exception as failure:
            self._count(failure, "failures", "consecutive_failures")
            raise
        self._state["refits"] += report["version"] is not None
        self._state["consecutive_failures"] = 0
        self._state["last_refit_seconds"] = report["refit_seconds"]
        self._beat()
        result = summary(report)
        about = {"version": report["version"], "seconds": report["refit_seconds"]}
        # What is held has been logged.
        if report["version"] is not None:
            _log.info(
                "published %s as of %s: %s",
                *(report["version"], request.as_of, json.dumps(result["targets"], default=str)),
                extra=about,
            )
        return result

    def _count(self, failure: Exception, *counts: str) -> None:
        """Of a lease that is lost nothing failed: it is another worker's turn."""
        if not isinstance(failure, LeaseLost):
            self._state |= {name: self._state[name] + 1 for name in counts}
            self._beat()

    def _fold_now_and_then(self) -> None:
        if self._fold_own_share():
            self._close()
            self._watch_canaries()
            self._look_for_lost_names()
            self._beat()

    def _fold_own_share(self) -> bool:
        """Whether it was due."""
        if abs(self._now() - self._folded_at) < self._settings.fold_seconds:
            return False
        shards, begun = self._share.take(), time.monotonic()
        if begun >= self._fold_again:
            rows, ended = self._bins.fold(shards), time.monotonic()
            spent = ended - begun - _FREE_SECONDS - _EVENT_SECONDS * rows
            self._fold_again = ended + min(_TIMES_AS_LONG * spent, _LONGEST_PAUSE)
        self._folded_at = self._now()
        return True

    def _look_for_pushes(self) -> None:
        """Refit a target at once whose scores another model makes; in event time only jobs do."""
        now = self._now()
        if self._settings.clock == "event" or abs(now - self._looked_at) < _LOOK_SECONDS:
            return
        self._looked_at = now
        for target in self._refitter.due_to_push(now):
            self._run_scheduled(now, target)

    def _pack_now_and_then(self) -> None:
        now = self._now()
        if abs(now - self._packed_at) >= _PACK_SECONDS:
            self._ids.pack()
            self._packed_at = now

    def _look_for_lost_names(self) -> None:
        """What a damaged name stood for is not lost."""
        names = self._damage.counts().get(Damaged.NAME, 0)
        if names > self._damaged_names:
            self._inspection.run()
            self._jobs.requeue_running()
        self._damaged_names = names

    def _watch_canaries(self) -> None:
        """In event time only jobs refit, and their refits look."""
        if self._settings.clock == "event":
            return
        try:
            self._refitter.canary.watch(self._now())
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception:
            _log.exception("canaries are not watched; trying again")

    def _close(self, *, leads: bool = True) -> None:
        """A click log that is away must not end the worker: Redis keeps what is due meanwhile, and
        others close it who can."""
        try:
            self._delayed.close(self._now(), self._closes, leads=leads)
            self._closing_outage.end()
        except (StorageUnavailable, LeaseLost):
            raise
        except Exception as failure:
            self._closes.leave()
            self._state["closing_failures"] += 1
            if isinstance(failure, (ClickLogUnavailable, OtherClickLog)):
                self._closing_outage.tell(failure)
            else:
                _log.exception("what is due stays open; trying again")

    def _leave_to_others(self) -> None:
        self._share.leave()
        self._closes.leave()

    def _beat(self) -> None:
        self._state["left_alone"] = self._refitter.left_alone
        self._state["guard"] = dict(self._refitter.held)
        self._state["pushes"] = dict(self._refitter.pushes)
        self.progress.rest()
        self._state["held"] = self._versions.held()
        self._state["damaged"] = self._damage.counts()
        self._state |= self._delayed.state()
        self._beat_again()

    def _beat_again(self) -> None:
        """From any thread: alive, and at what; all else as it was last time."""
        with self._beats:
            self._heartbeat.write({"at": self._now(), **self._state, **self.progress.state})


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """What a job's result tells: the version, what is held, and per target what was fitted and
    skipped, by which calibrators, what the guard held back, what is frozen, and what labels came
    from where conversions come late."""
    shown = ("fitted", "skipped", "calibrator", "overridden", "guard", "source", "frozen")
    targets = {
        name: {field: target[field] for field in shown if field in target}
        for name, target in report["targets"].items()
    }
    kept = {name: report[name] for name in ("version", "as_of", "refit_seconds", "held")}
    damaged = {"damaged": report["damaged"]} if "damaged" in report else {}
    return {**kept, **damaged, "targets": targets}


def training_summary(report: dict[str, Any]) -> dict[str, Any]:
    """What a job's result tells of a training."""
    training = report["training"]
    counts = {name: training[name] for name in ("clicks", "conversions", "refused")}
    return {**{name: report[name] for name in ("version", "source", "seconds")}, **counts}
