"""Manifests: JSON behind the 32 bytes of its SHA-256, and digests of what it describes."""

from hashlib import sha256
from typing import Any

import orjson

from app.storage.errors import CorruptVersion, UnknownVersion

_SEAL_BYTES = 32


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
