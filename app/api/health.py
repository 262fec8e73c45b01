"""Whether the process lives, whether it should get traffic, and what it measures."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse, RedirectResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.resources import Given, Resources

router = APIRouter(tags=["operation"])

_STARTING: Final = "starting"
_READY: Final = "ready"
_DEGRADED: Final = "degraded"
_DRAINING: Final = "draining"
# A single failure is mended by the next try, a minute later; a second one in a row seldom is.
_FAILED_REFITS: Final = 2
_NO_TRAFFIC: Final = {_STARTING, _DRAINING}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get(
    "/readyz", responses={503: {"description": "The store was never reached, or the end is near."}}
)
async def readyz(given: Given) -> JSONResponse:
    """`ready`; or `degraded`, the `reasons`, and the first of them as `reason`: the store is away
    (`store-away`) or takes no writes (`store-refuses-writes`), so that events are refused; it is in
    danger (`store-replica`, `store-cluster`, `store-evicts`, `store-volatile`,
    `store-nearly-full`); refits fail again and again (`refits-failing`). Calibration goes on."""
    status, reasons = _status(given)
    code = HTTPStatus.SERVICE_UNAVAILABLE if status in _NO_TRAFFIC else HTTPStatus.OK
    content = {"status": status, "version": given.refresher.current.version}
    said = {"reason": reasons[0], "reasons": reasons} if reasons else {}
    return JSONResponse(content | said, code)


@router.get("/metrics", response_class=Response)
def metrics(given: Given) -> Response:
    """Metrics in Prometheus's text format."""
    return Response(generate_latest(given.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def root() -> RedirectResponse:
    """To the documentation."""
    return RedirectResponse("/docs")


def _status(resources: Resources) -> tuple[str, list[str]]:
    """The status, and the reasons where it is degraded."""
    if resources.status.table.draining:
        return _DRAINING, []
    if not resources.refresher.store_seen:
        return _STARTING, []
    reasons = list(_reasons(resources))
    return (_DEGRADED if reasons else _READY), reasons


def _reasons(resources: Resources) -> Iterator[str]:
    """What is wrong, the worst first."""
    if not resources.refresher.store_up:
        yield "store-away"
    elif not resources.watch.writable:
        yield "store-refuses-writes"
    yield from resources.watch.dangers
    if resources.refresher.failed_refits >= _FAILED_REFITS:
        yield "refits-failing"
