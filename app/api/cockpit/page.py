"""`GET /`: the page that operators keep open, and the files that it is made of; `GET /v1/status`:
what it shows first, and all that it asks for again and again.

The files hold no data, so they need no key. Nothing of them comes from elsewhere, and nothing that
a campaign is called can run: the policy allows scripts and requests of this origin alone. The
status is from memory, but for the version before the one that serves.
"""

import gzip
import time
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Header
from fastapi.responses import Response
from msgspec import Struct

from app.access.keys import Scope
from app.api.authorization import By
from app.api.health import status_of
from app.api.maps import products_of
from app.api.problems import not_found
from app.api.resources import Given, Resources
from app.api.snapshot import Snapshot
from app.storage.errors import StorageUnavailable
from app.strict_json import show
from calibrators.registry import METHODS

router = APIRouter()

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ]
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


class PageFile(NamedTuple):
    """A file of the page: its bytes, the same packed by gzip, its media type and its tag."""

    plain: bytes
    packed: bytes
    media_type: str
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """All of them by name, packed once."""
    return {path.name: _read(path) for path in sorted(_FOLDER.iterdir())}


def _read(path: Path) -> PageFile:
    plain = path.read_bytes()
    etag = f'W/"{sha256(plain).hexdigest()[:16]}"'
    return PageFile(plain, gzip.compress(plain, mtime=0), _TYPES[path.suffix], etag)


_Known = Annotated[str | None, Header()]


@router.get("/", include_in_schema=False)
async def page(if_none_match: _Known = None, accept_encoding: _Known = None) -> Response:
    """The page."""
    return _sent("index.html", if_none_match, accept_encoding)


@router.get("/page/{name}", include_in_schema=False)
async def page_file(
    name: str, if_none_match: _Known = None, accept_encoding: _Known = None
) -> Response:
    """A file of the page; 304 to who has it already."""
    return _sent(name, if_none_match, accept_encoding)


def _sent(name: str, known: str | None, encodings: str | None) -> Response:
    file = page_files().get(name)
    if file is None:
        raise not_found(f"{show(name)}: the page has no such file")
    headers = {**_HEADERS, "ETag": file.etag}
    if file.etag in (known or ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in (encodings or ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)
    return Response(file.plain, headers=headers, media_type=file.media_type)


class StoreStatus(Struct):
    """Whether Redis answers and takes writes, and how long the oldest whole hour waits there."""

    up: bool
    takes_writes: bool
    oldest_unfolded_seconds: float | None


class ServiceStatus(Struct):
    """What is amiss, who works, and what the last refit reported of each target."""

    now: float
    started_at: float
    status: Literal["ready", "degraded", "starting", "not-ready", "draining"]
    reasons: list[str]
    version: str
    before: str | None
    as_of: float | None
    published_at: float | None
    refit_seconds: float | None
    scopes: list[Scope]
    campaigns: list[str]
    worker: dict[str, Any] | None
    store: StoreStatus
    calibrators: list[str]
    targets: dict[str, dict[str, Any]]
    products: dict[str, dict[str, Any]]


status_router = APIRouter(prefix="/v1", tags=["operation"])

_REPORTED: Final = (
    *("judged_until", "hour", "window", "bounds", "fitted", "skipped", "calibrator"),
    *("overridden", "guard", "method", "source", "labels", "model", "matured", "challenger"),
)


@status_router.get("/status")
def show_status(given: Given, by: By) -> dict[str, Any]:
    """How the service is: what is amiss, the worker and the store, and of each target and product
    what the refit of the version in force reported. `scopes` are those of the key that asks, and
    `campaigns` the prefixes of those that it sees, empty where it sees all; one that does not is
    told nothing of the worker, nor what was reported of all campaigns. `before` is the version that
    served before, null where it is not known."""
    snapshot, refresher = given.refresher.current, given.refresher
    status, reasons = status_of(given)
    watch = refresher.watch
    now = time.time()
    return {
        "now": now,
        "started_at": refresher.started_at,
        "status": status,
        "reasons": reasons,
        "version": snapshot.version,
        "before": _before(given, snapshot.version),
        "as_of": snapshot.as_of,
        "published_at": snapshot.published_at,
        "refit_seconds": snapshot.report.get("refit_seconds"),
        "scopes": sorted(scope.value for scope in by.caller.scopes),
        "campaigns": list(by.caller.campaigns),
        "worker": None if by.caller.campaigns else dict(refresher.worker) or None,
        "store": {
            "up": refresher.store_up,
            "takes_writes": refresher.store_takes_writes,
            "oldest_unfolded_seconds": None if watch is None else watch.unfolded.age(now),
        },
        "calibrators": list(METHODS),
        "targets": {
            name: {"delayed": name in given.settings.delayed_targets}
            | ({} if by.caller.campaigns else _target(snapshot, name))
            for name in snapshot.atlases
        },
        "products": {} if by.caller.campaigns else products_of(given),
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


def _target(snapshot: Snapshot, name: str) -> dict[str, Any]:
    report = snapshot.report_of(name)
    return {
        "campaigns": len(snapshot.atlases[name]),
        **{field: report.get(field) for field in _REPORTED},
    }
