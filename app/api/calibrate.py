"""`POST /v1/calibrate`: from memory alone; no store, no lock, no wait."""

from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import orjson
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON, media_type, read_body
from app.api.calibrate_request import CalibrateRequest, Question, read_questions
from app.api.calibrated import Probabilities, Served, calibrated, served
from app.api.columns_calibrate import respond
from app.api.hot_path import declare
from app.api.large_bodies import LARGE
from app.api.map_age import age_headers
from app.api.openapi import request_body
from app.api.resources import Resources
from app.api.snapshot import Snapshot
from app.columns.header import MEDIA_TYPE as COLUMNS
from app.strict_json import BrokenRule

T = TypeVar("T")

router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
_TYPES: Final = (JSON, COLUMNS)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


async def calibrate(scope: Scope, receive: Receive, resources: Resources) -> Answer:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows.

    `?explain=true` adds the level of map that served each score. Or binary columns; their answer
    is in binary columns too.
    """
    explain = _explain(scope["query_string"])
    headers = dict(scope["headers"])
    body = await read_body(headers, receive, resources.settings.max_body_bytes, _TYPES)
    if media_type(headers.get(b"content-type", b"")) == COLUMNS:
        work = partial(respond, body, headers.get(b"accept"), resources)
    else:
        work = partial(_answer, body, resources, explain)
    answer, counts = await run_in_threadpool(work) if len(body) >= LARGE else work()
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
    one = len(questions) == 1
    part = _one(questions[0], snapshot, explain) if one else _merged(questions, snapshot, explain)
    content: dict[str, Any] = {"probabilities": part.probabilities, "version": snapshot.version}
    if explain:
        content["levels"] = part.levels
    packed = orjson.dumps(content, None, orjson.OPT_SERIALIZE_NUMPY)
    return Answer(200, [JSON_TYPE, *age_headers(snapshot)], packed), part.counts


class _Part(NamedTuple):
    probabilities: Probabilities
    levels: list[str]
    counts: list[Served]


def _one(asked: Question, snapshot: Snapshot, explain: bool) -> _Part:
    found = calibrated(snapshot.atlases[asked.target], asked)
    levels = found.levels if explain else []
    return _Part(found.probabilities, levels, served(asked.target, found))


def _merged(questions: list[Question], snapshot: Snapshot, explain: bool) -> _Part:
    """The answers of several questions as one, each value at its place in the request."""
    parts = [_one(asked, snapshot, explain) for asked in questions]
    places = [place for asked in questions for place in asked.places]
    values = [value for part in parts for value in part.probabilities]
    levels = [level for part in parts for level in part.levels]
    counts = [count for part in parts for count in part.counts]
    return _Part(_in_order(places, values), _in_order(places, levels), counts)


def _in_order(places: list[int], values: list[T]) -> list[T]:
    # Without levels, there are fewer values than places: none.
    return [value for _, value in sorted(zip(places, values, strict=False), key=itemgetter(0))]
