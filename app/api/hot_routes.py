"""A short cut for the routes that must be fast: found by one look-up, before the framework's own
routing, which costs more than the work itself. The same endpoints are declared in the routers, so
that the documentation knows them; both ways give the same answers.
"""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import Request
from fastapi.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import HANDLED, problem_of

Endpoint = Callable[[Request], Awaitable[Response]]


class HotRoutes:
    """Wraps an application; `routes` maps (method, path) to the route and its endpoint."""

    def __init__(
        self, app: ASGIApp, routes: Mapping[tuple[str, str], tuple[BaseRoute, Endpoint]]
    ) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._routes.get((scope["method"], scope["path"])) if _is_http(scope) else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["route"], endpoint = found
        response = await _answer(endpoint, Request(scope, receive))
        await response(scope, receive, send)


def _is_http(scope: Scope) -> bool:
    return bool(scope["type"] == "http")


async def _answer(endpoint: Endpoint, request: Request) -> Response:
    try:
        return await endpoint(request)
    except HANDLED as error:
        return problem_of(error).response()
