"""`GET /v1/status`: what the page shows first, and all that it asks for again and again. From
memory, but for the version before the one that serves.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from fastapi import APIRouter
from msgspec import Struct

from app.access.keys import Scope
from app.api.authorization import By
from app.api.health import status_of
from app.api.resources import Given, Resources
from app.api.snapshot import Snapshot
from app.storage.errors import StorageUnavailable
from calibrators.registry import METHODS


class StoreStatus(Struct):
    """Whether Redis answers and takes writes, and how long the oldest whole hour waits there."""

    up: bool
    takes_writes: bool
    oldest_unfolded_seconds: float | None


class ServiceStatus(Struct):
    """What is amiss, who works, and what the last refit reported of each target."""

    now: float
    status: Literal["ready", "degraded", "starting", "not-ready", "draining"]
    reasons: list[str]
    version: str
    before: str | None
    as_of: float | None
    published_at: float | None
    refit_seconds: float | None
    scopes: list[Scope]
    worker: dict[str, Any] | None
    store: StoreStatus
    calibrators: list[str]
    targets: dict[str, dict[str, Any]]


router = APIRouter(prefix="/v1", tags=["operation"])

_REPORTED: Final = (
    *("judged_until", "hour", "window", "bounds", "fitted", "skipped", "calibrator"),
    *("overridden", "guard", "method", "source", "labels", "model", "matured", "challenger"),
)


@router.get("/status")
def show_status(given: Given, by: By) -> dict[str, Any]:
    """How the service is: what is amiss, the worker and the store, and of each target what the
    refit of the version in force reported. `scopes` are those of the key that asks; `before` is
    the version that served before, null where it is not known."""
    snapshot, refresher = given.refresher.current, given.refresher
    status, reasons = status_of(given)
    watch = refresher.watch
    now = time.time()
    return {
        "now": now,
        "status": status,
        "reasons": reasons,
        "version": snapshot.version,
        "before": _before(given, snapshot.version),
        "as_of": snapshot.as_of,
        "published_at": snapshot.published_at,
        "refit_seconds": snapshot.report.get("refit_seconds"),
        "scopes": sorted(scope.value for scope in by.caller.scopes),
        "worker": dict(refresher.worker) or None,
        "store": {
            "up": refresher.store_up,
            "takes_writes": refresher.store_takes_writes,
            "oldest_unfolded_seconds": None if watch is None else watch.unfolded.age(now),
        },
        "calibrators": list(METHODS),
        "targets": {name: _target(given, snapshot, name) for name in snapshot.atlases},
    }


def _before(given: Resources, version: str) -> str | None:
    if not given.refresher.store_up:
        return None
    try:
        kept = [entry["version"] for entry in given.versions.history()]
    except StorageUnavailable:
        return None
    older = kept[kept.index(version) + 1 :] if version in kept else []
    return older[0] if older else None


def _target(given: Resources, snapshot: Snapshot, name: str) -> Mapping[str, Any]:
    report = snapshot.report_of(name)
    return {
        "delayed": name in given.settings.delayed_targets,
        "campaigns": len(snapshot.atlases[name]),
        **{field: report.get(field) for field in _REPORTED},
    }
