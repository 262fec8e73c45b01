"""Whether the process lives, whether it should get traffic, and what it measures."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from app.api.resources import Given, Resources

router = APIRouter(tags=["operation"])

_STARTING: Final = "starting"
_READY: Final = "ready"
_DEGRADED: Final = "degraded"
_DRAINING: Final = "draining"
_NOT_READY: Final = "not-ready"
_OPEN_METRICS: Final = "application/openmetrics-text"
_NO_TRAFFIC: Final = {_STARTING, _NOT_READY, _DRAINING}


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    responses={
        503: {
            "description": "Nothing to serve: the store was never reached, or has no whole version."
        }
    },
)
async def readyz(given: Given) -> JSONResponse:
    """`ready`; or `degraded`, with `reasons`, of which `reason` is the first. Calibration goes on
    in both. `not-ready`: there were maps once, and none of them can be read."""
    status, reasons = status_of(given)
    code = HTTPStatus.SERVICE_UNAVAILABLE if status in _NO_TRAFFIC else HTTPStatus.OK
    content: dict[str, Any] = {"status": status, "version": given.refresher.current.version}
    if reasons:
        content |= {"reason": reasons[0], "reasons": reasons}
    return JSONResponse(content, code)


@router.get("/metrics", response_class=Response)
def metrics(given: Given, request: Request) -> Response:
    """Metrics in Prometheus's text format, or in OpenMetrics to who accepts that: with exemplars,
    where requests are traced."""
    registry = given.metrics.registry
    if _OPEN_METRICS in request.headers.get("accept", ""):
        text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return Response(text, media_type=openmetrics.CONTENT_TYPE_LATEST)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def status_of(resources: Resources) -> tuple[str, list[str]]:
    """The status, and the reasons where it is not as it should be."""
    refresher = resources.refresher
    if resources.status.table.draining:
        return _DRAINING, []
    if not refresher.may_serve:
        if refresher.store_seen:
            return _NOT_READY, refresher.reasons
        return _STARTING, refresher.reasons if refresher.store_denied else []
    return (_DEGRADED if refresher.reasons else _READY), refresher.reasons
