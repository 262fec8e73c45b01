"""Problem details (RFC 9457): every error of the API in one form, with a stable `type`.

What a binary body is refused for beyond its rules: its version, or the list of its ids.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from app.columns.campaigns import CampaignIds, UnknownDictionary
from app.columns.layout import VERSIONS, UnknownColumnsVersion
from app.storage.errors import (
    IdempotencyConflict,
    QueueFull,
    StorageUnavailable,
    TooManyOverrides,
    UnknownVersion,
)
from app.strict_json import MalformedJson, ValidationError

MEDIA_TYPE: Final = "application/problem+json"
_NAMESPACE: Final = "urn:sirocco:problem:"
_RETRY: Final = {"Retry-After": "1"}
# The server drops the connection after a fault of ours: the caller must not use it again.
_CLOSED: Final = {"Connection": "close"}


class Problem(Exception):
    """An error as the caller sees it; extra members name what is wrong in machine's words."""

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
            "type": _NAMESPACE + self.slug,
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            **self.members,
        }
        return Response(orjson.dumps(content), self.status, self.headers, MEDIA_TYPE)


def not_found(detail: str) -> Problem:
    """There is nothing by that name."""
    return Problem(HTTPStatus.NOT_FOUND, "not-found", detail)


def problem_of(error: Exception) -> Problem:
    """The one table from what went wrong inside to what the caller is told."""
    match error:
        case Problem():
            return error
        case ValidationError():
            return _broken_rule(error)
        case MalformedJson():
            return Problem(HTTPStatus.BAD_REQUEST, "malformed-json", str(error))
        case RequestValidationError():
            return _broken_parameter(error)
        case HTTPException():
            return _of_status(error)
        case _:
            return _of_storage(error)


def _broken_rule(error: ValidationError) -> Problem:
    return Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "broken-rule",
        str(error),
        field=error.field,
        rule=error.rule,
        value=error.value,
    )


def _broken_parameter(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"][1:])) or "body"
    return _broken_rule(ValidationError(field, first["msg"], first["input"]))


def _of_status(error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    slug = status.phrase.lower().replace(" ", "-")
    return Problem(status, slug, str(error.detail), error.headers)


def _of_storage(error: Exception) -> Problem:
    match error:
        case StorageUnavailable():
            text = "the store does not answer, so this is not acknowledged; send it again"
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "store-unavailable", text, _RETRY)
        case QueueFull():
            return Problem(HTTPStatus.TOO_MANY_REQUESTS, "queue-full", str(error), _RETRY)
        case TooManyOverrides():
            return Problem(HTTPStatus.CONFLICT, "too-many-overrides", str(error))
        case IdempotencyConflict():
            return Problem(HTTPStatus.CONFLICT, "idempotency-conflict", str(error))
        case UnknownVersion():
            return not_found(str(error))
        case _:
            text = "something went wrong inside; it is logged"
            return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", text, _CLOSED)


HANDLED: Final = (
    Problem,
    ValidationError,
    MalformedJson,
    RequestValidationError,
    HTTPException,
    StorageUnavailable,
    QueueFull,
    IdempotencyConflict,
    TooManyOverrides,
    UnknownVersion,
)
"""Errors that are answers; any other is a fault of ours: answered 500, and logged."""


def answer_with_problems(app: FastAPI) -> None:
    """Replaces the framework's own error bodies, which echo whole inputs."""
    for kind in (*HANDLED, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(_: Request, error: Exception) -> Response:
    return problem_of(error).response()


def unsupported_version(error: UnknownColumnsVersion) -> Problem:
    """Another version of the layout will do."""
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    return Problem(status, "unsupported-columns-version", str(error), versions=VERSIONS)


def unknown_dictionary(error: UnknownDictionary, ids: CampaignIds) -> Problem:
    """Names will do, and so will the list in force."""
    in_force = f"{ids.dictionary:016x}"
    return Problem(HTTPStatus.CONFLICT, "unknown-dictionary", str(error), dictionary=in_force)
