"""What admins do about access: make, list, rotate, expire and revoke API keys, and read the audit
log.
"""

import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from app.access.keys import DAY_SECONDS, LONGEST_NAME, ApiKey, Scope
from app.api.admin import given_body
from app.api.authorization import ADMIN_PATH, By, Result
from app.api.hot_path import JSON, request_body
from app.api.resources import Given
from app.events.rejections import END_SECOND
from app.events.schema import Time
from app.strict_json import ValidationError, decode

router = APIRouter(prefix=f"{ADMIN_PATH}/keys", tags=["admin"])

_LONGEST_GRACE: Final = 30 * DAY_SECONDS
# What is shown once must be kept by nobody on the way.
_SHOWN_ONCE: Final = {"Cache-Control": "no-store"}


class KeyRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """What the new key may do, and for how long."""

    scopes: Annotated[list[str], Meta(description="Of calibrate, ingest, read and admin.")]
    name: Annotated[str, Meta(description="Whom it is for.")] = ""
    campaigns: Annotated[
        list[str], Meta(description="Prefixes of the campaigns it sees; all without any.")
    ] = []
    rate_limit: Annotated[
        int | None, Meta(description="Requests a second, of each API process.")
    ] = None
    expires_at: Annotated[Time, Meta(description="When it ends; never without.")] | None = None


class RotationRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """How long the old key stays valid beside the new one: a day, unless it says otherwise."""

    grace_seconds: float = DAY_SECONDS


class ExpiryRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """When the key is to end."""

    at: Time


_KEY: Final = msgspec.json.Decoder(KeyRequest)
_ROTATION: Final = msgspec.json.Decoder(RotationRequest)
_EXPIRY: Final = msgspec.json.Decoder(ExpiryRequest)
_TIME_RULE: Final = "must be a time: RFC 3339 with a time zone, or epoch seconds"
_RULES: Final = {
    "scopes": "must be an array of calibrate, ingest, read and admin",
    "scopes[]": "must be calibrate, ingest, read or admin",
    "name": "must be a string",
    "campaigns": "must be an array of prefixes of campaigns",
    "campaigns[]": "must be a string",
    "rate_limit": "must be a whole number of requests a second",
    "expires_at": _TIME_RULE,
    "at": _TIME_RULE,
    "grace_seconds": "must be a number",
}


@router.get("")
def list_keys(given: Given) -> dict[str, Any]:
    """All keys without their secrets, which nobody keeps, oldest first."""
    now = time.time()
    return {"keys": [key.described(now) for key in given.keys.all()]}


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=request_body({JSON: KeyRequest}, {"scopes": ["calibrate"], "name": "bidder"}),
)
async def make_key(request: Request, given: Given, by: By) -> JSONResponse:
    """Make a key; its `token` is shown in this answer and never again."""
    wanted = decode(await given_body(request, given), _KEY, _RULES)
    ends = wanted.expires_at
    fields = {
        "name": wanted.name,
        "campaigns": tuple(wanted.campaigns),
        "rate_limit": wanted.rate_limit,
        "expires_at": None if ends is None else _seconds(ends, "expires_at"),
    }
    scopes = _scopes(wanted.scopes)
    first = given.settings.bootstrap_admin_key is None
    key, token = await by.changes(
        "make-key",
        lambda: given.keys.make(scopes, first_needs_admin=first, **fields),
        # One that is too long is refused only when it has been recorded.
        target=wanted.name[: LONGEST_NAME + 1],
        after={"scopes": sorted(scopes), **fields},
    )
    return await _shown_once(given, key, token)


@router.post(
    "/{key_id}/rotate",
    status_code=HTTPStatus.CREATED,
    openapi_extra=request_body(
        {JSON: RotationRequest}, {"grace_seconds": DAY_SECONDS}, required=False
    ),
)
async def rotate_key(request: Request, given: Given, by: By, key_id: str) -> JSONResponse:
    """Make a key in the place of this one, which stays valid for a while beside it."""
    wanted = decode(await given_body(request, given) or b"{}", _ROTATION, _RULES)
    grace = wanted.grace_seconds
    if not 0 <= grace <= _LONGEST_GRACE:
        raise ValidationError("grace_seconds", f"must be 0 to {_LONGEST_GRACE:.0f}", grace)
    rotate, after = partial(given.keys.rotate, key_id, grace), {"grace_seconds": grace}
    key, token = await _changed(given, by, "rotate-key", key_id, rotate, after)
    return await _shown_once(given, key, token)


@router.post(
    "/{key_id}/expire",
    openapi_extra=request_body({JSON: ExpiryRequest}, {"at": "2027-01-01T00:00:00Z"}),
)
async def expire_key(request: Request, given: Given, by: By, key_id: str) -> dict[str, Any]:
    """Have a key end at a moment."""
    at = _seconds(decode(await given_body(request, given), _EXPIRY, _RULES).at, "at")
    expire, after = partial(given.keys.expire, key_id, at), {"expires_at": at}
    return await _shown(given, await _changed(given, by, "expire-key", key_id, expire, after))


@router.post("/{key_id}/revoke")
async def revoke_key(given: Given, by: By, key_id: str) -> dict[str, Any]:
    """Have a key end now: within five seconds no process takes it any more."""
    revoke, after = partial(given.keys.revoke, key_id), {"revoked": True}
    return await _shown(given, await _changed(given, by, "revoke-key", key_id, revoke, after))


async def _changed(
    given: Given, by: By, what: str, key_id: str, change: Callable[[], Result], after: object
) -> Result:
    key = await run_in_threadpool(given.keys.get, key_id)
    before = key.described(time.time())
    return await by.changes(what, change, target=key_id, before=before, after=after)


async def _shown(given: Given, key: ApiKey) -> dict[str, Any]:
    # The others see it within a second; whoever asked may rely on it here and now.
    await run_in_threadpool(given.key_watch.look)
    return key.described(time.time())


async def _shown_once(given: Given, key: ApiKey, token: str) -> JSONResponse:
    content = {"key": await _shown(given, key), "token": token}
    return JSONResponse(content, HTTPStatus.CREATED, _SHOWN_ONCE)


def _scopes(names: list[str]) -> frozenset[Scope]:
    for place, name in enumerate(names):
        if name not in set(Scope):
            raise ValidationError(f"scopes[{place}]", _RULES["scopes[]"], name)
    return frozenset(map(Scope, names))


def _seconds(at: Time, field: str) -> float:
    found = at if isinstance(at, float) else at.timestamp()
    if not found < END_SECOND:
        raise ValidationError(field, "must be before the year 2100", at)
    return found


audit_router = APIRouter(prefix=f"{ADMIN_PATH}/audit", tags=["admin"])

AuditLimit = Annotated[int, Query(ge=1, le=1000, description="Most entries of one answer.")]
Before = Annotated[int | None, Query(ge=1, description="`next` of the page before.")]


@audit_router.get("")
def list_audit(given: Given, limit: AuditLimit = 100, before: Before = None) -> dict[str, Any]:
    """The changes by admins, newest first; `next` is null on the last page."""
    found = given.audit.newest(limit + 1, before)
    page = found[:limit]
    following = page[-1].seq if len(found) > limit else None
    return {"entries": msgspec.to_builtins(page), "next": following}


@audit_router.get("/verify")
def verify_audit(given: Given) -> dict[str, Any]:
    """Whether every entry that is kept is as it was written; `wrong` names the first that is not,
    and is null where all are."""
    found = given.audit.verify()
    return {"entries": found.entries, "wrong": found.wrong}
