"""What operators do: a refit or a training now, how it went, which versions there are, and
calibrators of single campaigns.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from http import HTTPStatus
from math import floor
from typing import Annotated, Any, Final, TypeVar

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.api.authorization import ADMIN_PATH, By
from app.api.hot_path import JSON, read_body, request_body
from app.api.maps import After, Limit, TargetQuery, known_target, page_of
from app.api.problems import not_found
from app.api.resources import Given, Resources
from app.events.rejections import OpenTimes, Untimely, iso
from app.events.schema import Time, check_campaign, check_each
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.jobs import RETRAIN, TRAIN, Job
from app.strict_json import ValidationError, decode, show
from calibrators.registry import METHODS

router = APIRouter(prefix=ADMIN_PATH, tags=["admin"])

_MOST_CAMPAIGNS: Final = 10_000
_MOST_LISTED: Final = 20


# Documented here and checked elsewhere, where the error can say more.
SOME_CAMPAIGNS: Final = Meta(extra_json_schema={"minItems": 1, "maxItems": _MOST_CAMPAIGNS})
_SOME_METHOD: Final = Meta(extra_json_schema={"enum": list(METHODS)})


class RetrainRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What to refit, and as of when; everything and now by default."""

    target: str | None = None
    campaigns: Annotated[list[str], SOME_CAMPAIGNS] | None = None
    as_of: Annotated[Time, Meta(description="The end of the window.")] | None = None
    allow_past: Annotated[bool, Meta(description="Allow an `as_of` before the window.")] = False


class TrainRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Which delayed target's post-click model to train, and as of when; all and now by default."""

    target: str | None = None
    as_of: Annotated[Time, Meta(description="What came later is not known.")] | None = None


Wanted = TypeVar("Wanted", RetrainRequest, TrainRequest)

_RETRAIN: Final = msgspec.json.Decoder(RetrainRequest)
_TRAIN: Final = msgspec.json.Decoder(TrainRequest)
_RULES: Final = {
    "target": "must be a string",
    "campaigns": "must be an array of strings",
    "campaigns[]": "must be a string",
    "as_of": "must be a time: RFC 3339 with a time zone, or epoch seconds",
    "allow_past": "must be true or false",
}


@router.post(
    "/retrain",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=request_body({JSON: RetrainRequest}, {"target": "click"}, required=False),
)
async def retrain(request: Request, given: Given, by: By) -> JSONResponse:
    """Queue a refit; an equal one that waits already is the same job. An empty body means all."""
    targets = given.settings.known_targets
    wanted, content = await _wanted(request, given, _RETRAIN, targets, "a target")
    if wanted.campaigns is not None:
        content["campaigns"] = checked_campaigns(wanted.campaigns, given.settings)
    if "as_of" in content and not wanted.allow_past:
        await run_in_threadpool(_check_in_window, given, content["as_of"])
    return await queued(given, by, RETRAIN, content)


@router.post(
    "/pccem/train",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=request_body({JSON: TrainRequest}, {"target": "conversion"}, required=False),
)
async def train(request: Request, given: Given, by: By) -> JSONResponse:
    """Queue a training of post-click models; an equal one that waits already is the same job."""
    targets = given.settings.delayed_targets
    _, content = await _wanted(request, given, _TRAIN, targets, "a delayed target")
    return await queued(given, by, TRAIN, content)


@router.get("/jobs")
def list_jobs(given: Given) -> dict[str, Any]:
    """The last jobs of a day at most, newest first."""
    return {"jobs": [asdict(job) for job in given.jobs.newest(_MOST_LISTED)]}


@router.get("/jobs/{job_id}")
def show_job(given: Given, job_id: str) -> dict[str, Any]:
    """How a job is going: queued, running, done, failed or cancelled. While it is queued,
    `progress` is what the worker is at, if one gives signs of life."""
    job = _known_job(given.jobs.get(job_id), job_id)
    if job.status == "queued" and (
        phase := given.refresher.worker_phase(given.settings.lease_seconds)
    ):
        at = ", which is idle" if phase == "idle" else f": {phase}"
        job = replace(job, progress=f"waits for the worker{at}")
    return asdict(job)


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(given: Given, by: By, job_id: str) -> dict[str, Any]:
    """Cancel a job: one that waits at once, one that runs at its next step, before it publishes.
    One that has finished stays as it is."""
    job = _known_job(await run_in_threadpool(given.jobs.get, job_id), job_id)
    cancelled = await by.changes(
        "cancel-job",
        lambda: given.jobs.cancel(job_id, time.time()),
        target=f"job {job_id}",
        before={"kind": job.kind, "status": job.status},
    )
    return asdict(_known_job(cancelled, job_id))


def _known_job(job: Job | None, job_id: str) -> Job:
    if job is None:
        raise not_found(f"job = {show(job_id)}: there is no such job, or it is over a day old")
    return job


async def given_body(request: Request, given: Given) -> bytes:
    """The body of an operator's request, within the bounds of all bodies."""
    headers = dict(request.scope["headers"])
    return await read_body(headers, request.receive, given)


async def _wanted(
    request: Request,
    given: Given,
    decoder: msgspec.json.Decoder[Wanted],
    targets: Sequence[str],
    what: str,
) -> tuple[Wanted, dict[str, Any]]:
    """What the body says, and the job's moment and target as it is queued."""
    wanted = decode(await given_body(request, given) or b"{}", decoder, _RULES)
    content = _moment(wanted.as_of, given.settings)
    if wanted.target is not None:
        if wanted.target not in targets:
            rule = f"must be {what}: {', '.join(targets) or 'there is none'}"
            raise ValidationError("target", rule, wanted.target)
        content["target"] = wanted.target
    return wanted, content


async def queued(
    given: Resources, by: By, kind: str, content: dict[str, Any], before: object = None
) -> JSONResponse:
    job = await _submitted(given, by, kind, content, before)
    location = f"{router.prefix}/jobs/{job.id}"
    return JSONResponse(asdict(job), HTTPStatus.ACCEPTED, {"Location": location})


async def _submitted(
    given: Resources, by: By, kind: str, content: dict[str, Any], before: object = None
) -> Job:
    """The job, once the audit log names who asked for it."""
    return await by.changes(
        kind,
        lambda: given.jobs.submit(kind, content, time.time()),
        target=content.get("version") or content.get("target") or "all targets",
        before=before,
        after=content,
    )


def checked_campaigns(campaigns: list[str], settings: Settings) -> list[str]:
    """Each once, sorted; raises ValidationError."""
    if not 1 <= len(campaigns) <= _MOST_CAMPAIGNS:
        rule = f"has {len(campaigns)} items; must have 1 to {_MOST_CAMPAIGNS}"
        raise ValidationError("campaigns", rule)
    check_each("campaigns[{}]", campaigns, settings.max_campaign_bytes)
    return sorted(set(campaigns))


def _moment(as_of: Time | None, settings: Settings) -> dict[str, Any]:
    if as_of is None:
        return {}
    event_clock = settings.clock == "event"
    times = OpenTimes.since(None, settings) if event_clock else OpenTimes.at(time.time(), settings)
    try:
        return {"as_of": times.check("as_of", as_of)}
    except Untimely:
        raise ValidationError("as_of", "must not be in the future", str(as_of)) from None


def _check_in_window(given: Resources, as_of: float) -> None:
    """Raises ValidationError on a moment before the window that ends now: maps of the past would
    take the place of those in force. By the events' clock `now` is the end of their newest hour."""
    settings, now = given.settings, time.time()
    if settings.clock == "event":
        hours = [hour for name in settings.targets for hour in given.bins.hours(name)]
        now = (max(hours, default=-1) + 1) * float(SECONDS_PER_HOUR)
    if as_of < now - settings.window_hours * SECONDS_PER_HOUR:
        rule = (
            f"must be within SIROCCO_WINDOW_HOURS ({settings.window_hours}) before {iso(now)},"
            " unless allow_past is true"
        )
        raise ValidationError("as_of", rule, iso(as_of))


_MINUTE: Final = 60.0


def next_refit_at(settings: Settings, target: str, now: float) -> float | None:
    """Epoch seconds of the target's next refit; None by the events' clock, where only jobs refit.

    Whole hours wait for their late events, the moments between them do not; delayed targets are
    refitted at whole hours only.
    """
    if settings.clock == "event":
        return None
    pause = settings.refit_minutes * _MINUTE
    late = min(settings.refit_delay_seconds, pause)
    step = SECONDS_PER_HOUR if target in settings.delayed_targets else pause
    moment = floor(now / step) * step
    while (begins := moment + (0.0 if moment % SECONDS_PER_HOUR else late)) <= now:
        moment += step
    return begins


overrides_router = APIRouter(prefix="/v1/admin/overrides", tags=["admin"])


class OverrideRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """The calibrator that a campaign is to have instead of its target's."""

    calibrator: Annotated[str, _SOME_METHOD]


_OVERRIDE: Final = msgspec.json.Decoder(OverrideRequest)
_RULE: Final = f"must be one of {', '.join(METHODS)}"
_OVERRIDE_RULES: Final = {"calibrator": _RULE}

Retrain = Annotated[bool, Query(description="Queue a refit of the campaign at once.")]


@overrides_router.get("")
def list_overrides(
    given: Given, target: TargetQuery = None, limit: Limit = 100, after: After = ""
) -> dict[str, Any]:
    """Campaigns that have a calibrator of their own, by name; `next` is null on the last page."""
    stored = given.overrides.read()
    chosen = target or given.settings.targets[0]
    # Of a target that the settings do not name any more, so that it can be tidied up.
    if chosen not in stored:
        known_target(given, chosen)
    own = stored.get(chosen, {})
    names = sorted(own)
    page, following = page_of(names, limit, after)
    return {
        "target": chosen,
        "total": len(names),
        "targets": {name: len(campaigns) for name, campaigns in sorted(stored.items())},
        "overrides": [{"campaign": name, "calibrator": own[name]} for name in page],
        "next": following,
    }


@overrides_router.put(
    "/{target}/{campaign:path}",
    openapi_extra=request_body({JSON: OverrideRequest}, {"calibrator": "sir"}),
)
async def set_override(
    request: Request, given: Given, by: By, target: str, campaign: str, retrain: Retrain = False
) -> dict[str, Any]:
    """Give a campaign a calibrator of its own, from its next refit on."""
    wanted = decode(await given_body(request, given), _OVERRIDE, _OVERRIDE_RULES)
    known_target(given, target)
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    if wanted.calibrator not in METHODS:
        raise ValidationError("calibrator", _RULE, wanted.calibrator)
    stored = await run_in_threadpool(given.overrides.read)
    await by.changes(
        "set-override",
        lambda: given.overrides.put(target, campaign, wanted.calibrator),
        target=f"{target}:{campaign}",
        before=stored.get(target, {}).get(campaign),
        after=wanted.calibrator,
    )
    return await _overridden(given, by, target, campaign, wanted.calibrator, retrain)


@overrides_router.delete("/{target}/{campaign:path}")
async def delete_override(
    given: Given, by: By, target: str, campaign: str, retrain: Retrain = False
) -> dict[str, Any]:
    """Leave a campaign to the calibrator of its target again, from its next refit on."""
    check_campaign("campaign", campaign, given.settings.max_campaign_bytes)
    # Looked up, because no target may have a colon: the store would take its parts for others.
    stored = await run_in_threadpool(given.overrides.read)
    if campaign not in stored.get(target, {}):
        raise not_found(f"campaign = {show(campaign)}: has no calibrator of its own")
    await by.changes(
        "delete-override",
        lambda: given.overrides.delete(target, campaign),
        target=f"{target}:{campaign}",
        before=stored[target][campaign],
    )
    if target not in given.settings.known_targets:
        return {"target": target, "campaign": campaign, "calibrator": None, "next_refit_at": None}
    promoted = given.refresher.current.report.get("methods", {})
    calibrator = promoted.get(target) or given.settings.calibrator_of(target)
    return await _overridden(given, by, target, campaign, calibrator, retrain)


async def _overridden(
    given: Resources, by: By, target: str, campaign: str, calibrator: str, retrain: bool
) -> dict[str, Any]:
    """What the campaign's next refit will use, and when that is; queues one at once if wanted."""
    now = time.time()
    answer = {
        "target": target,
        "campaign": campaign,
        "calibrator": calibrator,
        "next_refit_at": next_refit_at(given.settings, target, now),
    }
    if not retrain:
        return answer
    content = {"target": target, "campaigns": [campaign]}
    job = await _submitted(given, by, RETRAIN, content)
    return {**answer, "job": asdict(job)}
