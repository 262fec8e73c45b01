"""Published versions: the atlases of all targets, moved into force in one step.

A version is one hash: `manifest` (schema_version, version, as_of, published_at, SHA-256 of the
report, and bytes, chunks and SHA-256 of every atlas), `report` (JSON), and the atlases in chunks
`<target>:<number>`. It is written field by field under a time to live and kept only once it is
published, so a publisher that dies half-way leaves nothing behind. A manifest is JSON behind the 32
bytes of its SHA-256. Post-click models are stored in the same way.

Which versions are kept is the rule of `beyond_retention`. Of each new one API processes get a
notice, which spares a poll, and no more.

A version may also be held: the maps of some targets, stored for a day without being in force, until
an operator approves or rejects them, which is known for the rest of that day, or a later refit
takes their place. There is one at most.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from typing import Any, Final

import orjson
import redis
from redis.client import PubSub
from redis.exceptions import RedisError

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.errors import (
    CorruptVersion,
    LeaseLost,
    NewerVersion,
    StorageUnavailable,
    UnknownVersion,
    VersionChanged,
)
from app.storage.lease import LeaseToken
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store

Packed = bytes | memoryview
STAGED_SECONDS = 900
HELD_SECONDS = 24 * 3600
_SEAL_BYTES = 32
HELD, _DECIDED = "held", "decided"
_LEASE_LOST, _STAGING_EXPIRED, _CHANGED = 1, 2, 3


def pack_manifest(manifest: dict[str, Any]) -> bytes:
    """The bytes of a manifest."""
    packed = orjson.dumps(manifest, option=orjson.OPT_SERIALIZE_NUMPY)
    return sha256(packed).digest() + packed


def unpack_manifest(version: str, data: bytes | None, schema_version: int) -> dict[str, Any]:
    """The manifest of a version; raises UnknownVersion without bytes, CorruptVersion on wrong
    ones and on another schema_version, which is NewerVersion on a later one."""
    if data is None:
        raise UnknownVersion(version)
    seal, packed = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    if sha256(packed).digest() != seal:
        raise CorruptVersion(version, "the sha256 of its manifest is wrong")
    manifest: dict[str, Any] = orjson.loads(packed)
    if (found := manifest.get("schema_version", 0)) != schema_version:
        kind = NewerVersion if found > schema_version else CorruptVersion
        raise kind(version, f"only schema_version {schema_version} is known")
    if version not in (manifest["version"], HELD):
        raise CorruptVersion(version, f"its manifest is that of {manifest['version']!r}")
    return manifest


def readable_manifests(
    client: redis.Redis, listed: str, key_of: Callable[[str], str], schema_version: int, where: str
) -> Iterator[dict[str, Any]]:
    """The manifests of what a key lists, in its order; what cannot be read is logged as left out of
    `where`."""
    versions = [as_text(version) for version in client.lrange(listed, 0, -1)]
    pipeline = client.pipeline(transaction=False)
    for version in versions:
        pipeline.hget(key_of(version), "manifest")
    for version, data in zip(versions, pipeline.execute(), strict=True):
        try:
            yield unpack_manifest(version, data, schema_version)
        except (CorruptVersion, UnknownVersion) as error:
            _log.error("left out of %s: %s", where, error)


def check_digest(version: str, name: str, found: str, expected: str) -> None:
    """Raises CorruptVersion when the SHA-256 of bytes is not that of those in the manifest."""
    if found != expected:
        raise CorruptVersion(version, f"the sha256 of its {name} is wrong")


def chunks_of(data: Packed, size: int) -> Iterator[bytes]:
    """The bytes in chunks, the last one shorter; one is in memory at a time."""
    return (bytes(data[start : start + size]) for start in range(0, len(data), size))


def described(data: Packed, size: int) -> dict[str, Any]:
    """What a manifest says of bytes in chunks of a size."""
    chunks = len(range(0, len(data), size))
    return {"bytes": len(data), "chunks": chunks, "sha256": sha256(data).hexdigest()}


def stage(client: redis.Redis, key: str, fields: Iterable[tuple[str, bytes]]) -> None:
    """Write fields of a hash that is not published yet, one after the other."""
    for name, data in fields:
        pipeline = client.pipeline(transaction=True)
        pipeline.hset(key, name, data)
        pipeline.expire(key, STAGED_SECONDS)
        pipeline.execute()


def check_published(status: int, lease: str, what: str) -> None:
    """Raises what the script that publishes says: LeaseLost, StorageUnavailable where the hash has
    expired meanwhile, VersionChanged."""
    if status == _LEASE_LOST:
        raise LeaseLost(lease)
    if status == _STAGING_EXPIRED:
        raise StorageUnavailable(f"{what} expired before it was published")
    if status == _CHANGED:
        raise VersionChanged(what)


SCHEMA_VERSION = 1
# Small enough that neither Redis nor a reader is busy with one chunk for half a millisecond.
CHUNK_BYTES = 256 * 1024

NEWEST_KEPT = 3
"""So many of the newest are always kept: what is in force, and the way back by hand."""

_log = logging.getLogger(__name__)


def beyond_retention(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the versions behind which another one became the last of its hour, oldest first.

    An hour is evaluated with the newest version whose as_of is not after its beginning: of
    all as_of of one hour only the last can be that. `history` are manifests, newest first.
    """
    last: dict[float, Mapping[str, Any]] = {}
    for entry in history:
        held = last.setdefault(_served_hour(entry), entry)
        if entry["as_of"] > held["as_of"]:
            last[_served_hour(entry)] = entry
    older = [entry for entry in history[NEWEST_KEPT:] if last[_served_hour(entry)] is not entry]
    return [entry["version"] for entry in reversed(older)]


def number_of(version: str | None) -> int:
    """The running number that a version's id begins with; -1 of none."""
    number = (version or "").partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _served_hour(entry: Mapping[str, Any]) -> float:
    """The first hour whose beginning is not before as_of."""
    served: float = -(-entry["as_of"] // SECONDS_PER_HOUR)
    return served


@dataclass(frozen=True, slots=True)
class Published:
    """One version: an atlas per target in bytes, and the report of the refit that made it.

    `digests` are the atlases' SHA-256.
    """

    version: str
    as_of: float
    published_at: float
    atlases: Mapping[str, bytes]
    report: dict[str, Any]
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)


class Versions:
    """The last `kept` published versions, and which of them is in force."""

    def __init__(self, client: redis.Redis, kept: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        if kept < 1:
            raise ValueError(f"kept = {kept}: at least 1 version must be kept")
        self._client = client
        self.kept = kept
        self._chunk_bytes = chunk_bytes
        self._publish = client.register_script(lua("publish_version"))
        self._restore = client.register_script(lua("restore_version"))
        self._hold = client.register_script(lua("hold_version"))

    @reaching_the_store()
    def publish(
        self,
        lease_token: LeaseToken,
        as_of: float,
        published_at: float,
        atlases: Mapping[str, Packed],
        report: dict[str, Any],
        replaced: Collection[str] | None = None,
        expected: str | None = None,
        freezes: str | None = None,
    ) -> str:
        """Bring a new version into force and drop what is beyond `kept`, by
        `beyond_retention` first and then the oldest; returns its id.

        Times are epoch seconds. `replaced` are the targets whose maps are new, all by default;
        `expected` is the version that must be in force still, `freezes` what
        `FrozenTargets.counted` said before the maps were made. Changes nothing when it raises:
        LeaseLost when the token's lease is not held any more, VersionChanged when another version
        is in force, a target that is replaced was frozen, or anything was since.
        """
        history = self.history()
        number = self._next_number(history)
        manifest = self._staged(number, as_of, published_at, atlases, report)
        dropped_first = beyond_retention([manifest, *history])
        targets = list(atlases if replaced is None else replaced)
        conditions: list[str | int] = [expected or "", freezes or "", len(targets), *targets]
        self._bring_into_force(lease_token, manifest["version"], conditions, dropped_first)
        return str(manifest["version"])

    @reaching_the_store()
    def hold(
        self,
        lease_token: LeaseToken,
        as_of: float,
        held_at: float,
        atlases: Mapping[str, Packed],
        report: dict[str, Any],
        why: Mapping[str, Any],
    ) -> str:
        """Store a version for a day without bringing it into force, in the place of one that was
        held before; `why` is what `held` tells besides its id and times. Returns its id. Changes
        nothing when it raises: LeaseLost when the token's lease is not held any more."""
        before, number = self.held(), self._next_number(self.history())
        version = str(self._staged(number, as_of, held_at, atlases, report)["version"])
        about = {"schema_version": SCHEMA_VERSION, "version": version, "as_of": as_of}
        entry = pack_manifest({**about, "held_at": held_at, **why})
        names = [keys.lease(lease_token.name), keys.version(version), keys.HELD]
        status = self._hold(keys=names, args=[lease_token.value, entry, HELD_SECONDS])
        check_published(status, lease_token.name, f"version {version!r}")
        if before is not None:
            self._client.unlink(keys.version(before["version"]))
        return version

    def held(self) -> dict[str, Any] | None:
        """What waits for approval: version, as_of, held_at and why; None where nothing does."""
        entry = self._last_held()
        return None if entry is None or entry.get(_DECIDED) else entry

    def held_as_of(self) -> float | None:
        """As of when is what waits for approval, or was decided on within the day, if anything."""
        entry = self._last_held()
        return None if entry is None else float(entry["as_of"])

    @reaching_the_store()
    def _last_held(self) -> dict[str, Any] | None:
        data = self._client.get(keys.HELD)
        try:
            return None if data is None else unpack_manifest(HELD, as_bytes(data), SCHEMA_VERSION)
        except (CorruptVersion, ValueError) as error:
            _log.error("what is held cannot be read: %s", error)
            return None

    @reaching_the_store()
    def reject(self) -> None:
        """Drop what is held."""
        held = self.held()
        if held is not None:
            self._client.unlink(keys.version(held["version"]))
            self._client.set(keys.HELD, pack_manifest({**held, _DECIDED: True}), keepttl=True)

    @reaching_the_store()
    def restore(self, published: Published, found: str | None, now: float) -> str | None:
        """Bring back into force what a store that was emptied has lost, under the next number, its
        report marked with `restored_at`. `found` is what the store has in force; returns None, and
        changes nothing, where that is not so any more."""
        report = published.report | {"restored_at": now}
        return self._replace(found, replace(published, report=report))

    @reaching_the_store()
    def put_in_force(self, published: Published) -> str | None:
        """Bring maps into force, under the next number, in the place of the version that they say
        they are (`published.version`); returns None, and changes nothing, where that is not in
        force any more."""
        return self._replace(published.version, published)

    def _replace(self, found: str | None, published: Published) -> str | None:
        sequence = as_text(self._client.get(keys.SEQUENCE) or "")
        number = max(number_of(sequence), number_of(published.version)) + 1
        times = published.as_of, published.published_at
        manifest = self._staged(number, *times, published.atlases, published.report)
        version = str(manifest["version"])
        names = [keys.CURRENT, keys.SEQUENCE, keys.HISTORY, keys.version(version)]
        arguments: list[str | int] = [
            found or "",
            sequence,
            number,
            version,
            self.kept,
            keys.PUBLISHED,
            keys.version(""),
        ]
        return version if self._restore(keys=names, args=arguments) else None

    def _next_number(self, history: Sequence[Mapping[str, Any]]) -> int:
        """A counter that was damaged goes on behind the versions that are kept."""
        newest = max((number_of(entry["version"]) for entry in history), default=0)
        number = int(self._client.incr(keys.SEQUENCE))
        if number <= newest:
            number = newest + 1
            self._client.set(keys.SEQUENCE, number)
        return number

    def _staged(
        self,
        number: int,
        as_of: float,
        published_at: float,
        atlases: Mapping[str, Packed],
        report: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The manifest of a version that is written, but not in force."""
        version = f"{number:06d}-{_digest(atlases)[:8]}"
        packed_report = orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "version": version,
            "as_of": as_of,
            "published_at": published_at,
            "report_sha256": sha256(packed_report).hexdigest(),
            "atlases": {name: described(data, self._chunk_bytes) for name, data in atlases.items()},
        }
        key, fields = keys.version(version), {"manifest": pack_manifest(manifest)}
        stage(self._client, key, (fields | {"report": packed_report}).items())
        for target, data in atlases.items():
            chunks = enumerate(chunks_of(data, self._chunk_bytes))
            stage(self._client, key, ((f"{target}:{place}", chunk) for place, chunk in chunks))
        return manifest

    @reaching_the_store()
    def current(self) -> str | None:
        """The id of the version in force, in one cheap read; None before the first."""
        version = self._client.get(keys.CURRENT)
        return None if version is None else as_text(version)

    @reaching_the_store()
    def any_published(self) -> bool:
        """Whether there ever was a version in force, as far as the store knows."""
        return bool(self._client.exists(keys.CURRENT, keys.HISTORY))

    @reaching_the_store()
    def manifest(self, version: str) -> dict[str, Any]:
        """What the version holds, without its atlases; raises UnknownVersion, CorruptVersion."""
        return unpack_manifest(version, self._field(version, "manifest"), SCHEMA_VERSION)

    @reaching_the_store()
    def load(
        self,
        version: str,
        before: Published | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> Published:
        """The whole version, every byte of it checked; raises UnknownVersion, CorruptVersion.

        Atlases that are those of the version `before` are not read again: they are its objects.
        `pause` is called between pieces of the work.
        """
        try:
            return self._load(version, self.manifest(version), before, pause)
        except CorruptVersion:
            if self._client.exists(keys.version(version)):
                raise
            # It was dropped under the read: what is missing is no damage.
            raise UnknownVersion(version) from None

    @reaching_the_store()
    def history(self) -> list[dict[str, Any]]:
        """The manifests of the versions kept, newest first; logs and leaves out damaged ones."""
        named = self._client, keys.HISTORY, keys.version
        return list(readable_manifests(*named, SCHEMA_VERSION, "the history"))

    def _load(
        self,
        version: str,
        manifest: dict[str, Any],
        before: Published | None,
        pause: Callable[[], None],
    ) -> Published:
        digests = {name: about["sha256"] for name, about in manifest["atlases"].items()}
        held = {}
        if before is not None:
            held = {digest: before.atlases[target] for target, digest in before.digests.items()}
        for target, about in manifest["atlases"].items():
            if digests[target] not in held:
                held[digests[target]] = self._atlas(version, target, about, pause)
        atlases = {target: held[digest] for target, digest in digests.items()}
        report = self._field(version, "report") or b""
        check_digest(version, "report", sha256(report).hexdigest(), manifest["report_sha256"])
        as_of, published_at = manifest["as_of"], manifest["published_at"]
        return Published(version, as_of, published_at, atlases, orjson.loads(report), digests)

    def _field(self, version: str, field: str) -> bytes | None:
        value = self._client.hget(keys.version(version), field)
        return None if value is None else as_bytes(value)

    def _bring_into_force(
        self,
        lease_token: LeaseToken,
        version: str,
        conditions: Sequence[str | int],
        dropped_first: Sequence[str],
    ) -> None:
        names = [keys.lease(lease_token.name), keys.version(version)]
        names += [keys.CURRENT, keys.HISTORY, keys.FROZEN, keys.FREEZES]
        prefix = keys.version("")
        arguments: list[str | int] = [lease_token.value, version, self.kept, prefix]
        arguments += [keys.PUBLISHED, *conditions, *dropped_first]
        status = self._publish(keys=names, args=arguments)
        check_published(status, lease_token.name, f"version {version!r}")

    def _atlas(
        self, version: str, target: str, about: dict[str, Any], pause: Callable[[], None]
    ) -> bytes:
        # Written chunk by chunk, into memory that is there: one join of all, or one copy to where
        # there is more room, would hold up the other threads.
        joined, digest = BytesIO(bytes(about["bytes"])), sha256()
        for place in range(about["chunks"]):
            pause()
            chunk = self._field(version, f"{target}:{place}") or b""
            digest.update(chunk)
            joined.write(chunk)
        check_digest(version, f"atlas of {target!r}", digest.hexdigest(), about["sha256"])
        return joined.getvalue()


def _digest(atlases: Mapping[str, Packed]) -> str:
    content = sha256()
    for target in sorted(atlases):
        content.update(sha256(target.encode()).digest() + sha256(atlases[target]).digest())
    return content.hexdigest()


_SUBSCRIBE_SECONDS: Final = 1.0
_LONGEST_LOOK: Final = 0.25


class Notices:
    """Waits for the next notice or for a time to pass, whichever comes first.

    A notice may be missed, while the connection is lost for one, so the caller looks for itself
    after every wait. No failure is raised: a lost connection is opened again at the next wait.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._subscribed: PubSub | None = None
        self._closing = threading.Event()

    def wait(self, seconds: float) -> None:
        """Returns at a notice, after so many seconds, or soon after `close`.

        Returns at once when it has just subscribed: there was no notice of what came before.
        """
        deadline = time.monotonic() + seconds
        try:
            if self._subscribed is None:
                self._subscribed = self._subscribe()
            else:
                self._listen(self._subscribed, deadline)
        except (RedisError, OSError):
            self.release()
            self._closing.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Ends the wait of another thread."""
        self._closing.set()

    def release(self) -> None:
        """Gives the connection back; for the thread that waits."""
        if self._subscribed is not None:
            self._subscribed.close()
            self._subscribed = None

    def _subscribe(self) -> PubSub:
        subscribed: PubSub = self._client.pubsub()  # type: ignore[no-untyped-call]
        subscribed.subscribe(keys.PUBLISHED)
        if subscribed.get_message(timeout=_SUBSCRIBE_SECONDS) is None:
            subscribed.close()
            raise redis.TimeoutError("no answer to SUBSCRIBE")
        return subscribed

    def _listen(self, subscribed: PubSub, deadline: float) -> None:
        """Looks are short, so that a close is seen soon."""
        while (left := deadline - time.monotonic()) > 0 and not self._closing.is_set():
            message = subscribed.get_message(timeout=min(left, _LONGEST_LOOK))
            if message is not None and message["type"] == "message":
                return
