"""Published versions: which there are, what moved between two of them, approval of one that is
held, the way back to an older one, of all campaigns or of some, and maps that no refit replaces.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.api.admin import SOME_CAMPAIGNS, checked_campaigns, given_body, queued
from app.api.authorization import ADMIN_PATH, By
from app.api.cockpit.rollback import Chosen, last_good, rolled_back
from app.api.hot_path import JSON, request_body
from app.api.maps import known_target, target_fit
from app.api.problems import Problem, not_found
from app.api.resources import Given, Resources
from app.api.snapshot import NO_VERSION, Pace, seconds_of_others
from app.events.schema import Score
from app.storage.errors import CorruptVersion, UnknownVersion
from app.storage.jobs import APPROVE, REJECT
from app.storage.versions import Published
from app.strict_json import ValidationError, decode, show
from calibrators import Atlas
from calibrators.bins.model_versions import parted
from calibrators.maps.movement import MapMovement

router = APIRouter(prefix=ADMIN_PATH, tags=["admin"])

_TRIES: Final = 5
"""Each time the worker may have published in between."""
_MOST_NAMED: Final = 3
IDENTITY: Final = "identity"
LAST_GOOD: Final = "last-good"


class RollbackRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Which version's maps are to serve again, of which target and campaigns; all by default."""

    version: Annotated[
        str,
        Meta(
            description="A version that is kept; `last-good`: the newest before whose maps are"
            " others; or `identity` (or `none`): raw scores."
        ),
    ]
    target: str | None = None
    campaigns: Annotated[list[str], SOME_CAMPAIGNS] | None = None
    freeze: Annotated[bool, Meta(description="Let no refit replace them, until released.")] = True
    dry_run: Annotated[bool, Meta(description="Only tell what would change.")] = False


class FreezeRequest(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The target, or its campaigns, whose maps are to stay, or to be refitted again; every target
    by default."""

    target: str | None = None
    campaigns: Annotated[list[str], SOME_CAMPAIGNS] | None = None
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
    """The same of a campaign, or of new ones (""), at a version of the model if one is named."""

    campaign: str
    model_version: str | None


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
    """Which version serves; `changed` is false where its maps served already. `all_frozen` are the
    targets, and `target:campaign`, that no refit replaces then, also those frozen before;
    `without_map` is as of `Frozen`."""

    rolled_back_to: str
    targets: list[str]
    campaigns: list[str] | None
    frozen: bool
    all_frozen: list[str]
    without_map: list[str]
    dry_run: bool
    changed: bool
    version: str


class Frozen(Struct):
    """What was changed, and all whose maps no refit replaces: targets, and `target:campaign`; of
    the `campaigns` that were named, those without a map of their own in what served: new ones, or
    mistyped."""

    changed: list[str]
    frozen: list[str]
    without_map: list[str]
    dry_run: bool


_ROLLBACK: Final = msgspec.json.Decoder(RollbackRequest)
_FREEZE_BODY: Final = request_body({JSON: FreezeRequest}, {"target": "click"}, required=False)
_FREEZE: Final = msgspec.json.Decoder(FreezeRequest)
_RULES: Final = {
    "version": "must be a string: the id of a version, last-good, identity or none",
    "target": "must be a string",
    "campaigns": "must be an array of strings",
    "campaigns[]": "must be a string",
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
    was, and since when targets and campaigns (`target:campaign`) are frozen."""
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
    no refit replaces them until `POST /v1/admin/unfreeze`. With `campaigns`, only these are served
    as they were then, and experiments go on.
    """
    wanted = decode(await given_body(request, given), _ROLLBACK, _RULES)
    return await _rolled_back(given, by, wanted, _chosen(given, wanted))


@router.post("/freeze", openapi_extra=_FREEZE_BODY)
async def freeze(request: Request, given: Given, by: By) -> dict[str, Any]:
    """Let no refit replace the maps that serve."""

    def change(names: Collection[str]) -> None:
        given.frozen.freeze(names, time.time())

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
    """Freeze or let go; what was changed, and what is frozen then."""
    wanted = decode(await given_body(request, given) or b"{}", _FREEZE, _RULES)
    before = await run_in_threadpool(given.frozen.read)
    freezes = what == "freeze"
    chosen = _chosen(given, wanted)
    names = [name for name in chosen.names if (name in before) is not freezes]
    frozen = sorted({*before, *names} if freezes else {*before} - {*names})
    without_map = await run_in_threadpool(chosen.without_map, given.refresher.current.atlases)
    if not wanted.dry_run and names:
        about = {"target": ", ".join(chosen.targets), "before": sorted(before), "after": frozen}
        await by.changes(what, lambda: change(names), **about)
    result = {"changed": names, "frozen": frozen, "without_map": without_map}
    return {**result, "dry_run": wanted.dry_run}


def _chosen(given: Resources, wanted: RollbackRequest | FreezeRequest) -> Chosen:
    if wanted.campaigns is None:
        every = list(given.settings.known_targets)
        return Chosen(every if wanted.target is None else [known_target(given, wanted.target)])
    if wanted.target is None:
        raise ValidationError("campaigns", "needs target: name the target whose campaigns they are")
    campaigns = checked_campaigns(wanted.campaigns, given.settings)
    return Chosen([known_target(given, wanted.target)], campaigns)


def _loaded(given: Resources, version: str) -> Mapping[str, Atlas]:
    packed = published(given, version).atlases
    return {target: Atlas.from_bytes(data) for target, data in packed.items()}


def published(given: Resources, version: str) -> Published:
    """A version that is kept; a 409 problem where it is damaged, a 404 one that names the newest
    where it is not kept. `none` is no maps at all."""
    if version == NO_VERSION:
        return Published(NO_VERSION, 0.0, 0.0, {}, {})
    try:
        return given.versions.load(version, pause=Pace(seconds_of_others))
    except CorruptVersion as error:
        raise Problem(HTTPStatus.CONFLICT, "damaged-version", str(error)) from None
    except UnknownVersion as error:
        kept = [entry["version"] for entry in given.versions.history()]
        named = ", ".join(kept[:_MOST_NAMED]) or "none"
        listed = f"of {len(kept)} kept the newest: {named}; `sirocco versions list` has all"
        raise Problem(HTTPStatus.NOT_FOUND, "not-found", f"{error}; {listed}") from None


def _moved(before: Atlas | None, after: Atlas | None, limit: int) -> dict[str, Any]:
    found = MapMovement(before or Atlas.empty(), after or Atlas.empty())
    rows = found.moved
    return {
        "campaigns": len(found.campaigns),
        "moved": len(rows),
        "everybody_else": _row(found, len(found.campaigns)),
        "largest": [
            {"campaign": name, "model_version": version, **_row(found, row)}
            for row in rows[:limit].tolist()
            for name, version in [parted(found.campaigns[row])]
        ],
    }


def _row(found: MapMovement, row: int) -> dict[str, float]:
    """Where and by how much it moved; zeros where it did not."""
    columns = {"score": found.scores, "before": found.before, "after": found.after}
    return {name: float(column[row]) for name, column in columns.items()}


def in_force(given: Resources) -> Published:
    """The version that serves, out of the store; a 409 problem before the first."""
    version = given.versions.current()
    if version is None:
        raise Problem(HTTPStatus.CONFLICT, "no-version", "nothing has been published yet")
    return published(given, version)


def _last_good(given: Resources, present: Published, chosen: Chosen) -> Published:
    found = last_good(_before(given, present), chosen)
    if found is None:
        detail = f"of the versions kept, none before {present.version} has other maps of these"
        raise Problem(HTTPStatus.CONFLICT, "no-last-good", detail)
    return found


def _before(given: Resources, present: Published) -> Iterator[Published]:
    """It, and those kept that came before it, newest first; damaged ones are left out."""
    yield present
    kept = [entry["version"] for entry in given.versions.history()]
    first = kept.index(present.version) + 1 if present.version in kept else 0
    for version in kept[first:]:
        try:
            present = given.versions.load(version, present, Pace(seconds_of_others))
        except (CorruptVersion, UnknownVersion):
            continue
        yield present


async def _rolled_back(
    given: Resources, by: By, wanted: RollbackRequest, chosen: Chosen
) -> dict[str, Any]:
    frozen = chosen.names if wanted.freeze else ()

    def look() -> tuple[Published, Published, bool, list[str], list[str]]:
        present = in_force(given)
        if wanted.version == LAST_GOOD:
            to = _last_good(given, present, chosen)
        else:
            to = published(given, NO_VERSION if wanted.version == IDENTITY else wanted.version)
        changed = rolled_back(present, to, chosen) is not None
        without_map = chosen.without_map(given.refresher.current.atlases)
        return present, to, changed, sorted({*given.frozen.read(), *frozen}), without_map

    present, to, changed, all_frozen, without_map = await run_in_threadpool(look)
    result = {
        "rolled_back_to": to.version,
        "targets": sorted(chosen.targets),
        "campaigns": chosen.campaigns,
        "frozen": wanted.freeze,
        "all_frozen": all_frozen,
        "without_map": without_map,
        "dry_run": wanted.dry_run,
        "changed": changed,
        "version": present.version,
    }
    if wanted.dry_run:
        return result
    version = await by.changes(
        "rollback",
        lambda: put_in_force(given, lambda one: rolled_back(one, to, chosen), frozen),
        target=wanted.target or "all targets",
        before={"version": present.version},
        after={"version": to.version, "freeze": wanted.freeze, **chosen.summary},
    )
    return {**result, "version": version}


def put_in_force(
    given: Resources, change: Callable[[Published], Published | None], frozen: Collection[str]
) -> str:
    """Publish what the change makes of the version in force, unless it is None; the id of the
    version that serves then. Names are frozen first: nothing may come in between."""
    if frozen:
        given.frozen.freeze(frozen, time.time())
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
