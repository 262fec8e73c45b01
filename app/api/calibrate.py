"""`POST /v1/calibrate`: from memory alone; no store, no lock, no wait."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON, check_head, media_type, read_body
from app.api.calibrate_request import CalibrateRequest, Question, read_questions
from app.api.calibrated import Calibrated, calibrated, count_served
from app.api.columns_calibrate import respond
from app.api.hot_path import declare
from app.api.large_bodies import LARGE
from app.api.map_age import age_headers
from app.api.openapi import request_body
from app.api.resources import Resources
from app.columns.header import MEDIA_TYPE as COLUMNS
from app.strict_json import BrokenRule

router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
_TYPES: Final = (JSON, COLUMNS)
_PROBABILITIES: Final = attrgetter("probabilities")
_LEVELS: Final = attrgetter("levels")
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


async def calibrate(scope: Scope, receive: Receive, resources: Resources) -> Answer:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows.

    `?explain=true` adds the level of map that served each score. Or binary columns; their answer
    is in binary columns too.
    """
    explain, headers = _explain(scope["query_string"]), dict(scope["headers"])
    body = await read_body(headers, receive, resources.settings.max_body_bytes, _TYPES)
    work = partial(_answer, body, headers, explain, resources)
    answer, parts = await run_in_threadpool(work) if len(body) >= LARGE else work()
    # Here and not there: only the event loop's thread may count.
    _count(parts, resources)
    return answer


def calibrate_whole(scope: Scope, body: bytes, resources: Resources) -> Answer | None:
    """The same for a body that is there, unless it is work for a thread."""
    explain, headers = _explain(scope["query_string"]), dict(scope["headers"])
    is_packed = check_head(headers, resources.settings.max_body_bytes, _TYPES)
    if is_packed or len(body) >= LARGE:
        return None
    answer, parts = _answer(body, headers, explain, resources)
    _count(parts, resources)
    return answer


declare(router, PATH, calibrate, request_body({JSON: CalibrateRequest}, _EXAMPLE, [COLUMNS]))


def _explain(query: bytes) -> bool:
    if not query:
        return False
    given = QueryParams(query).get("explain", "false")
    if given not in _TRUTHS:
        raise BrokenRule("explain", "must be true or false", given)
    return _TRUTHS[given]


def _answer(
    body: bytes, headers: Mapping[bytes, bytes], explain: bool, resources: Resources
) -> tuple[Answer, list[Calibrated]]:
    if media_type(headers.get(b"content-type", b"")) == COLUMNS:
        return respond(body, headers.get(b"accept"), resources)
    return _respond(body, explain, resources)


def _count(parts: list[Calibrated], resources: Resources) -> None:
    for part in parts:
        count_served(part, resources.metrics)


def _respond(body: bytes, explain: bool, resources: Resources) -> tuple[Answer, list[Calibrated]]:
    questions = read_questions(body, resources.settings)
    snapshot = resources.refresher.current
    parts = [calibrated(snapshot.atlases[asked.target], asked) for asked in questions]
    one = len(parts) == 1
    probabilities = parts[0].probabilities if one else _merged(questions, parts, _PROBABILITIES)
    content: dict[str, Any] = {"probabilities": probabilities, "version": snapshot.version}
    if explain:
        content["levels"] = parts[0].levels if one else _merged(questions, parts, _LEVELS)
    packed = orjson.dumps(content, None, orjson.OPT_SERIALIZE_NUMPY)
    return Answer(200, [JSON_TYPE, *age_headers(snapshot)], packed), parts


def _merged(
    questions: list[Question], parts: list[Calibrated], column: Callable[[Calibrated], Any]
) -> list[Any]:
    """The column of several parts as one, each value at its place in the request."""
    places = chain.from_iterable(asked.places for asked in questions)
    values = chain.from_iterable(map(column, parts))
    return [value for _, value in sorted(zip(places, values, strict=True), key=itemgetter(0))]
