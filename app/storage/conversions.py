"""Conversions on their way from requests to the click log: handed over exactly once.

`read` hands out the blocks at the head of a log, `drop` takes them away once they are written down.
It knows them by their digest: one that is repeated takes nothing away.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from app.storage import keys
from app.storage.blocks import StoredConversion, decode_conversions
from app.storage.integrity.damage import DAMAGED_SECONDS, Damage, Damaged
from app.storage.keys import TargetHour
from app.storage.redis.client import lua, reaching_the_store

BYTES_AT_ONCE = 1024 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadMark:
    """What one read handed out: so many blocks of this digest, and those that are damaged."""

    blocks: int
    digest: bytes
    damaged: tuple[bytes, ...] = ()


class ConversionLog:
    """The conversions that wait for the worker."""

    def __init__(self, client: redis.Redis, bytes_at_once: int = BYTES_AT_ONCE) -> None:
        self._client = client
        self._bytes_at_once = bytes_at_once
        self._damage = Damage(client)
        self._read = client.register_script(lua("read_conversions"))
        self._drop = client.register_script(lua("drop_conversions"))

    @reaching_the_store()
    def pending(self, shards: Sequence[int] = range(keys.SHARDS)) -> dict[TargetHour, int]:
        """The logs of these shards that hold conversions, or did a moment ago, and how many blocks
        each has: one at least, for to read an empty one closes it."""
        logs = list(self._damage.named(keys.conversion_logs, shards))
        pipeline = self._client.pipeline(transaction=False)
        for log in logs:
            pipeline.llen(log.conversions)
        return {log: max(1, blocks) for log, blocks in zip(logs, pipeline.execute(), strict=True)}

    @reaching_the_store()
    def read(self, log: TargetHour) -> tuple[ReadMark, list[StoredConversion]]:
        """The conversions at the head of a log, and the mark that drops them.

        About a megabyte of them: read and drop until the mark says 0 blocks. A block that cannot be
        read is logged; `drop` sets it aside.
        """
        names = [log.conversions, keys.conversion_logs(log.shard)]
        digest, blocks = self._read(keys=names, args=(log.member, self._bytes_at_once))
        conversions, damaged = _decoded(log, blocks)
        return ReadMark(len(blocks), digest, tuple(damaged)), conversions

    @reaching_the_store()
    def drop(self, log: TargetHour, mark: ReadMark) -> bool:
        """Take away what `read` handed out; False if that is not at the head any more."""
        if not mark.blocks:
            return False
        names = [log.conversions, keys.conversion_logs(log.shard), keys.damaged(log.shard)]
        seen: list[bytes | int] = [DAMAGED_SECONDS, mark.blocks, mark.digest]
        arguments = (log.member, *seen, *mark.damaged)
        dropped = bool(self._drop(keys=names, args=arguments))
        if dropped and mark.damaged:
            self._damage.count(Damaged.BLOCK, len(mark.damaged))
        return dropped


def _decoded(
    log: TargetHour, blocks: Sequence[bytes]
) -> tuple[list[StoredConversion], list[bytes]]:
    conversions: list[StoredConversion] = []
    damaged: list[bytes] = []
    for data in blocks:
        try:
            conversions += decode_conversions(data, log.target, log.checksum)
        except ValueError as error:
            _log.error("block of %s set aside: %s", log.conversions, error)
            damaged.append(data)
    return conversions, damaged
