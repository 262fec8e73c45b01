"""The ASGI application: resources, routers, errors and the two wrappers around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute

from app.api import admin, calibrate, campaigns, events, health, maps
from app.api.hot_routes import Endpoint, HotRoutes
from app.api.measured import Measured
from app.api.problems import answer_with_problems
from app.api.resources import Resources
from app.settings import Settings

_ROUTERS: Final = (calibrate, events, campaigns, maps, admin, health)
_DESCRIPTION: Final = (
    "Scores in, probabilities that come true out; refitted every hour. "
    "Every error is problem JSON (RFC 9457) with a stable `type`."
)
# Metrics are our own; the framework's would look at the environment with every request.
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}


def create_app(settings: Settings, redis_url: str) -> FastAPI:
    """The application on the store at `redis_url`; nothing connects before its lifespan."""
    resources = Resources.of(settings, redis_url)
    app = FastAPI(
        title="sirocco",
        version="1",
        description=_DESCRIPTION,
        lifespan=_lifespan,
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
    )
    app.state.resources = resources
    for module in _ROUTERS:
        app.include_router(module.router)
    answer_with_problems(app)
    app.add_middleware(HotRoutes, routes=_hot_routes())
    app.add_middleware(Measured, metrics=resources.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.resources.opened():
        yield


def _hot_routes() -> dict[tuple[str, str], tuple[BaseRoute, Endpoint]]:
    hot: dict[str, tuple[APIRouter, Endpoint]] = {
        calibrate.PATH: (calibrate.router, calibrate.calibrate),
        events.PATH: (events.router, events.post_events),
    }
    return {("POST", path): (router.routes[0], call) for path, (router, call) in hot.items()}
