"""Bins that somebody else has summed, added to those of an hour exactly once.

What is loaded has a name, source and partition, and a digest. The hour keeps the digest by the
name, so that a repeat is known and other bins of that name are refused. Each shard adds its part
and keeps the digest in one step, the fold's own (`commit_fold.lua`), which another fold or load
makes begin again. Who dies between two shards leaves a part; the repeat adds the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
import redis

from app.settings import SECONDS_PER_HOUR
from app.storage import keys
from app.storage.errors import BinsConflict, StorageUnavailable, TooManyLoads
from app.storage.integrity.damage import Damage
from app.storage.keys import TargetHour
from app.storage.redis.client import as_text, lua, reaching_the_store
from app.storage.statistics.breakdowns import Breakdowns, DeclaredFields
from app.storage.statistics.folding import stored_table
from calibrators.bins.codecs import LIMIT, SCALE
from calibrators.bins.table import BinsTable
from calibrators.fields.bin_rows import BinRows
from calibrators.samples import Floats

MOST_LOADS: Final = 1000
"""Partitions of an hour."""
_MOST_TRIES: Final = 100


class LoadName(NamedTuple):
    """Who made the bins, and of what; an hour's bins of one name are loaded once."""

    source: str
    partition: str

    @property
    def field(self) -> str:
        """The name of the digest beside the bins."""
        whole = f"{self.source}\0{self.partition}".encode()
        return keys.loaded(blake2b(whole, digest_size=8).hexdigest())


@dataclass(frozen=True, slots=True, eq=False)
class HourLoad:
    """Bins of one target and hour; `predicted` are the probabilities of their means by the maps in
    force, (n,), by which fields are summed; None is the scores."""

    target: str
    hour: int
    rows: BinRows
    predicted: Floats | None = None

    def by_shard(self) -> Iterator[tuple[TargetHour, "HourLoad"]]:
        """The part of each shard that has any."""
        names, codes = self.rows.campaigns
        shards = keys.shards_of(names)[codes]
        for shard in np.unique(shards).tolist():
            chosen = shards == shard
            predicted = None if self.predicted is None else self.predicted[chosen]
            part = HourLoad(self.target, self.hour, self.rows.select(chosen), predicted)
            yield TargetHour(shard, self.target, self.hour), part


class LoadedBins:
    """Adds bins to the store; they live for ttl_seconds, as those of folds do."""

    def __init__(
        self, client: redis.Redis, ttl_seconds: int, fields: DeclaredFields | None = None
    ) -> None:
        self._client = client
        self._ttl_seconds = ttl_seconds
        self._damage = Damage(client)
        self._breakdowns = Breakdowns(client, self._damage)
        self._breakdowns.fields = fields or DeclaredFields()
        self._commit_fold = client.register_script(lua("commit_fold"))

    @reaching_the_store()
    def add(self, name: LoadName, load: HourLoad) -> bool:
        """Add the bins of an hour; False where they are there already.

        Raises BinsConflict where the name stands for other bins of this hour, TooManyLoads, and
        OverflowError where so large a sum in each hour that is kept, and events beside it, would
        reach 9.2e9: the shards before it keep their part.
        """
        digest = load.rows.digest(f"{load.target} {load.hour}")
        parts = list(load.by_shard())
        self._check_room(load.rows.table())
        self._claim(name, load, digest)
        added = [self._add(place, name, part, digest) for place, part in parts]
        return any(added)

    def _claim(self, name: LoadName, load: HourLoad, digest: str) -> None:
        """Have the name stand for the digest from now on; raises as `add` does."""
        key = keys.loads(load.hour, load.target)
        known, number = self._client.hget(key, name.field), self._client.hlen(key)
        if known is None and number >= MOST_LOADS:
            raise TooManyLoads(load.target, load.hour, MOST_LOADS)
        # Bins may outlive the claim, because folds renew their life: a new one must be of these.
        self._check(name, load, digest, [known, *self._digests(name, load)])
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hsetnx(key, name.field, digest)
            pipeline.expire(key, self._ttl_seconds)
            pipeline.hget(key, name.field)
            *_, known = pipeline.execute()
        self._check(name, load, digest, [known])

    def _digests(self, name: LoadName, load: HourLoad) -> list[bytes | str | None]:
        """Of each shard the digest that its bins of the name have."""
        held = [TargetHour(shard, load.target, load.hour) for shard in range(keys.SHARDS)]
        with self._client.pipeline(transaction=False) as pipeline:
            for place in held:
                pipeline.hget(place.bins, name.field)
            found: list[bytes | str | None] = pipeline.execute()
        return found

    def _check(
        self, name: LoadName, load: HourLoad, digest: str, found: Sequence[bytes | str | None]
    ) -> None:
        if {as_text(each) for each in found if each is not None} - {digest}:
            raise BinsConflict(*name, load.target, load.hour)

    def _add(self, place: TargetHour, name: LoadName, load: HourLoad, digest: str) -> bool:
        names = [place.bins, keys.hours(place.shard)]
        for _ in range(_MOST_TRIES):
            folds, held, known = self._client.hmget(place.bins, "folds", "table", name.field)
            if known is not None:
                return False
            if (stored := stored_table(self._damage, place, folds, held)) is None:
                continue
            table = BinsTable.merge((stored, load.rows.table()))
            self._check_room(table)
            data = table.to_bytes(place.checksum)
            written = {"table": data, name.field: digest.encode(), **self._by_field(place, load)}
            fields = [part for field in written.items() for part in field]
            seen = (place.member, self._ttl_seconds, folds or b"0")
            if self._commit_fold(keys=names, args=[*seen, *fields]):
                return True
        raise StorageUnavailable(f"{place.bins} changes all the time")

    def _check_room(self, table: BinsTable) -> None:
        """No event that is folded afterwards, nor the sum of all hours that are kept, may be too
        much: that would stop whoever folds or fits."""
        hours = max(1, self._ttl_seconds // SECONDS_PER_HOUR)
        most = int(LIMIT / (2 * hours))
        if table.sums.max(initial=0) > most:
            raise OverflowError(
                f"the sums of an hour, campaign and cell must be at most {most / SCALE:,.0f}, where"
                f" {hours} hours are kept"
            )

    def _by_field(self, place: TargetHour, load: HourLoad) -> dict[str, bytes]:
        declared = self._breakdowns.fields
        if load.target not in declared.targets:
            return {}
        return self._breakdowns.with_tables(
            place, lambda: load.rows.by_field(declared.names, declared.pairs, load.predicted)
        )
