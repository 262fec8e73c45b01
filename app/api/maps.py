"""The calibration maps: one as JSON, all of a target as bytes, the interned ids of their campaigns,
and `GET /v1/campaigns`: who has a map of one's own, and how the largest do.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor

from app.api.authorization import By, Caller
from app.api.hot_path import JSON, age_headers
from app.api.problems import not_found
from app.api.resources import Given, Resources
from app.api.snapshot import Snapshot
from app.events.schema import check_campaign
from app.storage.bins import BinsStore
from app.storage.errors import StorageUnavailable
from app.storage.experiments import CHALLENGER_OF
from app.storage.overrides import frozen_name
from app.strict_json import ValidationError, show
from calibrators import Atlas
from calibrators.arms import CHALLENGER, CHAMPION
from calibrators.bins.model_versions import SEPARATOR
from calibrators.evidence import DIRECTIONS, SUMS, bound_of
from calibrators.maps.atlas import CAMPAIGN, IDENTITY
from calibrators.samples import Floats


class _Campaign(PathConvertor):
    """The rest of a path, which may have line ends in it; the framework's stops there. It takes
    that one's name, `path`, which stands in the label `route` of metrics."""

    regex = "(?s:.*)"


register_url_convertor("path", _Campaign())

TargetQuery = Annotated[str | None, Query(description="Default: the first immediate target.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Most campaigns of one answer.")]
After = Annotated[str, Query(description="`next` of the page before.")]
Order = Annotated[
    Literal["name", "evidence"],
    Query(description="`evidence`: every campaign with traffic, what is furthest off first."),
]


def page_of(names: Sequence[str], limit: int, after: str) -> tuple[Sequence[str], str | None]:
    """At most `limit` of the sorted names behind `after`; the last of them if more follow."""
    start = bisect_right(names, after)
    page = names[start : start + limit]
    return page, page[-1] if start + limit < len(names) else None


def known_target(resources: Resources, target: str) -> str:
    """The target; a 404 problem that lists the known ones if it is not among them."""
    known = resources.settings.known_targets
    if target not in known:
        raise not_found(f"target = {show(target)}: unknown target; known are {', '.join(known)}")
    return target


_REPORTED: Final = ("calibrator", "overridden", "guard", "method")
# Reports of earlier versions of sirocco have no decisions.
_PASSED: Final = ("passed", None)


def target_fit(snapshot: Snapshot, target: str) -> dict[str, Any]:
    """The calibrator of the target, how many campaigns have others, what the guard decided, and the
    numbers of the method, each None where the report does not say; and which of the largest
    campaigns the guard held back."""
    report = snapshot.report_of(target)
    decided = ((row["campaign"], row.get("decision")) for row in report.get("top", []))
    held = {campaign: decision for campaign, decision in decided if decision not in _PASSED}
    return {**{name: report.get(name) for name in _REPORTED}, "held": held}


def map_calibrator(
    snapshot: Snapshot, target: str, campaign: str, label: str = CHAMPION
) -> str | None:
    """What made the map of the campaign, of those that serve or those on trial; None for the
    identity, and where the report does not say."""
    atlases = snapshot.atlases if label == CHAMPION else snapshot.challengers
    level, report = atlases[target].level(campaign), snapshot.report_of(target)
    if level == IDENTITY:
        return None
    made = report if label == CHAMPION else report.get(CHALLENGER, {})
    whole: str | None = made.get("calibrator")
    own: Mapping[str, str] = report.get("overrides", {}) if level == CAMPAIGN else {}
    return own.get(campaign, whole)


def reports_of(snapshot: Snapshot, target: str) -> dict[str, dict[str, Any]]:
    """What the refit reported of the largest campaigns, by name."""
    return {row["campaign"]: row for row in snapshot.report_of(target).get("top", [])}


Search = Annotated[str, Query(max_length=256, description="Names with this in them; any case.")]

router = APIRouter(prefix="/v1", tags=["maps"])

_EVALUATED: Final = ("evaluated_until", "hour", "window", "off")


@router.get("/products")
async def list_products(given: Given) -> dict[str, Any]:
    """The factors of each product of targets, and how well it predicts as one."""
    return {"version": given.refresher.current.version, "products": products_of(given)}


def products_of(given: Resources) -> dict[str, dict[str, Any]]:
    """What the version in force reports of each product that is declared."""
    settings, report = given.settings, given.refresher.current.report
    reports: Mapping[str, Mapping[str, Any]] = report.get("products", {})
    return {
        name: {
            "factors": factors,
            "evaluated_by": settings.evaluated_by(name),
            **{field: reports.get(name, {}).get(field) for field in _EVALUATED},
        }
        for name, factors in settings.products.items()
    }


ATLAS_TYPE = "application/vnd.sirocco.atlas"


Label = Annotated[
    Literal["champion", "challenger"],
    Query(description="`champion`: the maps that serve; `challenger`: those on trial."),
]


@router.get("/maps/{target}/{campaign:path}")
async def show_map(
    given: Given, by: By, target: str, campaign: str, label: Label = "champion"
) -> dict[str, Any]:
    """The map that serves the campaign, or that on trial: knots and values, linear in between."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    by.caller.check_sees("campaign", campaign)
    snapshot = given.refresher.current
    atlas = _labelled(snapshot, known_target(given, target), label)
    return {
        "target": target,
        "campaign": campaign,
        "version": snapshot.version,
        "as_of": snapshot.as_of,
        "level": atlas.level(campaign),
        "calibrator": map_calibrator(snapshot, target, campaign, label),
        **atlas.map_of(campaign).to_json(),
    }


def _labelled(snapshot: Snapshot, target: str, label: str) -> Atlas:
    """The maps of a target by their label; a 404 problem where nothing is on trial."""
    maps = snapshot.atlases if label == CHAMPION else snapshot.challengers
    if target not in maps:
        raise not_found(f"label = {show(label)}: {target} has no maps on trial")
    return maps[target]


@router.get(
    "/atlas/{target}", response_class=Response, responses={304: {"description": "Not changed."}}
)
async def download_atlas(
    given: Given,
    target: str,
    label: Label = "champion",
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """All maps of the target, or all on trial, in the documented bytes; 304 while the `ETag` still
    holds."""
    snapshot = given.refresher.current
    _labelled(snapshot, known_target(given, target), label)
    name = target if label == CHAMPION else CHALLENGER_OF(target)
    packed = snapshot.packed[name]
    etag = f'"{snapshot.version}-{name}"'
    return _tagged(etag, if_none_match, snapshot, lambda: packed, ATLAS_TYPE)


@router.get(
    "/atlas/{target}/ids",
    response_class=Response,
    responses={304: {"description": "The list has not changed, whatever the version is."}},
)
async def list_ids(
    given: Given, target: str, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """Interned ids for binary bodies: i + 1 stands for `campaigns[i]`, 0 for any campaign without a
    map of its own. `dictionary` says which list it is."""
    snapshot = given.refresher.current
    ids = snapshot.ids[known_target(given, target)]
    dictionary = f"{ids.dictionary:016x}"
    # Weak: the version is in it too, and changes more often than the list.
    etag = f'W/"{dictionary}-{target}"'
    content = {
        "target": target,
        "version": snapshot.version,
        "dictionary": dictionary,
        "campaigns": ids.campaigns,
    }
    return _tagged(etag, if_none_match, snapshot, lambda: orjson.dumps(content), JSON)


def _tagged(
    etag: str,
    if_none_match: str | None,
    snapshot: Snapshot,
    content: Callable[[], bytes],
    media_type: str,
) -> Response:
    """The content under its ETag, or 304 if the caller has it."""
    age = {name.decode(): value.decode() for name, value in age_headers(snapshot)}
    version = {"ETag": etag, "Cache-Control": "no-cache", "Sirocco-Version": snapshot.version}
    tags = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
    if tags & {etag.removeprefix("W/"), "*"}:
        return Response(status_code=304, headers=version | age)
    return Response(content(), headers=version | age, media_type=media_type)


campaigns_router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"])

Report = dict[str, Any]


@campaigns_router.get("")
async def list_campaigns(
    given: Given,
    by: By,
    target: TargetQuery = None,
    limit: Limit = 100,
    after: After = "",
    sort: Order = "name",
    search: Search = "",
) -> dict[str, Any]:
    """Campaigns with a map of their own, by name, or all with traffic, by evidence; `next` is null
    on the last page. `total` counts those that the `search` finds."""
    chosen = known_target(given, target or given.settings.targets[0])
    snapshot, own = given.refresher.current, by.caller
    fit = target_fit(snapshot, chosen)
    if own.campaigns:
        # Counts tell of the campaigns of all.
        fit = {**dict.fromkeys(fit), "calibrator": fit["calibrator"], "held": fit["held"]}
    if sort == "evidence":
        start = _place(after)
        said = await run_in_threadpool(_watched, given.bins, chosen, own, limit, start, search)
    else:
        names = await run_in_threadpool(_seen, snapshot.atlases[chosen].campaigns, own, search)
        page, following = page_of(names, limit, after)
        rows = [{"campaign": name} for name in page]
        said = {"total": len(names), "campaigns": rows, "next": following}
    reports = reports_of(snapshot, chosen)
    for row in said["campaigns"]:
        row["calibrator"] = map_calibrator(snapshot, chosen, row["campaign"])
        row["report"] = reports.get(row["campaign"])
    held = {name: why for name, why in fit["held"].items() if own.sees(name)}
    return {"target": chosen, "version": snapshot.version, **fit, "held": held, **said}


def _place(after: str) -> int:
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise ValidationError("after", "must be the `next` of the page before", after)
    return int(after or 0)


def _watched(
    bins: BinsStore, target: str, caller: Caller, limit: int, start: int, search: str
) -> Report:
    """At most `limit` campaigns behind the first `start`, most evidence first: how far each is off,
    and between which bounds its PCOC lies. Reads the store."""
    parts = list(bins.evidence.shards(target))
    names = [name for part in parts for name in part.campaigns]
    values = np.hstack([part.values for part in parts])
    directions = np.hstack([part.directions for part in parts])
    order = np.argsort(-directions.max(axis=0), kind="stable").tolist()
    wanted = set(_seen(names, caller, search))
    seen = [at for at in order if names[at] in wanted]
    bound = bound_of(len(names))
    rows = [
        {"campaign": names[at], "pcoc": _pcoc_row(values[:, at], directions[:, at], bound)}
        for at in seen[start : start + limit]
    ]
    following = str(start + limit) if start + limit < len(seen) else None
    # It follows from how many campaigns there are.
    told = None if caller.campaigns else bound
    return {"total": len(seen), "bound": told, "campaigns": rows, "next": following}


def _pcoc_row(values: Floats, directions: Floats, bound: float) -> Report:
    sums = dict(zip(SUMS, values.tolist(), strict=False))
    predicted, positives, upper = sums["predicted"], sums["positives"], sums["upper"]
    strongest = int(directions.argmax())
    evidence = float(directions[strongest])
    return {
        "predicted": predicted,
        "positives": positives,
        "value": predicted / positives if positives > 0.0 else None,
        "lower": sums["lower"],
        "upper": upper if isfinite(upper) else None,
        "evidence": evidence,
        "direction": DIRECTIONS[strongest],
        "off": evidence >= bound,
    }


@campaigns_router.get("/{campaign:path}")
async def show_campaign(given: Given, by: By, campaign: str) -> dict[str, Any]:
    """What serves the campaign, by target; whether it is `frozen`, itself or with its target (null
    while the store is away); its report only while it is among the largest."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    by.caller.check_sees("campaign", campaign)
    snapshot = given.refresher.current
    targets = {target: _served(snapshot, target, campaign) for target in snapshot.atlases}
    for target, served in targets.items():
        served["frozen"] = await run_in_threadpool(_frozen, given, target, campaign)
    return {"campaign": campaign, "version": snapshot.version, "targets": targets}


def _frozen(given: Resources, target: str, campaign: str) -> bool | None:
    try:
        return given.frozen.holds(target, frozen_name(target, campaign))
    except StorageUnavailable:
        return None


def _seen(campaigns: Sequence[str], caller: Caller, search: str) -> Sequence[str]:
    """Those that the caller sees, and the search finds; not their names by model version."""
    campaigns = [name for name in campaigns if SEPARATOR not in name and caller.sees(name)]
    part = search.casefold()
    return [name for name in campaigns if part in name.casefold()] if part else campaigns


def _served(snapshot: Snapshot, target: str, campaign: str) -> Report:
    atlas, reports = snapshot.atlases[target], reports_of(snapshot, target)
    return {
        "level": atlas.level(campaign),
        "knots": len(atlas.map_of(campaign).knots),
        "calibrator": map_calibrator(snapshot, target, campaign),
        "report": reports.get(campaign),
    }
