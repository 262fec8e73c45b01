"""`POST /v1/calibrate`: calibrated probabilities from memory alone; no store, no lock, no wait.

A request is JSON (columns, one campaign with many scores, or rows) or binary columns; its scores
are looked up in the atlas of the version in force, in plain Python for a few and in one pass for
many.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from math import inf
from operator import attrgetter, methodcaller
from typing import Any, Final

import numpy as np
import orjson
from fastapi import APIRouter
from msgspec import UNSET
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope

from app.api.authorization import ANYBODY, Caller, caller_of
from app.api.hot_path import (
    JSON,
    JSON_TYPE,
    SLOW,
    PlainResponse,
    PromptEndpoint,
    age_headers,
    declare,
    read_body,
    request_body,
    wants_json,
)
from app.api.resources import Resources
from app.api.scoring.arms import (
    CalibratedScores,
    ColumnsOfArm,
    Places,
    TargetScores,
    atlas_of,
    by_arm,
    by_name,
    check_sees,
    columns_by_arm,
    merged,
    named,
    rows_of,
    units_of,
    units_of_rows,
)
from app.api.scoring.fields import (
    check_columns,
    columns_of_rows,
    fields_of,
    fields_of_rows,
    has_effects,
    with_effects,
    with_groups,
)
from app.api.scoring.intervals import columns_wanted, quantiles
from app.api.scoring.products import (
    FOR_PRODUCTS,
    CalibratedFactor,
    CalibratedProduct,
    columns_by_factor,
    expected_values,
    one_score_for,
    plain_row_error,
    rows_by_factor,
)
from app.api.scoring.requests import (
    RULES,
    TYPES,
    CalibrateRequest,
    RequestHead,
    Row,
    read_head,
    read_prompt,
    read_request,
)
from app.api.shedding import PATIENCE
from app.api.snapshot import Snapshot
from app.columns.layout import FLOAT32, LEVELS, ONE_CAMPAIGN, UNITS, Header
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.columns.scores import ScoresRequest, pack_probabilities, read_scores
from app.events.schema import check_each, check_version
from app.settings import Settings
from app.strict_json import ValidationError, all_fit
from calibrators import FEW, Atlas
from calibrators.bins.model_versions import named as version_named
from calibrators.names import JsonTexts, PackedTexts
from calibrators.samples import Floats

_NONE_BESIDE: Final = (UNSET,) * 4
_OF_ALL_ROWS: Final = {"rows", "interval", "quantile"}


def read_scores_of(request: CalibrateRequest, settings: Settings) -> list[TargetScores]:
    """The scores by target; raises ValidationError."""
    if request.rows is not UNSET:
        return _scores_of_rows(request, request.rows, settings)
    target, scores = request.target, request.scores
    if target is UNSET:
        raise ValidationError("target", "is required")
    if scores is UNSET:
        raise ValidationError("scores", "is required, unless there are rows")
    if isinstance(scores, dict):
        return [_scores_of_product(request, target, scores, settings)]
    if request.values is not UNSET:
        raise ValidationError("values", FOR_PRODUCTS)
    one = request.campaigns is UNSET
    campaigns: Any = [request.campaign] if one else request.campaigns
    is_sound = (
        one is not (request.campaign is UNSET)
        and (one or len(campaigns) == len(scores))
        and target in settings.known_targets
        and 1 <= len(scores) <= settings.max_scores
        and (type(campaigns) is JsonTexts or all_fit(campaigns, settings.max_campaign_bytes))
    )
    if not is_sound:
        _refuse(request, target, len(scores), settings)
    given = TargetScores(target, campaigns, scores)
    beside = (request.unit, request.units, request.fields, request.model_version)
    if beside == _NONE_BESIDE:
        return [given]
    return [_with_columns(given, request, len(scores), settings)]


def _of_version(campaigns: Sequence[str], version: str, field: str) -> list[str]:
    """The names under which campaigns have maps of a version of the model."""
    check_version(field, version)
    return [version_named(campaign, version) for campaign in campaigns]


def _refuse(request: CalibrateRequest, target: str, scores: int, settings: Settings) -> None:
    """The first rule that the columns break, in words: ValidationError."""
    campaigns = _campaigns_of(request, scores)
    _check_target("target", target, settings)
    _check_length("scores", scores, settings)
    check_each(_field_of_campaigns(request), campaigns, settings.max_campaign_bytes)


def _field_of_campaigns(request: CalibrateRequest) -> str:
    return "campaign" if request.campaigns is UNSET else "campaigns[{}]"


def _with_columns(
    given: TargetScores, request: CalibrateRequest, number: int, settings: Settings
) -> TargetScores:
    units = units_of(request.unit, request.units, number)
    names = given.campaigns
    if request.model_version is not UNSET:
        names = _of_version(names, request.model_version, "model_version")
    fields = fields_of(request.fields, number, settings)
    return given._replace(campaigns=names, units=units, fields=fields)


def _scores_of_product(
    request: CalibrateRequest, target: str, scores: dict[str, list[float]], settings: Settings
) -> TargetScores:
    if target not in settings.products:
        _check_target("target", target, settings)
        raise ValidationError("scores", RULES["scores"], scores)
    values = None if request.values is UNSET else request.values
    factors = columns_by_factor(scores, target, values, settings)
    number = len(scores[next(iter(factors))])
    campaigns = _campaigns_of(request, number)
    _check_length("scores", number, settings)
    check_each(_field_of_campaigns(request), campaigns, settings.max_campaign_bytes)
    given = TargetScores(target, campaigns, (), factors=factors, values=values)
    return _with_columns(given, request, number, settings)


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
    for column in CalibrateRequest.__struct_fields__:
        if column not in _OF_ALL_ROWS and getattr(request, column) is not UNSET:
            raise ValidationError(column, "stands beside rows; each row has its own")
    _check_length("rows", len(rows), settings)
    names = [row.campaign for row in rows]
    check_each("rows[{}].campaign", names, settings.max_campaign_bytes)
    units = units_of_rows([row.unit for row in rows])
    said = fields_of_rows([row.fields for row in rows], settings)
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.target, []).append(place)
    return [
        _scores_of_target(rows, target, found, units, settings)._replace(
            fields=columns_of_rows(said, found)
        )
        for target, found in places.items()
    ]


def _scores_of_target(
    rows: list[Row], target: str, found: list[int], units: Sequence[str], settings: Settings
) -> TargetScores:
    """Those of the rows at the places that were found."""
    campaigns = [rows[i].campaign for i in found]
    for place, i in enumerate(found):
        version, field = rows[i].model_version, f"rows[{i}].model_version"
        if version is not UNSET:
            campaigns[place : place + 1] = _of_version([rows[i].campaign], version, field)
    given = TargetScores(target, campaigns, (), found, [units[i] for i in found] if units else ())
    if target in settings.products:
        factors, values = rows_by_factor(rows, target, found, settings)
        return given._replace(factors=factors, values=values)
    _check_target(f"rows[{found[0]}].target", target, settings)
    scores = []
    for i in found:
        row = rows[i]
        score = row.score
        if score is UNSET or row.scores is not UNSET or row.value is not UNSET:
            raise plain_row_error(row, i)
        scores.append(score)
    return given._replace(scores=scores)


def _check_length(field: str, length: int, settings: Settings) -> None:
    if not 1 <= length <= settings.max_scores:
        raise ValidationError(field, f"has {length} items; must have 1 to {settings.max_scores}")


def _check_target(field: str, target: str, settings: Settings) -> None:
    if target in settings.products:
        raise ValidationError(field, one_score_for(target, settings), target)
    if target not in settings.known_targets:
        known = ", ".join((*settings.known_targets, *settings.products))
        raise ValidationError(field, f"unknown target; known are {known}", target)


def _calibrated(snapshot: Snapshot, given: TargetScores) -> CalibratedScores:
    """By the maps of the arm that the scores are of, or by those in force."""
    number, target = len(given.scores), given.target
    atlas = atlas_of(given.arm, target, snapshot) if given.arm else snapshot.atlases[target]
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
    if atlas.group_field is not None and given.fields:
        rows = with_groups(rows, number, given, atlas)
    if isinstance(rows, list):
        rows = rows if len(rows) == number else rows * number
        found = CalibratedScores(target, atlas.look_up_few(rows, scores), atlas, rows, scores, arm)
    else:
        rows = rows if len(rows) == number else np.repeat(rows, number)
        found = CalibratedScores(target, atlas.look_up(rows, scores), atlas, rows, scores, arm)
    return found if atlas.effects is None else with_effects(found, given, atlas.effects)


VERSION_HEADER: Final = b"sirocco-version"

_COLUMNS_TYPE: Final = (b"content-type", COLUMNS.encode())


def respond(
    body: bytes, accept: bytes | None, resources: Resources, caller: Caller = ANYBODY
) -> PlainResponse:
    """The response to a request in columns.

    It is in columns too, unless the `Accept` header names JSON and not columns. Raises any of
    `HANDLED` for a bad request.
    """
    snapshot = resources.refresher.current
    request = _read_columns(body, resources.settings)
    if caller.campaigns:
        for place, campaign in enumerate(named(request, snapshot)):
            caller.check_sees(f"campaigns[{place}]", campaign)
    cut = columns_by_arm(request, snapshot)
    try:
        parts = [_calibrated_columns(one, request.header, snapshot) for one in cut]
    except (IndexError, ValidationError):
        # What meets an id beyond the list knows no more than its arm's scores: only now is it
        # searched for in all of them.
        snapshot.ids[request.target].check(request.header.dictionary, request.numbers)
        raise
    columns = quantiles(cut, parts, request.quantiles, resources.settings)
    if accept is not None and wants_json(accept, COLUMNS):
        levels = merged(cut, parts, _LEVELS) if request.header.flags & LEVELS else None
        arms = merged(cut, parts, _ARMS) if parts[0].arm else None
        more = _effects(cut, parts) if levels is not None else {}
        more |= {"quantiles": columns} if columns else {}
        return _json(merged(cut, parts, _PROBABILITIES), levels, arms, snapshot, parts, **more)
    return _columns(request, cut, parts, snapshot, columns)


def _read_columns(body: bytes, settings: Settings) -> ScoresRequest:
    request = read_scores(body, settings.max_scores, settings.fields)
    _check_target("target", request.target, settings)
    if request.names and not _fit(request.names, settings.max_campaign_bytes):
        names = [request.names[number] for number in request.numbers.tolist()]
        one = request.header.flags & ONE_CAMPAIGN
        check_each("campaign" if one else "campaigns[{}]", names, settings.max_campaign_bytes)
    if request.fields:
        check_columns(request.fields)
    return request


def _fit(names: Sequence[str], longest: int) -> bool:
    return names.fit(longest) if isinstance(names, PackedTexts) else all_fit(names, longest)


def _calibrated_columns(
    given: ColumnsOfArm, header: Header, snapshot: Snapshot
) -> CalibratedScores:
    atlas = atlas_of(given.arm, given.target, snapshot)
    rows = rows_of(given, header, atlas, snapshot)
    given = by_name(given, header, atlas, snapshot)
    if len(given.scores) > FEW:
        return _looked_up(given, atlas, rows, given.scores)
    return _looked_up(given, atlas, rows.tolist(), given.scores.tolist())


def _columns(
    request: ScoresRequest,
    cut: Sequence[ColumnsOfArm],
    parts: list[CalibratedScores],
    snapshot: Snapshot,
    columns: Sequence[Floats],
) -> PlainResponse:
    flags = request.header.flags
    body = pack_probabilities(
        merged(cut, parts, _PROBABILITIES),
        snapshot.ids[request.target].dictionary,
        float32=bool(flags & FLOAT32),
        levels=merged(cut, parts, _LEVEL_NUMBERS) if flags & LEVELS else None,
        arms=merged(cut, parts, _ARM_NUMBERS) if flags & UNITS else None,
        quantiles=columns,
    )
    version = (VERSION_HEADER, snapshot.version.encode())
    return PlainResponse(200, [_COLUMNS_TYPE, version, *age_headers(snapshot)], body, parts)


def _json(
    probabilities: Any,
    levels: list[Any] | None,
    arms: list[Any] | None,
    snapshot: Snapshot,
    parts: Sequence[CalibratedScores],
    **more: Any,
) -> PlainResponse:
    content = {"probabilities": probabilities, "version": snapshot.version, **more}
    if levels is not None:
        content["levels"] = levels
    if arms is not None:
        content["arms"] = arms
    packed = orjson.dumps(content, None, orjson.OPT_SERIALIZE_NUMPY)
    return PlainResponse(200, [JSON_TYPE, *age_headers(snapshot)], packed, parts)


router = APIRouter(tags=["calibrate"])

PATH: Final = "/v1/calibrate"
_PROBABILITIES, _LEVELS, _ARMS = map(attrgetter, ("probabilities", "levels", "arms"))
_EFFECTS, _MODEL_VERSIONS = map(attrgetter, ("effects", "model_versions"))
_LEVEL_NUMBERS, _ARM_NUMBERS = map(attrgetter, ("level_numbers", "arm_numbers"))
_EXAMPLE: Final = {"target": "click", "campaigns": ["a", "b"], "scores": [0.01, 0.2]}


async def calibrate(scope: Scope, receive: Receive, resources: Resources) -> PlainResponse:
    """Probabilities of scores, in the same order: columns, one campaign for all, or rows; and
    products of them (`SIROCCO_PRODUCTS`) of requests with the scores of each factor.

    `?explain=true` adds the level of map that served each score. Or binary columns; their answer
    is in binary columns too.
    """
    head = read_head(scope, resources)
    body = await read_body(dict(scope["headers"]), receive, resources, TYPES)
    work = partial(_response, head, body, caller_of(scope), resources)
    resources.shedder.in_flight += 1
    try:
        return await run_in_threadpool(work) if len(body) >= SLOW else work()
    finally:
        resources.shedder.in_flight -= 1


declare(router, PATH, calibrate, request_body({JSON: CalibrateRequest}, _EXAMPLE, [COLUMNS]))


def _response(
    head: RequestHead, body: bytes, caller: Caller, resources: Resources, most_slowly: float = inf
) -> PlainResponse:
    if head.in_columns:
        return respond(body, head.accept, resources, caller)
    settings, explain = resources.settings, head.explain
    request = read_request(body, settings, most_slowly)
    given = read_scores_of(request, settings)
    wants_quantiles = request.interval is not UNSET or request.quantile is not UNSET
    wanted = columns_wanted(request, settings) if wants_quantiles else None
    if caller.campaigns:
        check_sees(given, request, caller)
    snapshot = resources.refresher.current
    if settings.products and any(one.factors for one in given):
        return _with_products(given, snapshot, explain)
    if given[0].units:
        given, parts = _by_arm(given, snapshot)
    else:
        parts = [*map(partial(_calibrated, snapshot), given)]
    probabilities = parts[0].probabilities
    if len(parts) > 1:
        probabilities = merged(given, parts, _PROBABILITIES)
    levels = merged(given, parts, _LEVELS) if explain else None
    arms = merged(given, parts, _ARMS) if given[0].units else None
    more = _effects(given, parts) if explain else {}
    if explain and request.names_versions:
        more["model_versions"] = merged(given, parts, _MODEL_VERSIONS)
    if wanted:
        found = quantiles(given, parts, wanted.levels, settings, wanted.field)
        more |= zip(wanted.names, found, strict=True)
    return _json(probabilities, levels, arms, snapshot, parts, **more)


PROMPT: Final = PromptEndpoint(read_prompt, partial(_response, most_slowly=SLOW), patience=PATIENCE)


def _by_arm(
    given: Iterable[TargetScores], snapshot: Snapshot
) -> tuple[list[TargetScores], list[CalibratedScores]]:
    """The scores of each arm that has any, and what serves them."""
    cut = [part for one in given for part in by_arm(one, snapshot)]
    return cut, [_calibrated(snapshot, one) for one in cut]


def _with_products(given: list[TargetScores], snapshot: Snapshot, explain: bool) -> PlainResponse:
    """The response to scores some of which are of products."""
    found: list[CalibratedProduct | CalibratedFactor] = []
    parts: list[CalibratedScores] = []
    for one in given:
        scores = one.factors or {one.target: one.scores}
        some = [_factor(one, target, column, snapshot) for target, column in scores.items()]
        parts += chain.from_iterable(factor.parts for factor in some)
        found.append(CalibratedProduct(some, one.values) if one.factors else some[0])

    def column(name: str) -> Any:
        return merged(given, found, methodcaller("column", name))

    levels = column("levels") if explain else None
    arms = column("arms") if given[0].units else None
    more = {"effects": column("effects")} if explain and has_effects(parts) else {}
    if any(one.values for one in given):
        more["expected_values"] = merged(given, found, expected_values)
    return _json(column("probabilities"), levels, arms, snapshot, parts, **more)


def _factor(
    of: TargetScores, target: str, scores: Sequence[float], snapshot: Snapshot
) -> CalibratedFactor:
    given = TargetScores(target, of.campaigns, scores, units=of.units, fields=of.fields)
    if of.units:
        return CalibratedFactor(target, *_by_arm([given], snapshot))
    return CalibratedFactor(target, [given], [_calibrated(snapshot, given)])


def _effects(given: Sequence[Any], parts: Sequence[CalibratedScores]) -> dict[str, Any]:
    """What an explanation adds where any maps have effects of fields."""
    return {"effects": merged(given, parts, _EFFECTS)} if has_effects(parts) else {}
