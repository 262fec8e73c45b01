"""The calibration maps themselves: one as JSON, or all of a target as bytes; and the interned ids
of their campaigns."""

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header
from fastapi.responses import Response

from app.api.body import JSON
from app.api.map_age import age_headers
from app.api.map_calibrators import map_calibrator
from app.api.resources import Given
from app.api.snapshot import Snapshot
from app.api.targets import known_target
from app.events.campaign_names import check_campaign

router = APIRouter(prefix="/v1", tags=["maps"])

ATLAS_TYPE = "application/vnd.sirocco.atlas"

_IDS_SCHEMA: Final = {
    "type": "object",
    "required": ["target", "version", "dictionary", "campaigns"],
    "properties": {
        "target": {"type": "string"},
        "version": {"type": "string"},
        "dictionary": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "campaigns": {"type": "array", "items": {"type": "string"}},
    },
}


@router.get("/maps/{target}/{campaign:path}")
async def show_map(given: Given, target: str, campaign: str) -> dict[str, Any]:
    """The map that serves the campaign: knots and values, linear in between."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    snapshot = given.refresher.current
    atlas = snapshot.atlases[known_target(given, target)]
    return {
        "target": target,
        "campaign": campaign,
        "version": snapshot.version,
        "as_of": snapshot.as_of,
        "level": atlas.level(campaign),
        "calibrator": map_calibrator(snapshot, target, campaign),
        **atlas.map_of(campaign).to_json(),
    }


@router.get(
    "/atlas/{target}",
    response_class=Response,
    responses={200: {"content": {ATLAS_TYPE: {}}}, 304: {"description": "Not changed."}},
)
async def download_atlas(
    given: Given, target: str, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """All maps of the target in the documented bytes; 304 while the `ETag` still holds."""
    snapshot = given.refresher.current
    packed = snapshot.packed[known_target(given, target)]
    etag = f'"{snapshot.version}-{target}"'
    headers = _headers(etag, snapshot)
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(packed, headers=headers, media_type=ATLAS_TYPE)


@router.get(
    "/atlas/{target}/ids",
    response_class=Response,
    responses={
        200: {"content": {JSON: {"schema": _IDS_SCHEMA}}, "description": "The list in force."},
        304: {"description": "The list has not changed, whatever the version is."},
    },
)
async def list_ids(
    given: Given, target: str, if_none_match: Annotated[str | None, Header()] = None
) -> Response:
    """Interned ids for binary bodies: i + 1 stands for `campaigns[i]`, 0 for any campaign without a
    map of its own. `dictionary` says which list it is."""
    snapshot = given.refresher.current
    ids = snapshot.ids[known_target(given, target)]
    dictionary = f"{ids.dictionary:016x}"
    # Weak: the version is told too, and changes more often than the list.
    etag = f'W/"{dictionary}-{target}"'
    headers = _headers(etag, snapshot)
    if if_none_match is not None and _matches(if_none_match, etag.removeprefix("W/")):
        return Response(status_code=304, headers=headers)
    content = {
        "target": target,
        "version": snapshot.version,
        "dictionary": dictionary,
        "campaigns": ids.campaigns,
    }
    return Response(orjson.dumps(content), headers=headers, media_type=JSON)


def _headers(etag: str, snapshot: Snapshot) -> dict[str, str]:
    age = {name.decode(): value.decode() for name, value in age_headers(snapshot)}
    return {
        "ETag": etag,
        "Cache-Control": "no-cache",
        "Sirocco-Version": snapshot.version,
        **age,
    }


def _matches(if_none_match: str, etag: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return bool(tags & {etag, "*"})
