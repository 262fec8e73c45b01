"""API keys: what is kept of one, the token that its caller sends, the table of all, and how often
one may call.

A token is `sir_<id>_<secret>` with 256 random bits of secret. Only the secret's SHA-256 is kept:
of a random secret it cannot be undone, so nothing slower is needed.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from time import monotonic
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from app.strict_json import ValidationError

DAY_SECONDS: Final = 24 * 3600.0
BOOTSTRAP: Final = "bootstrap"
LOOPBACK: Final = "loopback"
MOST_PREFIXES: Final = 100
LONGEST_PREFIX: Final = 256
LONGEST_NAME: Final = 100
MOST_A_SECOND: Final = 1_000_000

_MARK: Final = "sir"
_SECRET_BYTES: Final = 32
_NO_DIGEST: Final = "0" * 64


class Scope(StrEnum):
    """What a key may do; none of them includes another."""

    CALIBRATE = "calibrate"
    INGEST = "ingest"
    READ = "read"
    ADMIN = "admin"


class ApiKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key as it is kept; times are epoch seconds.

    `campaigns` are prefixes of the campaigns it sees, all without any; `rate_limit` is in requests
    a second for each API process. A field that is not known here refuses the key: it may narrow
    what the key may do.
    """

    id: str
    digest: str
    scopes: frozenset[Scope]
    created_at: float
    name: str = ""
    campaigns: tuple[str, ...] = ()
    rate_limit: int | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    replaces: str | None = None

    def standing(self, now: float) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        expired = self.expires_at is not None and self.expires_at <= now
        return "expired" if expired else "valid"

    def ended_at(self, now: float) -> float | None:
        """Since when it is of no use any more; None while it is valid."""
        ends = {"revoked": self.revoked_at, "expired": self.expires_at, "valid": None}
        return ends[self.standing(now)]

    def described(self, now: float) -> dict[str, Any]:
        """All that may be shown of it: not the digest."""
        shown = msgspec.to_builtins(self)
        del shown["digest"]
        scopes = [scope.value for scope in Scope if scope in self.scopes]
        return {**shown, "scopes": scopes, "standing": self.standing(now)}

    def packed(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """The inverse of `packed`; raises ValueError."""
        return msgspec.json.decode(data, type=cls)


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return sha256(secret.encode()).hexdigest()


def new_key(now: float, scopes: frozenset[Scope], **given: Any) -> tuple[ApiKey, str]:
    """A key with these scopes, and other fields as given, and its token, which nothing keeps.

    Raises ValidationError on what no key may have.
    """
    secret = token_urlsafe(_SECRET_BYTES)
    key = ApiKey(id=token_hex(6), digest=digest_of(secret), scopes=scopes, created_at=now, **given)
    _check(key)
    return key, f"{_MARK}_{key.id}_{secret}"


def _check(key: ApiKey) -> None:
    if not key.scopes:
        raise ValidationError("scopes", f"must be some of {', '.join(Scope)}")
    if len(key.name) > LONGEST_NAME:
        raise ValidationError("name", f"must have at most {LONGEST_NAME} characters", key.name)
    if key.rate_limit is not None and not 1 <= key.rate_limit <= MOST_A_SECOND:
        rule = f"must be 1 to {MOST_A_SECOND} requests a second"
        raise ValidationError("rate_limit", rule, key.rate_limit)
    if key.expires_at is not None and key.expires_at <= key.created_at:
        raise ValidationError("expires_at", "must be in the future", key.expires_at)
    _check_campaigns(key)


def _check_campaigns(key: ApiKey) -> None:
    number = len(key.campaigns)
    if number and Scope.ADMIN in key.scopes:
        raise ValidationError("campaigns", "must not be bound for the scope admin, which sees all")
    if number > MOST_PREFIXES:
        raise ValidationError("campaigns", f"has {number} items; must have at most {MOST_PREFIXES}")
    for place, prefix in enumerate(key.campaigns):
        if not 0 < len(prefix) <= LONGEST_PREFIX:
            rule = f"must have 1 to {LONGEST_PREFIX} characters"
            raise ValidationError(f"campaigns[{place}]", rule, prefix)


def _split(token: str) -> tuple[str, str]:
    """The id and the secret of a token; empty where it is none of ours."""
    mark, _, rest = token.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if mark == _MARK else ("", "")


@dataclass(frozen=True, slots=True)
class KeyTable:
    """All keys by id, and the digest of the bootstrap key. Where keys are `required` no request
    goes without one."""

    keys: Mapping[str, ApiKey]
    bootstrap_digest: str
    required: bool

    def seconds_left(self, now: float) -> dict[Scope, float]:
        """Until the first valid key of a scope ends; one that a valid key replaces is meant to."""
        valid = [key for key in self.keys.values() if key.standing(now) == "valid"]
        replaced = {key.replaces for key in valid}
        left = [
            (key.expires_at - now, scope)
            for key in valid
            if key.expires_at is not None and key.id not in replaced
            for scope in key.scopes
        ]
        return {scope: seconds for seconds, scope in sorted(left, reverse=True)}

    def find(self, token: str, now: float) -> ApiKey | None:
        """The key of this token if it is valid; as much work for an id that there is not."""
        key_id, secret = _split(token)
        key = self.keys.get(key_id)
        kept = _NO_DIGEST if key is None else key.digest
        is_key = hmac.compare_digest(digest_of(secret), kept)
        is_bootstrap = hmac.compare_digest(digest_of(token), self.bootstrap_digest)
        if is_bootstrap:
            scopes = frozenset((Scope.ADMIN, Scope.READ))
            return ApiKey(id=BOOTSTRAP, digest=_NO_DIGEST, scopes=scopes, created_at=now)
        is_valid = key is not None and key.standing(now) == "valid"
        return key if is_key and is_valid else None


class RateLimit:
    """At most `quota` requests in a second, of one key in this process; refilled all the time."""

    def __init__(self, quota: int, clock: Callable[[], float] = monotonic) -> None:
        self.quota = quota
        self._clock = clock
        self._left, self._at = float(quota), clock()
        self._policy = (b"ratelimit-policy", b'"key";q=%d;w=1' % quota)

    def take(self) -> bool:
        """Whether one more request may be answered now."""
        now = self._clock()
        left = self._left + (now - self._at) * self.quota
        if left > self.quota:
            left = float(self.quota)
        self._at, enough = now, left >= 1.0
        self._left = left - 1.0 if enough else left
        return enough

    def headers(self) -> list[tuple[bytes, bytes]]:
        """As draft-ietf-httpapi-ratelimit-headers has them: `q` requests in `w` seconds, of which
        `r` are left, and all are back in `t` seconds."""
        back = 0 if self._left >= self.quota else 1
        return [self._policy, (b"ratelimit", b'"key";r=%d;t=%d' % (self._left, back))]
