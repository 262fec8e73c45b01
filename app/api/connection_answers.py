"""Answers to what never becomes a request for the application: whole HTTP messages, made once."""

from http import HTTPStatus
from typing import Final

from app.api.closing_reasons import Reason
from app.api.problems import Problem

_TIMEOUT: Final = Problem(
    HTTPStatus.REQUEST_TIMEOUT,
    "request-timeout",
    "the request did not arrive whole in SIROCCO_RECEIVE_SECONDS",
)
_LARGE_HEAD: Final = Problem(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head-too-large",
    "the head must have at most 65536 bytes and 100 fields",
)
_MALFORMED: Final = Problem(
    HTTPStatus.BAD_REQUEST, "malformed-request", "this is not an HTTP/1.1 request"
)
_TOO_MANY: Final = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too-many-connections",
    "SIROCCO_MAX_CONNECTIONS are open already",
    {"Retry-After": "1"},
)


def _message(problem: Problem) -> bytes:
    response = problem.response()
    headers = [*response.raw_headers, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {problem.status.value} {problem.status.phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


ANSWERS: Final = {
    Reason.SLOW_REQUEST: _message(_TIMEOUT),
    Reason.LARGE_HEAD: _message(_LARGE_HEAD),
    Reason.MALFORMED: _message(_MALFORMED),
    Reason.TOO_MANY: _message(_TOO_MANY),
}
"""What a caller is told before the connection is closed; of other reasons nothing."""
