"""`POST /v1/calibrate`: from memory alone; no store, no lock, no wait."""

import time
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.api.body import JSON, read_body
from app.api.calibrate_request import CalibrateRequest, Question, read_questions
from app.api.calibrated import calibrated
from app.api.large_bodies import work_on
from app.api.metrics import Metrics
from app.api.openapi import request_body
from app.api.resources import Resources, resources_of
from app.api.snapshot import Snapshot
from app.strict_json import BrokenRule

router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
AGE_HEADER: Final = "Sirocco-Map-Age"
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


@router.post(PATH, openapi_extra=request_body({JSON: CalibrateRequest}, _EXAMPLE))
async def calibrate(request: Request) -> Response:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows.

    `?explain=true` adds the level of map that served each score.
    """
    resources = resources_of(request)
    explain = _explain(request)
    body = await read_body(request, resources.settings.max_body_bytes)
    return await work_on(body, _respond, body, resources, explain)


def _respond(body: bytes, resources: Resources, explain: bool) -> Response:
    questions = read_questions(body, resources.settings)
    snapshot = resources.refresher.current
    answer = _answer(snapshot, questions, explain, resources.metrics)
    content = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, headers=_age(snapshot), media_type=JSON)


def _explain(request: Request) -> bool:
    if not request.scope["query_string"]:
        return False
    given = request.query_params.get("explain", "false")
    if given not in _TRUTHS:
        raise BrokenRule("explain", "must be true or false", given)
    return _TRUTHS[given]


def _answer(
    snapshot: Snapshot, questions: list[Question], explain: bool, metrics: Metrics
) -> dict[str, Any]:
    parts = [calibrated(snapshot.atlases[asked.target], asked) for asked in questions]
    for asked, part in zip(questions, parts, strict=True):
        for level, number in part.served.items():
            metrics.count_scores(asked.target, level, number)
    answer = {
        "probabilities": _in_order(questions, [part.probabilities for part in parts]),
        "version": snapshot.version,
    }
    if explain:
        answer["levels"] = _in_order(questions, [part.levels for part in parts])
    return answer


def _in_order(questions: list[Question], columns: list[Any]) -> Any:
    """The columns of several questions as one, each value at its place in the request."""
    if questions[0].places is None:
        return columns[0]
    values: list[Any] = [None] * sum(map(len, questions))
    for question, column in zip(questions, columns, strict=True):
        for place, value in zip(question.places or (), column, strict=True):
            values[place] = value
    return values


def _age(snapshot: Snapshot) -> dict[str, str]:
    age = snapshot.age(time.time())
    return {} if age is None else {AGE_HEADER: str(int(age))}
