"""Experiments: which run and how their maps do beside those that serve; start, change, stop and
promote them. The state is part of the published version, so each change is a new version.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta, Struct, to_builtins
from starlette.concurrency import run_in_threadpool

from app.api.admin import given_body
from app.api.authorization import ADMIN_PATH, By
from app.api.cockpit.rollback import with_campaigns
from app.api.cockpit.versions import in_force, published, put_in_force
from app.api.hot_path import JSON, request_body
from app.api.maps import known_target
from app.api.problems import Problem
from app.api.resources import Given, Resources
from app.api.snapshot import Snapshot
from app.settings import SECONDS_PER_HOUR
from app.storage.experiments import (
    CHALLENGER_OF,
    RUNNING,
    Experiment,
    experiments_of,
    with_entry,
    with_experiment,
    with_method,
)
from app.storage.overrides import frozen_campaigns
from app.storage.versions import Published
from app.strict_json import ValidationError, decode
from calibrators.arms import BUCKETS, CHALLENGER
from calibrators.registry import METHODS

router = APIRouter(prefix="/v1/experiments", tags=["experiments"])
admin_router = APIRouter(prefix=f"{ADMIN_PATH}/experiments", tags=["admin"])

_METHOD: Final = Meta(extra_json_schema={"enum": list(METHODS)})
_SALT: Final = Meta(min_length=1, max_length=64, description="Deals the units out; new by default.")
_SHARES: Final = Meta(description="Of the units, by arm; none is a shadow.")
Share = Annotated[float, Meta(ge=0, le=1)]


class Challenger(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """What is on trial: a method, fitted with every refit, or the maps of a version that is kept;
    nothing in a mere holdout."""

    method: Annotated[str, _METHOD] | None = None
    version: str | None = None


class ExperimentRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The experiment that is to run on a target, in the place of any other."""

    target: str
    challenger: Challenger = Challenger()
    shares: Annotated[dict[Literal["challenger", "raw"], Share], _SHARES] = {}
    salt: Annotated[str, _SALT] | None = None
    canary: Annotated[bool, Meta(description="Abort it where the challenger does harm.")] = True
    dry_run: Annotated[bool, Meta(description="Only tell what would change.")] = False


class EndRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The target whose experiment ends."""

    target: str
    dry_run: Annotated[bool, Meta(description="Only tell what would change.")] = False


class ExperimentList(Struct):
    """The experiments of the version that serves, by target."""

    version: str
    experiments: dict[str, dict[str, Any]]


class ExperimentChanged(Struct):
    """The experiment of a target after a change, if it has one; `changed` is false where it was so
    already."""

    target: str
    experiment: dict[str, Any] | None
    changed: bool
    dry_run: bool
    version: str


_START: Final = msgspec.json.Decoder(ExperimentRequest)
_END: Final = msgspec.json.Decoder(EndRequest)
_END_BODY: Final = request_body({JSON: EndRequest}, {"target": "click"})
_EXAMPLE: Final = {
    "target": "click",
    "challenger": {"method": "sir"},
    "shares": {"challenger": 0.05, "raw": 0.01},
}
_RULES: Final = {
    "target": "must be a string",
    "challenger": "must be an object with method or version",
    "method": "must be a string: the name of a method",
    "version": "must be a string: the id of a version",
    "shares": "must be an object of shares by arm, challenger and raw",
    "shares[]": "must be a number in [0, 1]",
    "salt": "must be a string of 1 to 64 characters",
    "canary": "must be true or false",
    "dry_run": "must be true or false",
}
Change = Callable[[Published], Published | None]
"""What is made of the version in force; None where nothing changes."""


@router.get("")
async def list_experiments(given: Given) -> dict[str, Any]:
    """By target the experiment, whether its maps are `ready`, and how they do beside those that
    serve, in the same hours (`shadow`), in the version that this process serves."""
    snapshot = given.refresher.current
    found = experiments_of(snapshot.report)
    return {
        "version": snapshot.version,
        "experiments": {
            target: _shown(snapshot, target, experiment)
            for target, experiment in found.items()
            if target in snapshot.atlases
        },
    }


@admin_router.post("", openapi_extra=request_body({JSON: ExperimentRequest}, _EXAMPLE))
async def start_experiment(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Start an experiment, or change the one that runs on the target.

    A method's maps are there after the next refit; until then nothing is split.
    """
    wanted = decode(await given_body(request, given), _START, _RULES)
    _check(given, wanted)
    wall = time.time()

    def change(present: Published) -> Published | None:
        # In event time it begins where the events are, as far as a refit has said.
        now = present.as_of if given.settings.clock == "event" else wall
        return started(present, wanted, lambda to: _on_trial(given, to, wanted, present), now)

    return await _changed(given, by, "start", wanted, change)


@admin_router.post("/stop", openapi_extra=_END_BODY)
async def stop_experiment(request: Request, given: Given, by: By) -> dict[str, Any]:
    """End the experiment of a target: everybody gets the maps that serve."""
    wanted = decode(await given_body(request, given), _END, _RULES)
    known_target(given, wanted.target)
    return await _changed(given, by, "stop", wanted, lambda one: stopped(one, wanted.target))


@admin_router.post("/promote", openapi_extra=_END_BODY)
async def promote_challenger(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Have everybody get the maps on trial, which ends the experiment.

    A method is that of the target from then on, in the place of the settings'. Where the challenger
    is a version, no refit replaces its maps until `POST /v1/admin/unfreeze`.
    """
    wanted = decode(await given_body(request, given), _END, _RULES)
    known_target(given, wanted.target)
    return await _changed(given, by, "promote", wanted, lambda one: promoted(one, wanted.target))


def _shown(snapshot: Snapshot, target: str, experiment: Experiment) -> dict[str, Any]:
    report = snapshot.report_of(target).get(CHALLENGER, {})
    rows = {"champion": report.get("champion", {}), CHALLENGER: report}
    shadow = {
        maps: {span: row.get(span) for span in ("hour", "window")} for maps, row in rows.items()
    }
    return {
        **experiment,
        "ready": target in snapshot.challengers or not experiment["challenger"],
        "fitted_as_of": report.get("fitted_as_of"),
        "failed": report.get("failed"),
        "shadow": shadow,
    }


def _check(given: Resources, wanted: ExperimentRequest) -> None:
    if known_target(given, wanted.target) not in (targets := given.settings.targets):
        rule = f"must be an immediate target, one of {', '.join(targets)}"
        raise ValidationError("target", rule, wanted.target)
    method, version = wanted.challenger.method, wanted.challenger.version
    is_holdout = wanted.shares.get("raw", 0.0) > 0.0 and not wanted.shares.get("challenger")
    if (method is None) is (version is None) and not (method is version is None and is_holdout):
        rule = "must have method or version, and not both; or neither where only raw has a share"
        raise ValidationError("challenger", rule, to_builtins(wanted.challenger))
    if method is not None and method not in METHODS:
        raise ValidationError("challenger.method", f"must be one of {', '.join(METHODS)}", method)
    if sum(wanted.shares.values()) > 1.0:
        raise ValidationError("shares", "must be at most 1 together", dict(wanted.shares))
    for arm, share in wanted.shares.items():
        if share > 0.0 and round(share * BUCKETS) == 0:
            rule = f"must be 0, or more than half of one of the {BUCKETS} parts that are dealt out"
            raise ValidationError(f"shares.{arm}", rule, share)


def _on_trial(
    given: Resources, version: str, wanted: ExperimentRequest, present: Published
) -> Published:
    found = published(given, version)
    if wanted.target not in found.atlases:
        raise ValidationError("challenger.version", f"must have maps of {wanted.target}", version)
    frozen = frozen_campaigns(given.frozen.read(), wanted.target)
    return with_campaigns(found, present, wanted.target, frozen) if frozen else found


async def _changed(
    given: Resources, by: By, what: str, wanted: ExperimentRequest | EndRequest, change: Change
) -> dict[str, Any]:
    """Make the change unless it is a dry run, or changes nothing."""
    target = wanted.target

    def look() -> tuple[Published, Published | None]:
        present = in_force(given)
        return present, change(present)

    present, found = await run_in_threadpool(look)
    before = experiments_of(present.report).get(target)
    after = experiments_of((found or present).report).get(target)
    version = present.version
    if found is not None and not wanted.dry_run:
        freezes = what == "promote" and "version" in (before or {}).get("challenger", {})
        frozen = [target] if freezes else []
        version = await by.changes(
            f"{what}-experiment",
            lambda: put_in_force(given, change, frozen),
            target=target,
            before=before,
            after=after,
        )
    return {
        "target": target,
        "experiment": after,
        "changed": found is not None,
        "dry_run": wanted.dry_run,
        "version": version,
    }


def started(
    present: Published, wanted: ExperimentRequest, load: Callable[[str], Published], now: float
) -> Published | None:
    """The version in force with the experiment that is wanted; None where it runs already. `load`
    gives the version whose maps are to be on trial, which is asked for where they are not yet: it
    may not be kept any more.

    What a running experiment on the same challenger has gathered stays.
    """
    target, challenger = wanted.target, to_builtins(wanted.challenger)
    before = experiments_of(present.report).get(target, {})
    same = before.get("challenger") == challenger
    goes_on = same and before["state"] == RUNNING
    experiment = {
        "challenger": challenger,
        "salt": wanted.salt or (before["salt"] if goes_on else f"{target}-{now:.0f}"),
        "shares": dict(wanted.shares),
        "canary": wanted.canary,
        "since": before["since"] if goes_on else now,
        "state": RUNNING,
        "reason": None,
        "watch": before["watch"] if goes_on else {},
    }
    dealt = [{key: one.get(key) for key in ("salt", "shares")} for one in (before, experiment)]
    kept = goes_on and dealt[0] == dealt[1]
    experiment["split_at"] = before.get("split_at", before["since"]) if kept else now
    if experiment == before:
        return None
    if same:
        running = {**experiments_of(present.report), target: experiment}
        return replace(present, report={**present.report, "experiments": running})
    if wanted.challenger.version is None:
        return with_experiment(present, target, experiment)
    to = load(wanted.challenger.version)
    # It has seen what either has, so that hours are evaluated with it from now on.
    as_of = max(present.as_of, to.as_of)
    trial = {
        "calibrator": to.report.get("targets", {}).get(target, {}).get("calibrator"),
        "fitted_as_of": to.as_of,
        "first_hour": math.ceil(as_of / SECONDS_PER_HOUR),
    }
    on_trial = to.atlases[target]
    return with_experiment(replace(present, as_of=as_of), target, experiment, on_trial, trial)


def stopped(present: Published, target: str) -> Published | None:
    """The version in force without an experiment on the target; None where there is none."""
    if target not in experiments_of(present.report):
        return None
    return with_experiment(present, target, None)


def promoted(present: Published, target: str) -> Published | None:
    """The version in force whose maps of the target are those on trial; None without an experiment.
    A 409 problem where they are not there yet, or it was aborted."""
    experiment = experiments_of(present.report).get(target)
    if experiment is None:
        return None
    on_trial = present.atlases.get(CHALLENGER_OF(target))
    if on_trial is None or experiment["state"] != RUNNING:
        state = "is aborted" if on_trial else "has no maps yet: wait for the next refit"
        state = state if experiment["challenger"] else "has no challenger"
        detail = f"target = {target}: its experiment {state}"
        raise Problem(HTTPStatus.CONFLICT, "challenger-not-ready", detail)
    found = with_experiment(present, target, None)
    trial: Mapping[str, Any] = present.report["targets"][target][CHALLENGER]
    parts = "calibrator", "fitted", "fitted_as_of"
    made = {name: trial[name] for name in parts if trial.get(name) is not None}
    targets = found.report.get("targets", {})
    # What a rollback before it chose is not what is promoted: there is a way back from that, too.
    report = with_entry(found.report, "rolled_back", None)
    report["targets"] = {**targets, target: {**targets.get(target, {}), **made}}
    if "method" in experiment["challenger"]:
        report = with_method(report, target, experiment["challenger"]["method"])
    return replace(found, atlases={**found.atlases, target: on_trial}, report=report)
