"""Calibrators of single campaigns: which there are, setting one, and taking it back."""

import time
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from app.api.admin import RETRAIN, given_body
from app.api.body import JSON
from app.api.next_refit import next_refit_at
from app.api.openapi import request_body
from app.api.problems import not_found
from app.api.resources import Given, Resources
from app.api.targets import known_target
from app.events.campaign_names import check_campaign
from app.strict_json import BrokenRule, Rule, decode, show
from calibrators.methods import METHODS

router = APIRouter(prefix="/v1/admin/overrides", tags=["admin"])


class OverrideRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """The calibrator that a campaign is to have instead of its target's."""

    calibrator: str


_OVERRIDE: Final = msgspec.json.Decoder(OverrideRequest)
_RULE: Final = f"must be one of {', '.join(METHODS)}"
_RULES: Final = {"calibrator": Rule(_RULE)}

Retrain = Annotated[bool, Query(description="Queue a refit of the campaign at once.")]


@router.get("")
def list_overrides(
    given: Given,
    target: Annotated[str | None, Query(description="Default: the first immediate target.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Most campaigns of one answer.")] = 100,
    after: Annotated[str, Query(description="`next` of the page before.")] = "",
) -> dict[str, Any]:
    """Campaigns that have a calibrator of their own, by name; `next` is null on the last page."""
    stored = given.overrides.read()
    chosen = target or given.settings.targets[0]
    # Of a target that the settings do not name any more, so that it can be tidied up.
    own = stored[chosen] if chosen in stored else _none_of(given, chosen)
    names = sorted(own)
    start = bisect_right(names, after)
    page = names[start : start + limit]
    return {
        "target": chosen,
        "total": len(names),
        "targets": {name: len(campaigns) for name, campaigns in sorted(stored.items())},
        "overrides": [{"campaign": name, "calibrator": own[name]} for name in page],
        "next": page[-1] if start + limit < len(names) else None,
    }


@router.put(
    "/{target}/{campaign:path}",
    openapi_extra=request_body({JSON: OverrideRequest}, {"calibrator": "sir"}),
)
async def set_override(
    request: Request, given: Given, target: str, campaign: str, retrain: Retrain = False
) -> dict[str, Any]:
    """Give a campaign a calibrator of its own, from its next refit on."""
    wanted = decode(await given_body(request, given), _OVERRIDE, _RULES)
    known_target(given, target)
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    if wanted.calibrator not in METHODS:
        raise BrokenRule("calibrator", _RULE, wanted.calibrator)
    await run_in_threadpool(given.overrides.put, target, campaign, wanted.calibrator)
    return await _settled(given, target, campaign, wanted.calibrator, retrain)


@router.delete("/{target}/{campaign:path}")
async def delete_override(
    given: Given, target: str, campaign: str, retrain: Retrain = False
) -> dict[str, Any]:
    """Leave a campaign to the calibrator of its target again, from its next refit on."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    # Looked up, because no target may have a colon: the store would take its parts for others.
    stored = await run_in_threadpool(given.overrides.read)
    if campaign not in stored.get(target, {}):
        raise not_found(f"campaign = {show(campaign)}: has no calibrator of its own")
    await run_in_threadpool(given.overrides.delete, target, campaign)
    if target not in given.settings.known_targets:
        return {"target": target, "campaign": campaign, "calibrator": None, "next_refit_at": None}
    return await _settled(given, target, campaign, given.settings.calibrator_of(target), retrain)


def _none_of(given: Resources, target: str) -> Mapping[str, str]:
    known_target(given, target)
    return {}


async def _settled(
    given: Resources, target: str, campaign: str, calibrator: str, retrain: bool
) -> dict[str, Any]:
    """What the campaign's next refit will use, and when that is."""
    now = time.time()
    answer = {
        "target": target,
        "campaign": campaign,
        "calibrator": calibrator,
        "next_refit_at": next_refit_at(given.settings, target, now),
    }
    if not retrain:
        return answer
    asked = {"target": target, "campaigns": [campaign]}
    job = await run_in_threadpool(given.jobs.submit, RETRAIN, asked, now)
    return {**answer, "job": asdict(job)}
