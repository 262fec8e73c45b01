"""`GET /v1/campaigns`: who has a map of one's own, and how the largest do."""

from bisect import bisect_right
from typing import Annotated, Any

from fastapi import APIRouter, Query

from app.api.map_calibrators import map_calibrator, reports_of, target_fit
from app.api.resources import Given
from app.api.snapshot import Snapshot
from app.api.targets import known_target
from app.events.campaign_names import check_campaign

router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"])

Report = dict[str, Any]


@router.get("")
async def list_campaigns(
    given: Given,
    target: Annotated[str | None, Query(description="Default: the first immediate target.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most campaigns of one answer.")] = 100,
    after: Annotated[str, Query(description="`next` of the page before.")] = "",
) -> dict[str, Any]:
    """Campaigns with a map of their own, by name; `next` is null on the last page."""
    chosen = known_target(given, target or given.settings.targets[0])
    snapshot = given.refresher.current
    names = snapshot.atlases[chosen].campaigns
    start = bisect_right(names, after)
    page = names[start : start + limit]
    reports = reports_of(snapshot, chosen)
    return {
        "target": chosen,
        "version": snapshot.version,
        **target_fit(snapshot, chosen),
        "total": len(names),
        "campaigns": [
            {
                "campaign": name,
                "calibrator": map_calibrator(snapshot, chosen, name),
                "report": reports.get(name),
            }
            for name in page
        ],
        "next": page[-1] if start + limit < len(names) else None,
    }


@router.get("/{campaign:path}")
async def show_campaign(given: Given, campaign: str) -> dict[str, Any]:
    """What serves the campaign, by target; its report only while it is among the largest."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    snapshot = given.refresher.current
    return {
        "campaign": campaign,
        "version": snapshot.version,
        "targets": {target: _served(snapshot, target, campaign) for target in snapshot.atlases},
    }


def _served(snapshot: Snapshot, target: str, campaign: str) -> Report:
    atlas, reports = snapshot.atlases[target], reports_of(snapshot, target)
    return {
        "level": atlas.level(campaign),
        "knots": len(atlas.map_of(campaign).knots),
        "calibrator": map_calibrator(snapshot, target, campaign),
        "report": reports.get(campaign),
    }
