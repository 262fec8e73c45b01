"""Manifests, and the chunks of bytes that they describe: of versions of maps and of models.

A version or a model is one hash. It is written field by field under a time to live and kept only
once a script has published it, so a publisher that dies half-way leaves nothing behind. Its
manifest is JSON behind the 32 bytes of its SHA-256, and has the SHA-256 of everything else.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import orjson
import redis

from app.storage.errors import CorruptVersion, LeaseLost, StorageUnavailable, UnknownVersion

STAGED_SECONDS = 900
_SEAL_BYTES = 32
_LEASE_LOST, _STAGING_EXPIRED = 1, 2


def pack_manifest(manifest: dict[str, Any]) -> bytes:
    """The bytes of a manifest."""
    packed = orjson.dumps(manifest, option=orjson.OPT_SERIALIZE_NUMPY)
    return sha256(packed).digest() + packed


def unpack_manifest(version: str, data: bytes | None, schema_version: int) -> dict[str, Any]:
    """The manifest of a version; raises UnknownVersion without bytes, CorruptVersion on wrong
    ones and on another schema_version."""
    if data is None:
        raise UnknownVersion(version)
    seal, packed = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
    if sha256(packed).digest() != seal:
        raise CorruptVersion(version, "the sha256 of its manifest is wrong")
    manifest: dict[str, Any] = orjson.loads(packed)
    if manifest.get("schema_version") != schema_version:
        raise CorruptVersion(version, f"only schema_version {schema_version} is known")
    return manifest


def check_digest(version: str, name: str, data: bytes, expected: str) -> None:
    """Raises CorruptVersion when bytes are not those that the manifest describes."""
    if sha256(data).hexdigest() != expected:
        raise CorruptVersion(version, f"the sha256 of its {name} is wrong")


def chunks_of(data: bytes, size: int) -> list[bytes]:
    """The bytes in chunks, the last one shorter."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def described(data: bytes, size: int) -> dict[str, Any]:
    """What a manifest says of bytes in chunks of a size."""
    chunks = len(chunks_of(data, size))
    return {"bytes": len(data), "chunks": chunks, "sha256": sha256(data).hexdigest()}


def stage(client: redis.Redis, key: str, fields: Mapping[str, bytes]) -> None:
    """Write fields of a hash that is not published yet, one after the other."""
    for name, data in fields.items():
        pipeline = client.pipeline(transaction=True)
        pipeline.hset(key, name, data)
        pipeline.expire(key, STAGED_SECONDS)
        pipeline.execute()


def check_published(status: int, lease: str, what: str) -> None:
    """Raises what the script that publishes says: LeaseLost, or StorageUnavailable where the hash
    has expired meanwhile."""
    if status == _LEASE_LOST:
        raise LeaseLost(lease)
    if status == _STAGING_EXPIRED:
        raise StorageUnavailable(f"{what} expired before it was published")
