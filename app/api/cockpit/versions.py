"""Published versions: which there are, what moved between two of them, approval of one that is
held, the way back to an older one, and targets whose maps no refit replaces.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.api.admin import APPROVE, REJECT, given_body, queued
from app.api.authorization import ADMIN_PATH, By
from app.api.hot_path import JSON, request_body
from app.api.maps import known_target, target_fit
from app.api.problems import Problem, not_found
from app.api.resources import Given, Resources
from app.api.snapshot import NO_VERSION, Pace, seconds_of_others
from app.events.schema import Score
from app.storage.errors import CorruptVersion
from app.storage.experiments import with_entry, with_experiment, with_method
from app.storage.versions import Published
from app.strict_json import decode, show
from calibrators import Atlas
from calibrators.arms import CHALLENGER
from calibrators.maps.movement import MapMovement, movement

router = APIRouter(prefix=ADMIN_PATH, tags=["admin"])

_TRIES: Final = 5
"""Each time the worker may have published in between."""


class RollbackRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Which version's maps are to serve again, of which target; all by default."""

    version: Annotated[str, Meta(description="A version that is kept, or `none`: raw scores.")]
    target: str | None = None
    freeze: Annotated[bool, Meta(description="Let no refit replace them, until released.")] = True
    dry_run: Annotated[bool, Meta(description="Only tell what would change.")] = False


class FreezeRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The target whose maps are to stay, or to be refitted again; all by default."""

    target: str | None = None
    dry_run: Annotated[bool, Meta(description="Only tell what would change.")] = False


Number = Annotated[int, Meta(ge=0)]


class VersionList(Struct):
    """The versions kept, newest first."""

    serving: str
    calibrators: dict[str, str | None]
    versions: list[dict[str, Any]]
    rolled_back: dict[str, Any] | None
    held: dict[str, Any] | None
    frozen: dict[str, float]


class MovedMap(Struct):
    """The score at which the odds move most, and the probabilities there."""

    score: Score
    before: Score
    after: Score


class MovedCampaign(MovedMap):
    """The same of a campaign."""

    campaign: str


class TargetDifference(Struct):
    """How many campaigns move, and the shared map, which serves all others."""

    campaigns: Number
    moved: Number
    everybody_else: MovedMap
    largest: list[MovedCampaign]


class VersionDifference(Struct):
    """What would move if `version` served in place of `against`."""

    version: str
    against: str
    targets: dict[str, TargetDifference]


class RolledBack(Struct):
    """Which version serves; `changed` is false where its maps served already."""

    rolled_back_to: str
    targets: list[str]
    frozen: bool
    dry_run: bool
    changed: bool
    version: str


class Frozen(Struct):
    """The targets that were changed, and all whose maps no refit replaces."""

    changed: list[str]
    frozen: list[str]
    dry_run: bool


_ROLLBACK: Final = msgspec.json.Decoder(RollbackRequest)
_FREEZE_BODY: Final = request_body({JSON: FreezeRequest}, {"target": "click"}, required=False)
_FREEZE: Final = msgspec.json.Decoder(FreezeRequest)
_RULES: Final = {
    "version": "must be a string: the id of a version, or none",
    "target": "must be a string",
    "freeze": "must be true or false",
    "dry_run": "must be true or false",
}
_Against = Annotated[
    str | None, Query(description="The version to compare with; the one in force by default.")
]
_Largest = Annotated[int, Query(ge=0, le=1000, description="Most campaigns of a target listed.")]


@router.get("/versions")
def list_versions(given: Given) -> dict[str, Any]:
    """The versions kept, newest first; the one that this process serves, what made its maps, the
    one that waits for approval (`held`), if there is one, to which it was `rolled_back`, if it
    was, and since when targets are frozen."""
    snapshot = given.refresher.current
    made = {target: target_fit(snapshot, target)["calibrator"] for target in snapshot.atlases}
    return {
        "serving": snapshot.version,
        "calibrators": made,
        "versions": given.versions.history(),
        "rolled_back": snapshot.report.get("rolled_back"),
        "held": given.versions.held(),
        "frozen": given.frozen.read(),
    }


@router.get("/versions/{version}/diff")
def diff_versions(
    given: Given, version: str, against: _Against = None, limit: _Largest = 20
) -> dict[str, Any]:
    """What would move if the maps of this version served in place of the others': how many
    campaigns by target, and those whose probabilities move most."""
    other = against or given.versions.current() or NO_VERSION
    before, after = _loaded(given, other), _loaded(given, version)
    targets = [name for name in given.settings.known_targets if name in {*before, *after}]
    moved = {name: _moved(before.get(name), after.get(name), limit) for name in targets}
    return {"version": version, "against": other, "targets": moved}


@router.post("/versions/{version}/approve", status_code=HTTPStatus.ACCEPTED)
async def approve_version(given: Given, by: By, version: str) -> JSONResponse:
    """Queue bringing the version that is held into force."""
    return await _decided(given, by, APPROVE, version)


@router.post("/versions/{version}/reject", status_code=HTTPStatus.ACCEPTED)
async def reject_version(given: Given, by: By, version: str) -> JSONResponse:
    """Queue dropping the version that is held."""
    return await _decided(given, by, REJECT, version)


@router.post(
    "/rollback", openapi_extra=request_body({JSON: RollbackRequest}, {"version": "000041-1c8f3a20"})
)
async def roll_back(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Bring the maps of an older version into force again, in every API process within seconds.

    They go out as a new version, which ends experiments on their targets. Unless `freeze` is false,
    no refit replaces them until `POST /v1/admin/unfreeze`.
    """
    wanted = decode(await given_body(request, given), _ROLLBACK, _RULES)
    targets = _targets(given, wanted.target)
    return await _rolled_back(given, by, wanted, targets)


@router.post(
    "/freeze",
    openapi_extra=request_body({JSON: FreezeRequest}, {"target": "click"}, required=False),
)
async def freeze(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Let no refit replace the maps that serve."""

    def change(targets: Collection[str]) -> None:
        given.frozen.freeze(targets, time.time())

    return await _changed(request, given, by, "freeze", change)


@router.post("/unfreeze", openapi_extra=_FREEZE_BODY)
async def unfreeze(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Let refits replace the maps again, from the next one on."""
    return await _changed(request, given, by, "unfreeze", given.frozen.release)


async def _decided(given: Resources, by: By, decision: str, version: str) -> JSONResponse:
    """The one place where an operator's decision on a held version is taken in."""
    held = await run_in_threadpool(given.versions.held)
    if held is None or held["version"] != version:
        raise not_found(f"version = {show(version)}: is not held for approval")
    return await queued(given, by, decision, {"version": version}, held)


async def _changed(
    request: Request, given: Resources, by: By, what: str, change: Callable[[Collection[str]], None]
) -> dict[str, Any]:
    """Freeze or let go; which targets were changed, and what is frozen then."""
    wanted = decode(await given_body(request, given) or b"{}", _FREEZE, _RULES)
    before = await run_in_threadpool(given.frozen.read)
    freezes = what == "freeze"
    targets = [name for name in _targets(given, wanted.target) if (name in before) is not freezes]
    if not wanted.dry_run and targets:
        about = {"target": ", ".join(targets), "before": sorted(before)}
        await by.changes(given.audit, what, lambda: change(targets), **about)
    frozen = {*before, *targets} if freezes else {*before} - {*targets}
    return {"changed": targets, "frozen": sorted(frozen), "dry_run": wanted.dry_run}


def _targets(given: Resources, target: str | None) -> list[str]:
    return list(given.settings.known_targets) if target is None else [known_target(given, target)]


def _loaded(given: Resources, version: str) -> Mapping[str, Atlas]:
    packed = published(given, version).atlases
    return {target: Atlas.from_bytes(data) for target, data in packed.items()}


def published(given: Resources, version: str) -> Published:
    """A version that is kept; a 409 problem where it is damaged. `none` is no maps at all."""
    if version == NO_VERSION:
        return Published(NO_VERSION, 0.0, 0.0, {}, {})
    try:
        return given.versions.load(version, pause=Pace(seconds_of_others))
    except CorruptVersion as error:
        raise Problem(HTTPStatus.CONFLICT, "damaged-version", str(error)) from None


def _moved(before: Atlas | None, after: Atlas | None, limit: int) -> dict[str, Any]:
    found = movement(before or Atlas.empty(), after or Atlas.empty())
    rows = found.moved
    return {
        "campaigns": len(found.campaigns),
        "moved": len(rows),
        "everybody_else": _row(found, len(found.campaigns)),
        "largest": [
            {"campaign": found.campaigns[row], **_row(found, row)} for row in rows[:limit].tolist()
        ],
    }


def _row(found: MapMovement, row: int) -> dict[str, float]:
    """Where and by how much it moved; zeros where it did not."""
    columns = {"score": found.scores, "before": found.before, "after": found.after}
    return {name: float(column[row]) for name, column in columns.items()}


def rolled_back(present: Published, to: Published, targets: Collection[str]) -> Published | None:
    """What serves, but for the maps of the targets, which are those of the older version, as their
    methods are, and whose experiments end; None where that is what serves already.

    It has seen what either has, so that hours are evaluated with it from the rollback on.
    """
    found, older = present, to.report.get("targets", {})
    for target in targets:
        found = with_experiment(found, target, None)
        atlases = with_entry(found.atlases, target, to.atlases.get(target))
        older_report = with_entry(older.get(target, {}), CHALLENGER, None)
        reports = with_entry(found.report.get("targets", {}), target, older_report)
        report = with_method(found.report, target, to.report.get("methods", {}).get(target))
        found = replace(found, atlases=atlases, report={**report, "targets": reports})
    if found.atlases == present.atlases and _steering(found) == _steering(present):
        return None
    about = {"to": to.version, "targets": sorted(targets)}
    as_of = max(present.as_of, to.as_of)
    return replace(found, report={**found.report, "rolled_back": about}, as_of=as_of)


def _steering(version: Published) -> list[Any]:
    return [version.report.get(name, {}) for name in ("experiments", "methods")]


def in_force(given: Resources) -> Published:
    """The version that serves, out of the store; a 409 problem before the first."""
    version = given.versions.current()
    if version is None:
        raise Problem(HTTPStatus.CONFLICT, "no-version", "nothing has been published yet")
    return published(given, version)


async def _rolled_back(
    given: Resources, by: By, wanted: RollbackRequest, targets: Collection[str]
) -> dict[str, Any]:
    def look() -> tuple[Published, Published]:
        return in_force(given), published(given, wanted.version)

    present, to = await run_in_threadpool(look)
    result = {
        "rolled_back_to": to.version,
        "targets": sorted(targets),
        "frozen": wanted.freeze,
        "dry_run": wanted.dry_run,
        "changed": rolled_back(present, to, targets) is not None,
        "version": present.version,
    }
    if wanted.dry_run:
        return result
    version = await by.changes(
        given.audit,
        "rollback",
        lambda: _put_in_force(given, to, targets, freeze=wanted.freeze),
        target=wanted.target or "all targets",
        before={"version": present.version},
        after={"version": to.version, "freeze": wanted.freeze},
    )
    return {**result, "version": version}


def _put_in_force(
    given: Resources, to: Published, targets: Collection[str], *, freeze: bool
) -> str:
    """The id of the version that serves then. Frozen first: nothing may come in between."""
    if freeze:
        given.frozen.freeze(targets, time.time())
    return put_in_force(given, lambda present: rolled_back(present, to, targets))


def put_in_force(given: Resources, change: Callable[[Published], Published | None]) -> str:
    """Publish what the change makes of the version in force, unless it is None; the id of the
    version that serves then."""
    for _ in range(_TRIES):
        present = in_force(given)
        wanted = change(present)
        if wanted is None:
            return present.version
        version = given.versions.put_in_force(replace(wanted, published_at=time.time()))
        if version is not None:
            return version
    detail = "versions were published in between, again and again: send it again"
    raise Problem(HTTPStatus.CONFLICT, "version-changed", detail)
