"""API keys in Redis: made, rotated, expired and revoked, each in one step."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import redis
from msgspec import structs
from redis.client import Pipeline

from app.access.keys import DAY_SECONDS, ApiKey, Scope, new_key
from app.storage import keys
from app.storage.redis.client import as_bytes, as_text, reaching_the_store

MOST_KEYS: Final = 1000
"""Every API process reads all of them, each second."""
# What has ended is shown for so long.
_SHOWN_SECONDS: Final = 30 * DAY_SECONDS

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
StoredKeys = Mapping[str, bytes]


class UnknownKey(LookupError):
    """There is no key of that id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"key = {key_id!r}: there is no such key")


class KeyConflict(Exception):
    """The key, or all of them together, do not allow this now; the text says why."""


class KeyStore:
    """The keys; `clock` gives epoch seconds."""

    def __init__(self, client: redis.Redis, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock

    @reaching_the_store()
    def stored(self) -> StoredKeys:
        """The bytes of every key by its id."""
        return _stored(self._client.hgetall(keys.API_KEYS))

    def all(self) -> list[ApiKey]:
        """Every key that can be read, oldest first."""
        return sorted(read_keys(self.stored()).values(), key=lambda key: (key.created_at, key.id))

    @reaching_the_store()
    def get(self, key_id: str) -> ApiKey:
        """The key; raises UnknownKey."""
        return _known(read_keys(self.stored()), key_id)

    @reaching_the_store()
    def make(
        self, scopes: frozenset[Scope], *, first_needs_admin: bool = False, **given: Any
    ) -> tuple[ApiKey, str]:
        """A new key and its token. Raises ValidationError, and KeyConflict if there are too many,
        or if it is the first and could not make a second."""
        now = self._clock()
        key, token = new_key(now, scopes, **given)

        def add(found: Mapping[str, ApiKey], change: Pipeline) -> None:
            if first_needs_admin and not found and Scope.ADMIN not in scopes:
                raise KeyConflict(
                    "the first key must have the scope admin: from then on every request needs a"
                    " key, also the one that makes the next"
                )
            self._put(key, found, change, now)

        self._change(add)
        return key, token

    @reaching_the_store()
    def rotate(self, key_id: str, grace_seconds: float) -> tuple[ApiKey, str]:
        """A key in the place of this one, which is valid for `grace_seconds` more, and its token.
        Of a key that ends the new one lasts as long as that was to when it was made.

        Raises UnknownKey, and KeyConflict where that would make three valid ones, or the key has
        ended.
        """
        now = self._clock()

        def replace(found: Mapping[str, ApiKey], change: Pipeline) -> tuple[ApiKey, str]:
            old = _known(found, key_id)
            _check_rotation(old, found, now)
            ends = min(old.expires_at or float("inf"), now + grace_seconds)
            kept = {"name": old.name, "campaigns": old.campaigns, "rate_limit": old.rate_limit}
            # Who was rotated before ends with its grace; the one in its place has its life.
            like = next((key for key in found.values() if key.replaces == old.id), old)
            until = None if like.expires_at is None else now + like.expires_at - like.created_at
            key, token = new_key(now, old.scopes, replaces=old.id, expires_at=until, **kept)
            self._put(key, found, change, now)
            _write(structs.replace(old, expires_at=ends), change)
            return key, token

        return self._change(replace)

    @reaching_the_store()
    def expire(self, key_id: str, at: float) -> ApiKey:
        """Have the key end at that moment; raises UnknownKey, and KeyConflict once it has ended."""
        return self._end(key_id, expires_at=at)

    @reaching_the_store()
    def revoke(self, key_id: str) -> ApiKey:
        """Have the key end now; raises as `expire` does."""
        return self._end(key_id, revoked_at=self._clock())

    @reaching_the_store()
    def restore(self, stored: StoredKeys) -> None:
        """Put the keys back into a store that has none."""

        def put_back(found: Mapping[str, ApiKey], change: Pipeline) -> None:
            if not found:
                for key_id, data in stored.items():
                    change.hset(keys.API_KEYS, key_id, data)

        self._change(put_back)

    def _end(self, key_id: str, **ends: float) -> ApiKey:
        def end(found: Mapping[str, ApiKey], change: Pipeline) -> ApiKey:
            old = _known(found, key_id)
            standing = old.standing(self._clock())
            if standing != "valid":
                raise KeyConflict(f"key = {key_id!r}: is {standing} already")
            key = structs.replace(old, **ends)
            _write(key, change)
            return key

        return self._change(end)

    def _change(self, step: Callable[[Mapping[str, ApiKey], Pipeline], Result]) -> Result:
        """Does the step on what is stored, again if somebody else was faster."""

        def once(pipeline: Pipeline) -> Result:
            found = _stored(cast(Any, pipeline.hgetall(keys.API_KEYS)))
            pipeline.multi()
            return step(read_keys(found), pipeline)

        transaction = cast(Any, self._client.transaction)
        result: Result = transaction(once, keys.API_KEYS, value_from_callable=True)
        return result

    def _put(self, key: ApiKey, found: Mapping[str, ApiKey], change: Pipeline, now: float) -> None:
        ended = [(one, one.ended_at(now)) for one in found.values()]
        old = [one for one, at in ended if at is not None and at < now - _SHOWN_SECONDS]
        if len(found) - len(old) >= MOST_KEYS:
            raise KeyConflict(f"there are {MOST_KEYS} keys, the most there may be")
        for one in old:
            change.hdel(keys.API_KEYS, one.id)
        _write(key, change)


def read_keys(stored: StoredKeys) -> dict[str, ApiKey]:
    """The keys by id; logs and leaves out what cannot be read, which nobody can use."""
    found = {}
    for key_id, data in stored.items():
        try:
            found[key_id] = ApiKey.unpacked(data)
        except ValueError as error:
            _log.error("left out the API key %s: %s", key_id, error)
    return found


def _stored(reply: Mapping[Any, Any]) -> StoredKeys:
    return {as_text(key_id): as_bytes(data) for key_id, data in reply.items()}


def _known(found: Mapping[str, ApiKey], key_id: str) -> ApiKey:
    if key_id not in found:
        raise UnknownKey(key_id)
    return found[key_id]


def _check_rotation(old: ApiKey, found: Mapping[str, ApiKey], now: float) -> None:
    if old.standing(now) != "valid":
        raise KeyConflict(f"key = {old.id!r}: is {old.standing(now)}; make a new one")
    for other in found.values():
        is_related = old.id == other.replaces or other.id == old.replaces
        if is_related and other.standing(now) == "valid":
            raise KeyConflict(
                f"key = {old.id!r}: it and {other.id!r} are both valid, the most of one rotation;"
                " revoke one of them first"
            )


def _write(key: ApiKey, change: Pipeline) -> None:
    change.hset(keys.API_KEYS, key.id, key.packed())
