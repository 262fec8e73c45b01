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
_NO_TRAFFIC: Final = {_STARTING, _DRAINING}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get(
    "/readyz", responses={503: {"description": "The store was never reached, or the end is near."}}
)
async def readyz(given: Given) -> JSONResponse:
    """`ready`; `degraded` while the store is away: calibration goes on, events are refused."""
    status = _status(given)
    code = HTTPStatus.SERVICE_UNAVAILABLE if status in _NO_TRAFFIC else HTTPStatus.OK
    return JSONResponse({"status": status, "version": given.refresher.current.version}, code)


@router.get("/metrics", response_class=Response)
def metrics(given: Given) -> Response:
    """Metrics in Prometheus's text format."""
    return Response(generate_latest(given.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/", include_in_schema=False)
async def root() -> RedirectResponse:
    """To the documentation."""
    return RedirectResponse("/docs")


def _status(resources: Resources) -> str:
    if resources.presence.records.draining:
        return _DRAINING
    if not resources.refresher.store_seen:
        return _STARTING
    return _READY if resources.refresher.store_up else _DEGRADED
