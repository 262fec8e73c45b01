"""The hot path: an ASGI application in front of the framework that owns the two routes which take
all the traffic. It finds them by one look-up, reads the body itself and sends one answer; requests,
responses, routing and middleware of the framework cost more than the work
(docs/decisions/0010-hot-path.md). Every other request goes on to the framework.

An answer on the hot path: what the server needs to send, and nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI
from fastapi.responses import Response
from starlette.datastructures import State
from starlette.types import Receive, Scope, Send

from app.api.problems import HANDLED, problem_of
from app.api.resources import Resources

JSON_TYPE = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """Status, headers in lower case without the length, and the whole body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @classmethod
    def of(cls, response: Response) -> "Answer":
        """The framework's response as an answer."""
        headers = [pair for pair in response.raw_headers if pair[0] != b"content-length"]
        return cls(response.status_code, headers, bytes(response.body))


Endpoint = Callable[[Scope, Receive, Resources], Awaitable[Answer]]
PromptEndpoint = Callable[[Scope, bytes, Resources], Answer | None]
"""Has the whole body, and does not wait; None says that it would have to."""


class HotPath:
    """Answers POST requests for the paths of `endpoints`; `framework` answers all others.

    Those of `prompt` are answered before, on a server whose protocol asks for it.
    """

    def __init__(
        self,
        framework: FastAPI,
        endpoints: Mapping[str, Endpoint],
        resources: Resources,
        prompt: Mapping[str, PromptEndpoint],
    ) -> None:
        self.framework = framework
        self.prompt_paths = frozenset(prompt)
        self._endpoints, self._prompt = endpoints, prompt
        self._resources, self._metrics = resources, resources.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope.get("path", ""))
        if endpoint is None or scope["type"] != "http" or scope["method"] != "POST":
            await self.framework(scope, receive, send)
            return
        started = perf_counter()
        fault = None
        try:
            answer = await endpoint(scope, receive, self._resources)
        except Exception as error:
            answer = Answer.of(problem_of(error).response())
            fault = None if isinstance(error, HANDLED) else error
        headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        self._metrics.count_request(scope["path"], answer.status, perf_counter() - started)
        if fault is not None:
            # The server logs it, and drops the connection.
            raise fault

    def prompt_answer(self, scope: Scope, body: bytes) -> Answer | None:
        """The answer to a whole request for one of `prompt_paths`; None to be called instead."""
        if scope["method"] != "POST":
            return None
        started = perf_counter()
        try:
            answer = self._prompt[scope["path"]](scope, body, self._resources)
        except HANDLED as error:
            answer = Answer.of(problem_of(error).response())
        except Exception:
            # A fault of ours: met once more on the way where the server logs it.
            return None
        if answer is not None:
            self._metrics.count_request(scope["path"], answer.status, perf_counter() - started)
        return answer

    @property
    def state(self) -> State:
        """The framework's state, which holds the resources."""
        return self.framework.state


def declare(router: APIRouter, path: str, endpoint: Endpoint, extra: dict[str, Any]) -> None:
    """Tells the framework of a hot route: for its documentation, and to refuse other methods."""
    router.add_api_route(
        path,
        _answered_before,
        methods=["POST"],
        name=endpoint.__name__,
        description=endpoint.__doc__,
        response_class=Response,
        openapi_extra=extra,
    )


async def _answered_before() -> Response:
    # No request gets here: the hot path stands in front of the framework.
    raise NotImplementedError
