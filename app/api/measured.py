"""Counts and times every request, by route; pure ASGI."""

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.metrics import Metrics

# Paths of strangers must not become labels.
_NO_ROUTE = "other"


class Measured:
    """Wraps an application; `scope["route"]`, which routing leaves behind, names the route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        code = 500
        started = perf_counter()

        async def send_and_look(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._metrics.count_request(route, code, perf_counter() - started)
