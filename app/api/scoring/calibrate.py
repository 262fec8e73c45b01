"""`POST /v1/calibrate`: calibrated probabilities from memory alone; no store, no lock, no wait.

A request is JSON (columns, one campaign with many scores, or rows) or binary columns; its scores
are looked up in the atlas of the version in force, in plain Python for a few and in one pass for
many.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from math import inf
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import orjson
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from app.api.authorization import ANYBODY, Caller, caller_of
from app.api.hot_path import (
    JSON,
    JSON_TYPE,
    LARGE,
    SLOW,
    PlainResponse,
    check_head,
    declare,
    media_type,
    read_body,
    request_body,
)
from app.api.metrics.counters import Metrics
from app.api.resources import Resources
from app.api.scoring.arms import (
    CalibratedScores,
    ColumnsOfArm,
    Places,
    TargetScores,
    atlas_of,
    by_arm,
    columns_by_arm,
    units_of,
    units_of_rows,
)
from app.api.snapshot import Snapshot, age_headers
from app.columns.layout import FLOAT32, INTERNED, LEVELS, ONE_CAMPAIGN, UNITS, Header
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.columns.scores import LEVEL_NUMBERS, ScoresRequest, pack_probabilities, read_scores
from app.events.schema import Score, are_campaigns, check_campaign
from app.settings import Settings
from app.strict_json import TakesLong, ValidationError, decode
from calibrators import FEW, Atlas
from calibrators.arms import ARMS, RAW
from calibrators.maps.atlas import CAMPAIGN, GROUP


class Row(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One score of one campaign."""

    target: str
    campaign: str
    score: Score
    unit: str | UnsetType = UNSET


class CalibrateRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Columns (`target`, `scores` and `campaigns` or one `campaign`), or `rows`."""

    target: Annotated[str, Meta(description="The target of all scores.")] | UnsetType = UNSET
    campaigns: Annotated[list[str], Meta(description="One per score.")] | UnsetType = UNSET
    campaign: Annotated[str, Meta(description="The one of all scores.")] | UnsetType = UNSET
    scores: Annotated[list[Score], Meta(description="What the model said.")] | UnsetType = UNSET
    units: Annotated[list[str], Meta(description="One per score.")] | UnsetType = UNSET
    unit: Annotated[str, Meta(description="The one of all scores.")] | UnsetType = UNSET
    rows: Annotated[list[Row], Meta(description="Instead of columns.")] | UnsetType = UNSET


RULES: Final = {
    "target": "must be a string",
    "campaigns": "must be an array of strings",
    "campaigns[]": "must be a string",
    "campaign": "must be a string",
    "scores": "must be an array of numbers in [0, 1]",
    "scores[]": "must be a number in [0, 1]",
    "score": "must be a number in [0, 1]",
    "units": "must be an array of strings",
    "units[]": "must be a string",
    "unit": "must be a string",
    "rows": "must be an array of objects with target, campaign and score",
    "rows[]": "must be an object with target, campaign and score",
}
_DECODER: Final = msgspec.json.Decoder(CalibrateRequest)


def read_request(body: bytes, settings: Settings, most_slowly: float = inf) -> list[TargetScores]:
    """The scores by target; raises MalformedJson, ValidationError, or as `decode` TakesLong."""
    request = decode(body, _DECODER, RULES, most_slowly)
    if request.rows is not UNSET:
        return _scores_of_rows(request, request.rows, settings)
    if request.target is UNSET:
        raise ValidationError("target", "is required")
    if request.scores is UNSET:
        raise ValidationError("scores", "is required, unless there are rows")
    campaigns = _campaigns_of(request, len(request.scores))
    _check_target("target", request.target, settings)
    _check_length("scores", len(request.scores), settings)
    one = request.campaigns is UNSET
    _check_campaigns(campaigns, "campaign" if one else "campaigns[{}]", settings)
    given = TargetScores(request.target, campaigns, request.scores)
    if request.unit is UNSET and request.units is UNSET:
        return [given]
    return [given._replace(units=units_of(request.unit, request.units, len(request.scores)))]


def _campaigns_of(request: CalibrateRequest, scores: int) -> list[str]:
    if request.campaign is not UNSET and request.campaigns is not UNSET:
        raise ValidationError("campaign", "stands beside campaigns; give one of the two")
    if request.campaign is not UNSET:
        return [request.campaign]
    if request.campaigns is UNSET:
        raise ValidationError("campaigns", "is required: one per score, or one campaign for all")
    if len(request.campaigns) != scores:
        found = f"has {len(request.campaigns)} items beside {scores} scores"
        raise ValidationError("campaigns", f"{found}; the columns must be equally long")
    return request.campaigns


def _scores_of_rows(
    request: CalibrateRequest, rows: list[Row], settings: Settings
) -> list[TargetScores]:
    for column in ("target", "campaign", "campaigns", "scores", "units", "unit"):
        if getattr(request, column) is not UNSET:
            raise ValidationError(column, "stands beside rows; each row has its own")
    _check_length("rows", len(rows), settings)
    _check_campaigns([row.campaign for row in rows], "rows[{}].campaign", settings)
    units = units_of_rows([row.unit for row in rows])
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.target, []).append(place)
    for target, found in places.items():
        _check_target(f"rows[{found[0]}].target", target, settings)
    return [
        TargetScores(
            target,
            [rows[i].campaign for i in found],
            [rows[i].score for i in found],
            found,
            [units[i] for i in found] if units else (),
        )
        for target, found in places.items()
    ]


def _check_length(field: str, length: int, settings: Settings) -> None:
    if not 1 <= length <= settings.max_scores:
        raise ValidationError(field, f"has {length} items; must have 1 to {settings.max_scores}")


def _check_target(field: str, target: str, settings: Settings) -> None:
    if target not in settings.known_targets:
        known = ", ".join(settings.known_targets)
        raise ValidationError(field, f"unknown target; known are {known}", target)


def _check_campaigns(campaigns: Sequence[str], field: str, settings: Settings) -> None:
    """ValidationError unless each is a campaign; `field` names them, with `{}` for their place."""
    if are_campaigns(campaigns, settings.max_campaign_bytes):
        return
    for place, campaign in enumerate(campaigns):
        check_campaign(field.format(place), campaign, settings.max_campaign_bytes)


def _calibrated(atlas: Atlas, given: TargetScores) -> CalibratedScores:
    number = len(given.scores)
    if number <= FEW:
        return _looked_up(given, atlas, atlas.few_rows(given.campaigns), given.scores)
    scores = np.fromiter(given.scores, np.float64, number)
    return _looked_up(given, atlas, atlas.rows(given.campaigns), scores)


def _looked_up(
    given: TargetScores | ColumnsOfArm, atlas: Atlas, rows: list[int] | Places, scores: Any
) -> CalibratedScores:
    """The scores, shape (n,), by the maps in these rows, n or one for all; a list for few."""
    target, arm = given.target, given.arm
    number = len(scores)
    if isinstance(rows, list):
        rows = rows if len(rows) == number else rows * number
        return CalibratedScores(target, atlas.look_up_few(rows, scores), atlas, rows, arm)
    rows = rows if len(rows) == number else np.repeat(rows, number)
    return CalibratedScores(target, atlas.look_up(rows, scores), atlas, rows, arm)


def _count(parts: list[CalibratedScores], metrics: Metrics) -> None:
    """Counts how many scores each level of map served; only on the event loop's thread."""
    for part in parts:
        rows = part.rows
        number = len(rows)
        if part.arm:
            metrics.count_arm(part.target, part.arm, number)
        if part.arm == RAW:
            metrics.count_scores(part.target, RAW, number)
            continue
        others = rows.count(0) if isinstance(rows, list) else number - int(np.count_nonzero(rows))
        if others < number:
            _count_own(part, metrics, number - others)
        if others:
            metrics.count_scores(part.target, part.atlas.shared_level, others)


def _count_own(part: CalibratedScores, metrics: Metrics, number: int) -> None:
    of_groups = 0
    if part.atlas.has_groups:
        of_groups = int(np.count_nonzero(np.asarray(part.rows) > len(part.atlas)))
        metrics.count_scores(part.target, GROUP, of_groups)
    metrics.count_scores(part.target, CAMPAIGN, number - of_groups)


VERSION_HEADER: Final = b"sirocco-version"

_COLUMNS_TYPE: Final = (b"content-type", COLUMNS.encode())


def respond(
    body: bytes, accept: bytes | None, resources: Resources, caller: Caller = ANYBODY
) -> tuple[PlainResponse, list[CalibratedScores]]:
    """The response to a request in columns, and what was looked up for it.

    It is in columns too, unless the `Accept` header names JSON and not columns. Raises any of
    `HANDLED` for a bad request.
    """
    snapshot = resources.refresher.current
    request = _read_columns(body, resources.settings)
    if caller.campaigns:
        _check_sees(_named(request, snapshot), caller)
    cut = columns_by_arm(request, snapshot)
    try:
        parts = [_calibrated_columns(one, request.header, snapshot) for one in cut]
    except IndexError:
        # The look-up meets an id beyond the list anyway; only then is it searched for.
        snapshot.ids[request.target].check(request.header.dictionary, request.numbers)
        raise
    if accept is not None and _wants_json(accept):
        levels = _merged(cut, parts, _LEVELS) if request.header.flags & LEVELS else None
        arms = _merged(cut, parts, _ARMS) if parts[0].arm else None
        return _json(_merged(cut, parts, _PROBABILITIES), levels, arms, snapshot), parts
    return _columns(request, cut, parts, snapshot), parts


def _check_sees(campaigns: Iterable[str], caller: Caller) -> None:
    for place, campaign in enumerate(campaigns):
        caller.check_sees(f"campaigns[{place}]", campaign)


def _named(request: ScoresRequest, snapshot: Snapshot) -> Sequence[str]:
    """The campaigns that a request in columns names; not id 0, which is whoever has no map."""
    if not request.header.flags & INTERNED:
        return request.names
    names, _ = snapshot.ids[request.target].names(request.header.dictionary, request.numbers)
    return [name for name in names if name]


def _read_columns(body: bytes, settings: Settings) -> ScoresRequest:
    request = read_scores(body, settings.max_scores)
    _check_target("target", request.target, settings)
    if request.names and not are_campaigns(request.names, settings.max_campaign_bytes):
        names = [request.names[number] for number in request.numbers.tolist()]
        one = request.header.flags & ONE_CAMPAIGN
        _check_campaigns(names, "campaign" if one else "campaigns[{}]", settings)
    return request


def _calibrated_columns(
    given: ColumnsOfArm, header: Header, snapshot: Snapshot
) -> CalibratedScores:
    atlas = atlas_of(given.arm, given.target, snapshot)
    rows = _rows(given, header, atlas, snapshot)
    if len(given.scores) > FEW:
        return _looked_up(given, atlas, rows, given.scores)
    return _looked_up(given, atlas, rows.tolist(), given.scores.tolist())


def _rows(given: ColumnsOfArm, header: Header, atlas: Atlas, snapshot: Snapshot) -> Places:
    if not header.flags & INTERNED:
        return atlas.rows(given.names)[given.numbers]
    ids = snapshot.ids[given.target]
    if atlas is snapshot.atlases[given.target]:
        return ids.rows(header.dictionary, given.numbers)
    # Ids are rows of the champion's atlas.
    names, places = ids.names(header.dictionary, given.numbers)
    return np.where([name == "" for name in names], 0, atlas.rows(names))[places]


def _columns(
    request: ScoresRequest,
    cut: Sequence[ColumnsOfArm],
    parts: list[CalibratedScores],
    snapshot: Snapshot,
) -> PlainResponse:
    flags = request.header.flags
    body = pack_probabilities(
        _merged(cut, parts, _PROBABILITIES),
        snapshot.ids[request.target].dictionary,
        float32=bool(flags & FLOAT32),
        levels=_merged(cut, parts, _level_numbers) if flags & LEVELS else None,
        arms=_merged(cut, parts, _arm_numbers) if flags & UNITS else None,
    )
    version = (VERSION_HEADER, snapshot.version.encode())
    return PlainResponse(200, [_COLUMNS_TYPE, version, *age_headers(snapshot)], body)


def _arm_numbers(part: CalibratedScores) -> NDArray[np.uint8]:
    return np.full(len(part.rows), ARMS.index(part.arm), np.uint8)


def _level_numbers(part: CalibratedScores) -> NDArray[np.uint8]:
    """The level behind each row."""
    if part.arm == RAW:
        return np.full(len(part.rows), LEVEL_NUMBERS[RAW], np.uint8)
    shared, rows = LEVEL_NUMBERS[part.atlas.shared_level], np.asarray(part.rows)
    levels = np.where(rows, LEVEL_NUMBERS[CAMPAIGN], shared).astype(np.uint8)
    levels[rows > len(part.atlas)] = LEVEL_NUMBERS[GROUP]
    return levels


def _json(
    probabilities: Any, levels: list[Any] | None, arms: list[Any] | None, snapshot: Snapshot
) -> PlainResponse:
    content = {"probabilities": probabilities, "version": snapshot.version}
    if levels is not None:
        content["levels"] = levels
    if arms is not None:
        content["arms"] = arms
    packed = orjson.dumps(content, None, orjson.OPT_SERIALIZE_NUMPY)
    return PlainResponse(200, [JSON_TYPE, *age_headers(snapshot)], packed)


def _wants_json(accept: bytes) -> bool:
    named = {kind.partition(";")[0].strip() for kind in accept.decode("latin-1").lower().split(",")}
    return JSON in named and COLUMNS not in named


router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
_TYPES: Final = (JSON, COLUMNS)
_PROBABILITIES: Final = attrgetter("probabilities")
_LEVELS: Final = attrgetter("levels")
_ARMS: Final = attrgetter("arms")
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


async def calibrate(scope: Scope, receive: Receive, resources: Resources) -> PlainResponse:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows.

    `?explain=true` adds the level of map that served each score. Or binary columns; their answer
    is in binary columns too.
    """
    explain, headers = _explain(scope["query_string"]), dict(scope["headers"])
    body = await read_body(headers, receive, resources, _TYPES)
    work = partial(_response, body, headers, explain, resources, caller_of(scope))
    resources.shedder.in_flight += 1
    try:
        answer, parts = await run_in_threadpool(work) if len(body) >= SLOW else work()
    finally:
        resources.shedder.in_flight -= 1
    _count(parts, resources.metrics)
    return answer


def calibrate_whole(scope: Scope, body: bytes, resources: Resources) -> PlainResponse | None:
    """The same for a body that is there, unless it is work for a thread."""
    explain, headers = _explain(scope["query_string"]), dict(scope["headers"])
    is_packed = check_head(headers, resources.settings.max_body_bytes, _TYPES)
    if is_packed or len(body) >= LARGE:
        return None
    try:
        answer, parts = _response(body, headers, explain, resources, caller_of(scope), SLOW)
    except TakesLong:
        return None
    _count(parts, resources.metrics)
    return answer


declare(router, PATH, calibrate, request_body({JSON: CalibrateRequest}, _EXAMPLE, [COLUMNS]))


def _explain(query: bytes) -> bool:
    if not query:
        return False
    given = QueryParams(query).get("explain", "false")
    if given not in _TRUTHS:
        raise ValidationError("explain", "must be true or false", given)
    return _TRUTHS[given]


def _response(
    body: bytes,
    headers: Mapping[bytes, bytes],
    explain: bool,
    resources: Resources,
    caller: Caller,
    most_slowly: float = inf,
) -> tuple[PlainResponse, list[CalibratedScores]]:
    if media_type(headers.get(b"content-type", b"")) == COLUMNS:
        return respond(body, headers.get(b"accept"), resources, caller)
    given = read_request(body, resources.settings, most_slowly)
    if caller.campaigns:
        _check_sees(chain.from_iterable(one.campaigns for one in given), caller)
    snapshot = resources.refresher.current
    if given[0].units:
        given = [part for one in given for part in by_arm(one, snapshot)]
        parts = [_calibrated(atlas_of(one.arm, one.target, snapshot), one) for one in given]
    else:
        parts = [_calibrated(snapshot.atlases[one.target], one) for one in given]
    probabilities = _merged(given, parts, _PROBABILITIES)
    levels = _merged(given, parts, _LEVELS) if explain else None
    arms = _merged(given, parts, _ARMS) if given[0].units else None
    return _json(probabilities, levels, arms, snapshot), parts


def _merged(
    given: Sequence[TargetScores | ColumnsOfArm],
    parts: list[CalibratedScores],
    column: Callable[[CalibratedScores], Any],
) -> Any:
    """The column of several parts as one, each value at its place in the request."""
    if len(parts) == 1:
        return column(parts[0])
    merged = [None] * sum(len(part.rows) for part in parts)
    for one, part in zip(given, parts, strict=True):
        for place, value in zip(one.places, column(part), strict=True):
            merged[place] = value
    return merged
