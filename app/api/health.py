"""Whether the process lives, whether it should get traffic, and what it measures."""

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
    """`ready`; or `degraded`, and the `reason`: the store is away (`store-away`) and events are
    refused, or refits fail again and again (`refits-failing`). Calibration goes on in both."""
    status, reason = _status(given)
    code = HTTPStatus.SERVICE_UNAVAILABLE if status in _NO_TRAFFIC else HTTPStatus.OK
    content = {"status": status, "version": given.refresher.current.version}
    return JSONResponse(content | ({"reason": reason} if reason else {}), code)


@router.get("/metrics", response_class=Response)
def metrics(given: Given) -> Response:
    """Metrics in Prometheus's text format."""
    return Response(generate_latest(given.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def root() -> RedirectResponse:
    """To the documentation."""
    return RedirectResponse("/docs")


def _status(resources: Resources) -> tuple[str, str | None]:
    """The status, and the reason where it is degraded."""
    refresher = resources.refresher
    if resources.status.table.draining:
        return _DRAINING, None
    if not refresher.store_seen:
        return _STARTING, None
    if not refresher.store_up:
        return _DEGRADED, "store-away"
    if refresher.failed_refits >= _FAILED_REFITS:
        return _DEGRADED, "refits-failing"
    return _READY, None
