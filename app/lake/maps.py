"""Maps of bins: the refit that a worker would do, of a table of bins instead of the store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from app.datasets.bin_tables import TargetBins
from app.errors import FAILED, CommandError
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage import keys
from app.storage.bins import hour_blocks
from app.storage.statistics.breakdowns import DeclaredFields
from app.worker.fitting import Fitting, Methods
from calibrators import Atlas, BinsTable
from calibrators.bins.codecs import BinOverflow
from calibrators.bins.table import History, HourTables
from calibrators.fields.sums import FieldTables


@dataclass(frozen=True, slots=True, eq=False)
class TargetHours:
    """The newest hours of one target, with the sums by declared field."""

    tables: dict[int, BinsTable] = field(default_factory=dict)
    fields: dict[int, FieldTables] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The newest hour of all."""
        return max(self.tables)

    def add(self, found: TargetBins, most: int, declared: DeclaredFields) -> None:
        """Take in one more hour; of more than `most` hours the oldest goes."""
        self.tables[found.hour] = found.rows.table()
        if declared.names:
            self.fields[found.hour] = found.rows.by_field(declared.names, declared.pairs)
        for hour in [hour for hour in self.tables if hour <= self.newest - most]:
            del self.tables[hour]
            self.fields.pop(hour, None)

    def history(self, declared: DeclaredFields) -> History:
        """What a refit as of the end of the newest hour learns from, in the blocks of the store, so
        that its sums of floats are the same to the last bit."""
        nothing = FieldTables.empty(declared.names, declared.pairs)
        by_field = (lambda hour: self.fields.get(hour, nothing)) if declared.names else None
        return History(float(self.newest + 1), list(self._blocks()), by_field)

    def _blocks(self) -> Iterator[HourTables]:
        shards = {hour: keys.shards_of(table.campaigns) for hour, table in self.tables.items()}
        ordered = sorted(self.tables.items())
        for shard in range(keys.SHARDS):
            parts = {hour: table.chosen(shards[hour] == shard) for hour, table in ordered}
            yield from hour_blocks({hour: part.packed for hour, part in parts.items() if len(part)})


@dataclass(frozen=True, slots=True, eq=False)
class FittedMaps:
    """The maps of a target as of a moment, epoch seconds; how many campaigns got none."""

    target: str
    as_of: float
    calibrator: str
    atlas: Atlas
    skipped: int

    def report(self) -> dict[str, Any]:
        """In numbers; the digest is that of the atlas's bytes."""
        return {
            "as_of": self.as_of,
            "calibrator": self.calibrator,
            "fitted": len(self.atlas),
            "skipped": self.skipped,
            "digest": sha256(self.atlas.to_bytes()).hexdigest(),
        }


def fitted_maps(bins: Iterable[TargetBins], settings: Settings) -> Iterator[FittedMaps]:
    """The maps of each target in turn, by its method, from nothing that a refit before has left.

    Bins come in any order. Sums by field are by score.
    """
    methods, declared = Methods(settings), DeclaredFields.of(settings)
    fitting = Fitting(settings, methods)
    targets = defaultdict[str, TargetHours](TargetHours)
    for found in bins:
        # A table may be sorted by hour, and a folder may have a file for each day.
        targets[found.target].add(found, fitting.hours(found.target, {}), declared)
    for target, held in targets.items():
        calibrator = fitting.calibrator_of(target)
        try:
            fitted = methods.refit(calibrator, target, held.history(declared), False)
        except BinOverflow as error:
            raise CommandError(f"target {target}: {error}") from error
        if not len(fitted.atlas) and fitted.atlas.target_map is None:
            raise CommandError(f"target {target}: too few impressions for any map", FAILED)
        as_of = float(SECONDS_PER_HOUR * (held.newest + 1))
        yield FittedMaps(target, as_of, calibrator, fitted.atlas, len(fitted.skipped))
