"""Problem details (RFC 9457): every error of the API in one form, with a stable `type`; one table
from what went wrong inside to the response.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from msgspec import UNSET
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from app.access.audit import AuditUnwritable
from app.access.key_store import KeyConflict, UnknownKey
from app.columns.campaigns import UnknownDictionary
from app.columns.layout import VERSIONS, UnknownColumnsVersion
from app.events.schema import TooManyEvents
from app.storage.errors import (
    BinsConflict,
    IdempotencyConflict,
    NotReplicated,
    QueueFull,
    StorageUnavailable,
    StoreDenied,
    TooManyFrozen,
    TooManyLoads,
    TooManyOverrides,
    UnknownVersion,
)
from app.strict_json import MalformedJson, ValidationError

MEDIA_TYPE: Final = "application/problem+json"
_SHOULD: Final = re.compile("^(Input|String) should")
NAMESPACE: Final = "urn:sirocco:problem:"
_RETRY: Final = {"Retry-After": "1"}
# The server drops the connection after a fault of ours: the caller must not use it again.
_CLOSED: Final = {"Connection": "close"}


class Problem(Exception):
    """An error as the caller sees it; extra members say what is wrong for machines."""

    def __init__(
        self,
        status: HTTPStatus,
        slug: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.headers = headers
        self.members = members

    def response(self) -> Response:
        """The answer that carries this problem."""
        content = {
            "type": NAMESPACE + self.slug,
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            **self.members,
        }
        return Response(orjson.dumps(content), self.status, self.headers, MEDIA_TYPE)


ENDED: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "draining",
    "this process ends and waits no longer, so this is not answered; send it again",
    _RETRY,
)


def not_found(detail: str) -> Problem:
    """There is nothing by that name."""
    return Problem(HTTPStatus.NOT_FOUND, "not-found", detail)


def _broken_rule(error: ValidationError) -> Problem:
    about: dict[str, Any] = {"field": error.field, "rule": error.rule, "value": error.value}
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "broken-rule", str(error), **about)


def _broken_parameter(error: RequestValidationError) -> Problem:
    """In our words: the framework says `Input should be a valid integer, unable to ...`."""
    first = error.errors()[0]
    rule = _SHOULD.sub("must", first["msg"].partition(",")[0]).replace("Field", "is")
    value = UNSET if first["type"] == "missing" else first["input"]
    return _broken_rule(ValidationError(".".join(map(str, first["loc"][1:])), rule, value))


def query_of(query: bytes, known: Collection[str]) -> QueryParams:
    """The parameters of a request; raises ValidationError on one that is not known or stands twice,
    without its value, which may be a secret."""
    given = QueryParams(query)
    for name in given:
        if name not in known:
            names = f"known are {', '.join(known)}" if known else "there are none here"
            raise ValidationError(name, f"unknown parameter; {names}")
        if len(given.getlist(name)) > 1:
            raise ValidationError(name, "must stand once")
    return given


def _of_status(error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    slug = status.phrase.lower().replace(" ", "-")
    return Problem(status, slug, str(error.detail), error.headers)


_UNREAD = "does not answer", "so this cannot be read; ask again"
_UNWRITTEN = "does not answer or is full", "so this is not acknowledged; send it again"
_DENIES = "denies this service access, as its log says"


def _store_unavailable(error: StorageUnavailable, words: tuple[str, str] = _UNWRITTEN) -> Problem:
    why, so = words
    text = f"the store {_DENIES if isinstance(error, StoreDenied) else why}, {so}"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "store-unavailable", text, _RETRY)


def _worded(
    status: HTTPStatus,
    slug: str,
    headers: Mapping[str, str] | None = None,
    about: Callable[[Any], Mapping[str, object]] = lambda _: {},
) -> Callable[[Exception], Problem]:
    return lambda error: Problem(status, slug, str(error), headers, **about(error))


_PROBLEMS: Final[dict[type[Exception], Callable[[Any], Problem]]] = {
    Problem: lambda problem: problem,
    ValidationError: _broken_rule,
    MalformedJson: _worded(HTTPStatus.BAD_REQUEST, "malformed-json"),
    RequestValidationError: _broken_parameter,
    HTTPException: _of_status,
    TooManyEvents: _worded(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-many-events",
        about=lambda error: {"limit": error.most},
    ),
    UnknownColumnsVersion: _worded(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "unsupported-columns-version",
        about=lambda _: {"versions": VERSIONS},
    ),
    UnknownDictionary: _worded(
        HTTPStatus.CONFLICT,
        "unknown-dictionary",
        about=lambda error: {"dictionary": f"{error.in_force:016x}"},
    ),
    NotReplicated: _worded(HTTPStatus.SERVICE_UNAVAILABLE, "store-unavailable", _RETRY),
    StorageUnavailable: _store_unavailable,
    QueueFull: _worded(HTTPStatus.TOO_MANY_REQUESTS, "queue-full", _RETRY),
    IdempotencyConflict: _worded(HTTPStatus.CONFLICT, "idempotency-conflict"),
    TooManyOverrides: _worded(HTTPStatus.CONFLICT, "too-many-overrides"),
    BinsConflict: _worded(HTTPStatus.CONFLICT, "bins-conflict"),
    TooManyLoads: _worded(HTTPStatus.CONFLICT, "too-many-loads"),
    TooManyFrozen: _worded(HTTPStatus.CONFLICT, "too-many-frozen"),
    UnknownVersion: _worded(HTTPStatus.NOT_FOUND, "not-found"),
    UnknownKey: _worded(HTTPStatus.NOT_FOUND, "not-found"),
    KeyConflict: _worded(HTTPStatus.CONFLICT, "key-conflict"),
    AuditUnwritable: _worded(HTTPStatus.SERVICE_UNAVAILABLE, "audit-unwritable", _RETRY),
}
HANDLED: Final = tuple(_PROBLEMS)
"""Errors that are responses; any other is a fault of ours: answered 500, and logged."""


def problem_of(error: Exception) -> Problem:
    """What the caller gets of an error."""
    for kind, make in _PROBLEMS.items():
        if isinstance(error, kind):
            return make(error)
    text = "something went wrong inside; it is logged"
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", text, _CLOSED)


def answer_with_problems(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Replaces the framework's own error bodies, which echo whole inputs, on all its routes."""
    app.state.routes = routes
    for kind in (*HANDLED, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, StorageUnavailable):
        request.app.state.resources.watch.failed(error)
        if request.method in ("GET", "HEAD"):
            return _store_unavailable(error, _UNREAD).response()
    response = problem_of(error).response()
    if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return response


def _methods(request: Request) -> set[str]:
    """Those of every route of the path: the framework knows of the first alone."""
    routes: Sequence[BaseRoute] = request.app.state.routes
    found = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return {method for route in found for method in getattr(route, "methods", ())}
