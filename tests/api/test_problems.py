"""The one table from what went wrong to what the caller is told."""

import json
from http import HTTPStatus

import pytest
from starlette.exceptions import HTTPException

from app.api.problems import Problem, problem_of
from app.storage.errors import IdempotencyConflict, QueueFull, StorageUnavailable, UnknownVersion
from app.strict_json import MalformedJson, ValidationError


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (ValidationError("score", "must be small", 7), 422, "broken-rule"),
        (MalformedJson("not JSON"), 400, "malformed-json"),
        (HTTPException(404), 404, "not-found"),
        (HTTPException(405, headers={"Allow": "GET"}), 405, "method-not-allowed"),
        (StorageUnavailable("redis://secret@host"), 503, "store-unavailable"),
        (QueueFull(64), 429, "queue-full"),
        (IdempotencyConflict("key"), 409, "idempotency-conflict"),
        (UnknownVersion("000001-0"), 404, "not-found"),
        (Problem(HTTPStatus.GONE, "gone", "it was here"), 410, "gone"),
        (ValueError("secret"), 500, "internal-error"),
    ],
)
def test_every_error_has_a_stable_type(error, status, slug):
    response = problem_of(error).response()

    content = json.loads(response.body)
    assert response.media_type == "application/problem+json"
    assert (response.status_code, content["status"]) == (status, status)
    assert content["type"] == f"urn:sirocco:problem:{slug}"
    assert content["title"] == HTTPStatus(status).phrase
    assert "secret" not in content["detail"]


def test_extra_members_stand_beside_the_standard_ones():
    problem = Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "too large", limit=7)

    assert json.loads(problem.response().body)["limit"] == 7
