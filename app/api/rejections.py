"""Events that are not stored, as answers list them."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from app.api.problems import Problem
from app.events.parsing import INVALID, Rejection


def listed(rejections: Sequence[Rejection]) -> list[dict[str, Any]]:
    """Index and error of each, by index."""
    in_order = sorted(rejections, key=lambda rejection: rejection.index)
    return [{"index": rejection.index, "error": rejection.error} for rejection in in_order]


def refuse_if_all_are_broken(number: int, rejections: Sequence[Rejection]) -> None:
    """Problem if every event of the `number` of a request breaks the schema."""
    broken = sum(rejection.reason == INVALID for rejection in rejections)
    if broken == number:
        detail = f"none of the {broken} events is valid; the first: {rejections[0].error}"
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        raise Problem(status, "broken-events", detail, rejected=listed(rejections))


def too_many_events(error: ValueError, most: int) -> Problem:
    """The request holds more events than one request may."""
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return Problem(status, "too-many-events", str(error), limit=most)
