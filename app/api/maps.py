"""The calibration maps themselves: one as JSON, or all of a target as bytes."""

from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import Response

from app.api.resources import Given
from app.api.targets import known_target
from app.events.admission import check_campaign

router = APIRouter(prefix="/v1", tags=["maps"])

ATLAS_TYPE = "application/vnd.sirocco.atlas"


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
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Sirocco-Version": snapshot.version}
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    return Response(packed, headers=headers, media_type=ATLAS_TYPE)


def _matches(if_none_match: str, etag: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return bool(tags & {etag, "*"})
