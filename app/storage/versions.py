"""Published versions: the atlases of all targets, moved into force in one step.

A version is one hash: `manifest` (the 32 bytes of the SHA-256 of what follows, then JSON:
schema_version, version, as_of, published_at, sha256 of the report, and bytes, chunks and sha256 of
every atlas), `report` (JSON), and the atlases in chunks `<target>:<number>`. It is written under a
time to live and kept only once it is published, so a publisher that dies half-way leaves nothing
behind.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import Any

import orjson
import redis

from app.storage import keys
from app.storage.errors import (
    CorruptVersion,
    LeaseLost,
    StorageUnavailable,
    UnknownVersion,
    reaching_the_store,
)
from app.storage.lease import LeaseToken
from app.storage.manifests import check_digest, pack_manifest, unpack_manifest
from app.storage.replies import as_bytes, as_text
from app.storage.scripts import lua
from app.storage.superseded import superseded

SCHEMA_VERSION = 1
# Small enough that neither Redis nor a reader is busy with one chunk for a millisecond.
CHUNK_BYTES = 1024 * 1024
STAGED_SECONDS = 900

_PUBLISHED, _LEASE_LOST, _STAGING_EXPIRED = range(3)

_log = logging.getLogger(__name__)


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

    def atlases_by_digest(self) -> dict[str, bytes]:
        """The atlases, to be found by what they hold."""
        return {digest: self.atlases[target] for target, digest in self.digests.items()}


class Versions:
    """The last `kept` published versions, and which of them is in force."""

    def __init__(self, client: redis.Redis, kept: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        if kept < 1:
            raise ValueError(f"kept = {kept}: at least 1 version must be kept")
        self._client = client
        self._kept = kept
        self._chunk_bytes = chunk_bytes
        self._publish = client.register_script(lua("publish_version"))

    @reaching_the_store()
    def publish(
        self,
        lease_token: LeaseToken,
        as_of: float,
        published_at: float,
        atlases: Mapping[str, bytes],
        report: dict[str, Any],
    ) -> str:
        """Bring a new version into force and drop what is beyond `kept`, first what no hour will
        be judged by and then the oldest (`superseded`); returns its id.

        Times are epoch seconds. Raises LeaseLost, and changes nothing, when the token's lease is
        not held any more.
        """
        number = self._client.incr(keys.SEQUENCE)
        version = f"{number:06d}-{_digest(atlases)[:8]}"
        packed_report = orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "version": version,
            "as_of": as_of,
            "published_at": published_at,
            "report_sha256": sha256(packed_report).hexdigest(),
            "atlases": {target: self._describe(data) for target, data in atlases.items()},
        }
        self._stage(version, "manifest", pack_manifest(manifest))
        self._stage(version, "report", packed_report)
        for target, data in atlases.items():
            for place, chunk in enumerate(self._chunks(data)):
                self._stage(version, f"{target}:{place}", chunk)
        dropped_first = superseded([manifest, *self.history()])
        self._bring_into_force(lease_token, version, dropped_first)
        return version

    @reaching_the_store()
    def current(self) -> str | None:
        """The id of the version in force, in one cheap read; None before the first."""
        version = self._client.get(keys.CURRENT)
        return None if version is None else as_text(version)

    @reaching_the_store()
    def manifest(self, version: str) -> dict[str, Any]:
        """What the version holds, without its atlases; raises UnknownVersion, CorruptVersion."""
        return _manifest(version, self._field(version, "manifest"))

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
        versions = [as_text(version) for version in self._client.lrange(keys.HISTORY, 0, -1)]
        pipeline = self._client.pipeline(transaction=False)
        for version in versions:
            pipeline.hget(keys.version(version), "manifest")
        stored = zip(versions, pipeline.execute(), strict=True)
        return list(_readable(stored))

    def _load(
        self,
        version: str,
        manifest: dict[str, Any],
        before: Published | None,
        pause: Callable[[], None],
    ) -> Published:
        digests = {name: about["sha256"] for name, about in manifest["atlases"].items()}
        held = {} if before is None else before.atlases_by_digest()
        for target, described in manifest["atlases"].items():
            if digests[target] not in held:
                held[digests[target]] = self._atlas(version, target, described, pause)
        atlases = {target: held[digest] for target, digest in digests.items()}
        report = self._field(version, "report") or b""
        check_digest(version, "report", report, manifest["report_sha256"])
        as_of, published_at = manifest["as_of"], manifest["published_at"]
        return Published(version, as_of, published_at, atlases, orjson.loads(report), digests)

    def _field(self, version: str, field: str) -> bytes | None:
        value = self._client.hget(keys.version(version), field)
        return None if value is None else as_bytes(value)

    def _describe(self, data: bytes) -> dict[str, Any]:
        return {
            "bytes": len(data),
            "chunks": len(self._chunks(data)),
            "sha256": sha256(data).hexdigest(),
        }

    def _chunks(self, data: bytes) -> list[bytes]:
        size = self._chunk_bytes
        return [data[start : start + size] for start in range(0, len(data), size)]

    def _stage(self, version: str, field: str, data: bytes) -> None:
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hset(keys.version(version), field, data)
        pipeline.expire(keys.version(version), STAGED_SECONDS)
        pipeline.execute()

    def _bring_into_force(
        self, lease_token: LeaseToken, version: str, dropped_first: Sequence[str]
    ) -> None:
        names = [
            keys.lease(lease_token.name),
            keys.version(version),
            keys.CURRENT,
            keys.HISTORY,
        ]
        prefix = keys.version("")
        arguments: list[str | int] = [lease_token.value, version, self._kept, prefix]
        arguments += [keys.PUBLISHED, *dropped_first]
        status = self._publish(keys=names, args=arguments)
        if status == _LEASE_LOST:
            raise LeaseLost(lease_token.name)
        if status == _STAGING_EXPIRED:
            raise StorageUnavailable(f"version {version!r} expired before it was published")

    def _atlas(
        self, version: str, target: str, described: dict[str, Any], pause: Callable[[], None]
    ) -> bytes:
        # Written chunk by chunk, into memory that is there: one join of all, or one copy to where
        # there is more room, would hold up the other threads.
        joined = BytesIO(bytes(described["bytes"]))
        for place in range(described["chunks"]):
            pause()
            joined.write(self._field(version, f"{target}:{place}") or b"")
        data = joined.getvalue()
        check_digest(version, f"atlas of {target!r}", data, described["sha256"])
        return data


def _digest(atlases: Mapping[str, bytes]) -> str:
    content = sha256()
    for target in sorted(atlases):
        content.update(sha256(target.encode()).digest() + sha256(atlases[target]).digest())
    return content.hexdigest()


def _readable(stored: Iterable[tuple[str, bytes | None]]) -> Iterator[dict[str, Any]]:
    for version, data in stored:
        try:
            yield _manifest(version, data)
        except (CorruptVersion, UnknownVersion) as error:
            _log.error("left out of the history: %s", error)


def _manifest(version: str, data: bytes | None) -> dict[str, Any]:
    return unpack_manifest(version, data, SCHEMA_VERSION)
