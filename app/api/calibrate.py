"""`POST /v1/calibrate`: from memory alone; no store, no lock, no wait."""

from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON, media_type, read_body
from app.api.calibrate_request import CalibrateRequest, Question, read_questions
from app.api.calibrated import Calibrated, Served, calibrated, served
from app.api.columns_calibrate import respond
from app.api.hot_path import declare
from app.api.large_bodies import LARGE, work_on
from app.api.map_age import age_headers
from app.api.openapi import request_body
from app.api.resources import Resources
from app.columns.header import MEDIA_TYPE as COLUMNS
from app.strict_json import BrokenRule

router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
_TYPES: Final = (JSON, COLUMNS)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


async def calibrate(scope: Scope, receive: Receive, resources: Resources) -> Answer:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows.

    `?explain=true` adds the level of map that served each score. Or binary columns; their answer
    is in binary columns too.
    """
    explain = _explain(scope["query_string"])
    headers = dict(scope["headers"])
    body = await read_body(headers, receive, resources.settings.max_body_bytes, _TYPES)
    is_large = len(body) >= LARGE
    if media_type(headers.get(b"content-type", b"")) == COLUMNS:
        answer, counts = await work_on(is_large, respond, body, headers.get(b"accept"), resources)
    else:
        answer, counts = await work_on(is_large, _answer, body, resources, explain)
    # Here and not there: only the event loop's thread may count.
    for target, level, number in counts:
        resources.metrics.count_scores(target, level, number)
    return answer


declare(router, PATH, calibrate, request_body({JSON: CalibrateRequest}, _EXAMPLE, [COLUMNS]))


def _explain(query: bytes) -> bool:
    if not query:
        return False
    given = QueryParams(query).get("explain", "false")
    if given not in _TRUTHS:
        raise BrokenRule("explain", "must be true or false", given)
    return _TRUTHS[given]


def _answer(body: bytes, resources: Resources, explain: bool) -> tuple[Answer, list[Served]]:
    questions = read_questions(body, resources.settings)
    snapshot = resources.refresher.current
    parts = [calibrated(snapshot.atlases[asked.target], asked) for asked in questions]
    content: dict[str, Any] = {
        "probabilities": _in_order(questions, [part.probabilities for part in parts]),
        "version": snapshot.version,
    }
    if explain:
        content["levels"] = _in_order(questions, [part.levels for part in parts])
    answer = Answer(200, [JSON_TYPE, *age_headers(snapshot)], orjson.dumps(content, None, _NUMPY))
    return answer, _counts(questions, parts)


def _counts(questions: list[Question], parts: list[Calibrated]) -> list[Served]:
    pairs = zip(questions, parts, strict=True)
    return [count for asked, part in pairs for count in served(asked.target, part)]


def _in_order(questions: list[Question], columns: list[Any]) -> Any:
    """The columns of several questions as one, each value at its place in the request."""
    if questions[0].places is None:
        return columns[0]
    values: list[Any] = [None] * sum(len(question.scores) for question in questions)
    for question, column in zip(questions, columns, strict=True):
        for place, value in zip(question.places or (), column, strict=True):
            values[place] = value
    return values
