"""What operators ask for: a refit now, how it went, and which versions there are."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.api.body import JSON, read_body
from app.api.map_calibrators import target_fit
from app.api.openapi import request_body
from app.api.problems import not_found
from app.api.resources import Given
from app.events.campaign_names import check_campaign
from app.events.open_times import OpenTimes, Untimely
from app.events.schema import Time
from app.settings import Settings
from app.strict_json import BrokenRule, Rule, decode, show

router = APIRouter(prefix="/v1/admin", tags=["admin"])

RETRAIN: Final = "retrain"
TRAIN: Final = "train"
_MOST_CAMPAIGNS: Final = 10_000


class RetrainRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What to refit, and as of when; everything and now by default."""

    target: str | None = None
    campaigns: list[str] | None = None
    as_of: Annotated[Time, Meta(description="The end of the window.")] | None = None


class TrainRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Which delayed target's post-click model to train, and as of when; all and now by default."""

    target: str | None = None
    as_of: Annotated[Time, Meta(description="What came later is not known.")] | None = None


_RETRAIN: Final = msgspec.json.Decoder(RetrainRequest)
_TRAIN: Final = msgspec.json.Decoder(TrainRequest)
_RULES: Final = {
    "target": Rule("must be a string"),
    "campaigns": Rule("must be an array of strings"),
    "campaigns[]": Rule("must be a string"),
    "as_of": Rule("must be a time: RFC 3339 with a time zone, or epoch seconds"),
}


@router.post(
    "/retrain",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=request_body({JSON: RetrainRequest}, {"target": "click"}),
)
async def retrain(request: Request, given: Given) -> JSONResponse:
    """Queue a refit; an equal one that waits already is the same job. An empty body means all."""
    body = await given_body(request, given)
    wanted = decode(body or b"{}", _RETRAIN, _RULES)
    content = _moment(wanted.as_of, given.settings)
    if wanted.target is not None:
        content["target"] = _one_of(wanted.target, given.settings.known_targets, "a target")
    if wanted.campaigns is not None:
        content["campaigns"] = _campaigns(wanted.campaigns, given.settings)
    return await _queued(given, RETRAIN, content)


@router.post(
    "/pccem/train",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=request_body({JSON: TrainRequest}, {"target": "conversion"}),
)
async def train(request: Request, given: Given) -> JSONResponse:
    """Queue a training of post-click models; an equal one that waits already is the same job."""
    body = await given_body(request, given)
    wanted = decode(body or b"{}", _TRAIN, _RULES)
    content = _moment(wanted.as_of, given.settings)
    if wanted.target is not None:
        delayed = given.settings.delayed_targets
        content["target"] = _one_of(wanted.target, delayed, "a delayed target")
    return await _queued(given, TRAIN, content)


@router.get("/jobs/{job_id}")
def show_job(given: Given, job_id: str) -> dict[str, Any]:
    """How a job is going: queued, running, done or failed."""
    job = given.jobs.get(job_id)
    if job is None:
        raise not_found(f"job = {show(job_id)}: there is no such job, or it is over a day old")
    return asdict(job)


@router.get("/versions")
def list_versions(given: Given) -> dict[str, Any]:
    """The versions kept, newest first; the one that this process serves, and what made its maps."""
    snapshot = given.refresher.current
    made = {target: target_fit(snapshot, target)["calibrator"] for target in snapshot.atlases}
    return {
        "serving": snapshot.version,
        "calibrators": made,
        "versions": given.versions.history(),
    }


async def given_body(request: Request, given: Given) -> bytes:
    """The body of an operator's request, within the bounds of all bodies."""
    headers = dict(request.scope["headers"])
    return await read_body(headers, request.receive, given.settings.max_body_bytes)


async def _queued(given: Given, kind: str, content: dict[str, Any]) -> JSONResponse:
    job = await run_in_threadpool(given.jobs.submit, kind, content, time.time())
    location = f"{router.prefix}/jobs/{job.id}"
    return JSONResponse(asdict(job), HTTPStatus.ACCEPTED, {"Location": location})


def _one_of(target: str, known: Sequence[str], what: str) -> str:
    if target not in known:
        raise BrokenRule("target", f"must be {what}: {', '.join(known) or 'there is none'}", target)
    return target


def _campaigns(campaigns: list[str], settings: Settings) -> list[str]:
    if not 1 <= len(campaigns) <= _MOST_CAMPAIGNS:
        rule = f"has {len(campaigns)} items; must have 1 to {_MOST_CAMPAIGNS}"
        raise BrokenRule("campaigns", rule)
    for place, campaign in enumerate(campaigns):
        check_campaign(f"campaigns[{place}]", campaign, settings.max_campaign_bytes)
    return sorted(set(campaigns))


def _moment(as_of: Time | None, settings: Settings) -> dict[str, Any]:
    if as_of is None:
        return {}
    event_clock = settings.clock == "event"
    times = OpenTimes.since(None, settings) if event_clock else OpenTimes.at(time.time(), settings)
    try:
        return {"as_of": times.check("as_of", as_of)}
    except Untimely:
        raise BrokenRule("as_of", "must not be in the future", str(as_of)) from None
