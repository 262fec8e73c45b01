"""The ASGI application: the hot path in front of the framework with its routers and errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig

from app.api import access, admin, bins, events, health, maps, reference
from app.api.authorization import Authorized, with_access
from app.api.cockpit import analysis, experiments, fields, page, reliability, versions
from app.api.contract import with_answers
from app.api.hot_path import Endpoint, HotPath, PromptEndpoint
from app.api.metrics.counters import Measured
from app.api.metrics.workers import WorkerSlot
from app.api.problems import answer_with_problems
from app.api.resources import Resources
from app.api.scoring import calibrate
from app.settings import Settings

_ROUTERS: Final = (
    calibrate.router,
    events.router,
    maps.campaigns_router,
    maps.router,
    admin.router,
    bins.router,
    versions.router,
    experiments.router,
    analysis.router,
    experiments.admin_router,
    fields.router,
    admin.overrides_router,
    access.router,
    access.audit_router,
    health.router,
    page.status_router,
    reliability.router,
    page.router,
    reference.router,
)
# Routes as they are made: `include_router` would make each again for each application.
_ROUTES: Final = [route for router in _ROUTERS for route in router.routes]
_TITLE: Final = "sirocco"
_VERSION: Final = "1"
_DESCRIPTION: Final = (
    "A calibration service for ad platforms: maps click and conversion scores to calibrated "
    "probabilities, per campaign, refitted every hour from your events. "
    "Every error is problem JSON (RFC 9457) with a stable `type`."
)
# Metrics are our own; the framework's would look at the environment with every request.
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
_HOT: Final[dict[str, Endpoint]] = {
    calibrate.PATH: calibrate.calibrate,
    events.PATH: events.post_events,
}
_PROMPT: Final[dict[str, PromptEndpoint]] = {
    calibrate.PATH: calibrate.PROMPT,
    events.PATH: events.PROMPT,
}


def create_app(settings: Settings, redis_url: str, slot: WorkerSlot | None = None) -> HotPath:
    """The application on the store at `redis_url`; nothing connects before its lifespan.

    `slot` is where one of several processes counts.
    """
    paths = [route.path for route in _ROUTES if isinstance(route, APIRoute)]
    resources = Resources(settings, redis_url, paths, slot or WorkerSlot.alone())
    app = FastAPI(
        title=_TITLE,
        version=_VERSION,
        description=_DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    app.state.resources = resources
    app.router.routes.extend(_ROUTES)
    app.openapi = _document  # type: ignore[method-assign]
    answer_with_problems(app, _ROUTES)
    app.add_middleware(Authorized, authorization=resources.authorization, settings=settings)
    app.add_middleware(Measured, metrics=resources.metrics, traces=resources.traces)
    return HotPath(app, _HOT, resources, _PROMPT)


@cache
def _document() -> dict[str, Any]:
    document = get_openapi(title=_TITLE, version=_VERSION, description=_DESCRIPTION, routes=_ROUTES)
    return with_access(with_answers(document))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Later, it would hold up everybody while the first asks for it.
    _document()
    async with app.state.resources.opened():
        yield
