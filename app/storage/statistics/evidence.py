"""What the evaluated hours said of each campaign (`calibrators.evidence`), by target and
shard, and of the target as a whole.

Little-endian, in the frame of a block: magic "SEVD", schema_version u2, length of the body u4,
CRC-32 of the body u4 (which begins with that of the key); of c campaigns the body holds

    first hour that is not in it u4, campaigns c u4
    names of the campaigns (`calibrators.bins.codecs`)
    values f8 (ROWS, c)
"""

import logging
import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

import numpy as np
import redis
from redis.exceptions import ResponseError

from app.storage import keys
from app.storage.blocks import framed, opened
from app.storage.integrity.damage import Damage, Damaged, is_wrong_type
from app.storage.redis.client import as_bytes, reaching_the_store
from calibrators.bins.codecs import pack_names, unpack_names
from calibrators.evidence import FORGOTTEN_HOURS, ROWS, PcocEvidence

_MAGIC: Final = b"SEVD"
_HEAD: Final = struct.Struct("<II")
_SECONDS: Final = FORGOTTEN_HOURS * 3600
_log = logging.getLogger(__name__)


def pack_evidence(evidence: PcocEvidence, key: str) -> bytes:
    """The bytes under the key."""
    head = _HEAD.pack(evidence.until, len(evidence.campaigns))
    body = head + pack_names(evidence.campaigns) + evidence.values.astype("<f8").tobytes()
    return framed(_MAGIC, body, crc32(key.encode()))


def unpack_evidence(data: bytes, key: str) -> PcocEvidence:
    """The inverse; ValueError on bytes of another kind, version or key, and on any damage."""
    body, _ = opened(_MAGIC, data, crc32(key.encode()))
    until, count = _HEAD.unpack_from(body)
    names, end = unpack_names(memoryview(body), _HEAD.size, count)
    values = np.frombuffer(body, "<f8", ROWS * count, end).reshape(ROWS, count)
    return PcocEvidence(until, names, values)


class EvidenceStore:
    """Evidence by target and shard; lives as long as a campaign without traffic is remembered.
    What cannot be read is set aside, and begins anew."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._damage = Damage(client)

    def shards(self, target: str) -> Iterator[PcocEvidence]:
        """Of all campaigns of the target, shard after shard."""
        return (self.read(target, shard) for shard in range(keys.SHARDS))

    @reaching_the_store()
    def read(self, target: str, shard: int | None) -> PcocEvidence:
        """Of the campaigns of one shard; without one, of the target, whose name is empty."""
        key = keys.evidence(target, shard)
        try:
            data = self._client.get(key)
            return PcocEvidence.empty() if data is None else unpack_evidence(as_bytes(data), key)
        except (ValueError, ResponseError) as error:
            if isinstance(error, ResponseError) and not is_wrong_type(error):
                raise
            _log.error("%s: %s", key, error)
            self._damage.set_key_aside(Damaged.EVIDENCE, key)
            return PcocEvidence.empty()

    @reaching_the_store()
    def write(self, target: str, shard: int | None, evidence: PcocEvidence) -> None:
        """Replace it."""
        key = keys.evidence(target, shard)
        self._client.set(key, pack_evidence(evidence, key), ex=_SECONDS)
