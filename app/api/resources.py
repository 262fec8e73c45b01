"""What the endpoints work with: opened once per application, closed with it."""

import gc
import threading
from asyncio import Lock, get_running_loop
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from app.access.audit import AuditLog
from app.access.key_store import KeyStore
from app.access.key_watch import KeyWatch
from app.api.authorization import Authorization, KeyCollector
from app.api.last_good import LastGood
from app.api.metrics.counters import MetricLayout, Metrics
from app.api.metrics.reports import ProgressCollector, ReportCollector
from app.api.metrics.workers import WorkerSlot, WorkerStatus
from app.api.problems import query_of
from app.api.shedding import LoadShedder
from app.api.snapshot import Refresher
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.clicks import ClickRules
from app.storage.errors import StorageUnavailable
from app.storage.event_log import EventLog
from app.storage.ids import IdLife
from app.storage.jobs import Jobs
from app.storage.lease import Heartbeat
from app.storage.overrides import FrozenTargets, Overrides
from app.storage.redis.client import AsyncStore, open_async_redis, open_redis
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.store_watch import StoreWatch
from app.storage.versions import Notices, Versions
from app.strict_json import ValidationError
from app.tracing import RequestTraces, open_tracer

_COLLECTED_AT: Final = 20_000
"""So many objects more than at the last collection bring on the next."""


class Resources:
    """Of one application with these routes, on the store at the URL; its clients connect at their
    first command.

    traces : None where nothing is traced: the hot path asks no further.
    large_bodies : held while a large body is worked on: they wait for each other, and small ones
        for one step of one of them.
    large_reads : held while one answer reads much of the store: the hours of a campaign, which are
        stored with those of many, or the days of an experiment.

    Raises LayoutsDiffer if the metrics of the slot are not those of this application.
    """

    def __init__(
        self, settings: Settings, redis_url: str, routes: Iterable[str], slot: WorkerSlot
    ) -> None:
        self.settings = settings
        self.client = client = open_redis(redis_url, settings.redis_timeout_seconds)
        self.async_client = open_async_redis(redis_url, settings.redis_timeout_seconds)
        self.versions = Versions(client, settings.versions_kept)
        heartbeat = Heartbeat(client, settings.ttl_seconds)
        folder = settings.last_good_dir
        self.watch = StoreWatch.of(settings, client)
        self.refresher = Refresher(
            self.versions,
            Notices(client),
            settings.known_targets,
            settings.refresh_seconds,
            heartbeat,
            None if folder is None else LastGood(folder, redis_url),
            self.watch,
        )
        layout = MetricLayout.of(routes, settings.known_targets)
        counters = slot.counters(layout)
        self.status = WorkerStatus(slot, self.refresher, layout, counters.row(slot.row))
        self.metrics = Metrics(layout, counters, slot.row, self.status)
        registry = self.metrics.registry
        registry.register(_reports(self.refresher, heartbeat, settings))
        registry.register(ProgressCollector(self.refresher, settings.known_targets))
        self.tracer = open_tracer(settings, "api")
        self.key_watch = KeyWatch.of(settings, client, redis_url, always=settings.is_public)
        registry.register(KeyCollector(self.key_watch))
        self.event_log = _event_log(self.async_client, settings)
        declared = DeclaredFields.of(settings)
        self.bins = BinsStore(client, settings.ttl_seconds, fields=declared)
        self.jobs = Jobs(client)
        self.overrides = Overrides(client)
        self.frozen = FrozenTargets(client)
        self.keys = KeyStore(client)
        self.authorization = Authorization(self.key_watch)
        self.audit = AuditLog(client, settings.audit_log)
        self.shedder = LoadShedder(settings, self.metrics)
        keep = self.metrics.keep_exemplar
        self.traces = RequestTraces(self.tracer, keep) if self.tracer.is_on else None
        self.large_bodies, self.large_reads = Lock(), Lock()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keeps the snapshot current meanwhile, and closes the clients afterwards."""
        await run_in_threadpool(self.key_watch.start)
        await run_in_threadpool(self.refresher.start)
        _freeze()
        self.shedder.start(get_running_loop())
        try:
            yield
        finally:
            self.shedder.stop()
            await run_in_threadpool(self.refresher.stop)
            await run_in_threadpool(self.key_watch.stop)
            await run_in_threadpool(self.tracer.close)
            await self.async_client.aclose()
            self.client.close()


async def _resources(request: Request) -> Resources:
    """Raises ValidationError on what no route would look at: probes and scrapers may add it."""
    # Async, because the framework runs other dependencies in its thread pool.
    if request.url.path.startswith("/v1/"):
        _check_address(request.scope)
    found: Resources = request.app.state.resources
    return found


def _check_address(scope: Scope) -> None:
    query = scope["query_string"]
    query_of(query, [field.alias for field in scope["route"].dependant.query_params])
    try:
        unquote(scope["raw_path"] + query, errors="strict")
    except UnicodeDecodeError:
        raise ValidationError("path", "must be UTF-8, percent-encoded", scope["path"]) from None


Given = Annotated[Resources, Depends(_resources)]


def _click_rules(settings: Settings) -> ClickRules:
    longest = max(map(settings.attribution_seconds, settings.delayed_targets), default=0.0)
    return ClickRules(
        settings.post_click_seconds,
        settings.max_features,
        settings.max_waiting,
        settings.waiting_hours * SECONDS_PER_HOUR,
        settings.event_ttl_seconds + int(longest),
    )


def _event_log(client: AsyncStore, settings: Settings) -> EventLog:
    return EventLog(
        client,
        settings.event_ttl_seconds,
        _click_rules(settings),
        settings.redis_wait,
        settings.redis_wait_seconds,
        key_seconds=settings.idempotency_hours * SECONDS_PER_HOUR,
        id_life=_id_life(settings),
    )


def _id_life(settings: Settings) -> IdLife:
    """By the wall clock where that says which events are admitted: `OpenTimes`."""
    window = settings.window_hours if settings.clock == "wall" else None
    return IdLife(settings.event_ttl_seconds, window, settings.future_seconds)


def _reports(refresher: Refresher, heartbeat: Heartbeat, settings: Settings) -> ReportCollector:
    def read_heartbeat() -> dict[str, Any] | None:
        try:
            return heartbeat.read() if refresher.store_up else None
        except StorageUnavailable:
            return None

    return ReportCollector(refresher, read_heartbeat, settings.delayed_targets)


def _freeze() -> None:
    """Takes all that lives as long as the process out of the garbage collector's sight.

    A full collection walks every object it knows, and stops all requests meanwhile. What was
    imported and loaded at start is most of them, and none is garbage before the end. A version that
    is replaced still goes at once: it is in no cycle. A server in a thread is a guest in somebody
    else's process, where the objects are not ours to freeze.

    A request with a hundred events has a thousand objects while it lasts, and leaves none. Python's
    own limit of 700 would have them walked, a pause for all others in which nothing is found.
    """
    if threading.current_thread() is threading.main_thread():
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECTED_AT)
