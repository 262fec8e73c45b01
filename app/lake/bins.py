"""Bins of impressions: of a partition, and of all of them together."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from tempfile import TemporaryFile
from typing import Any, Final

import msgspec
import numpy as np

from app.click_log.folder import Folder
from app.datasets.bin_tables import BinsDigest, TargetBins, bins_of_group, hours_of, write_bins
from app.datasets.impressions import LogColumns, event_batches
from app.datasets.options import Reading
from app.datasets.parts import shown
from app.errors import CommandError
from app.lake.tasks import LakePartition, PartitionTask, reaching_output, reading_settings
from calibrators.bins.table import BinsTable
from calibrators.fields.bin_rows import BinRows
from calibrators.fields.sums import FieldColumn
from evaluation import EventTable
from evaluation.backtest.event_table import EventCells

MERGED: Final = "bins.parquet"
_PIECE: Final = 8 * 1024 * 1024
_DAMAGED: Final = "{} in --output, which may be deleted"


@dataclass(frozen=True, slots=True)
class BinsSettings:
    """What bins are made with: the target they are of, the columns of the log, how it is read."""

    target: str
    columns: LogColumns
    reading: Reading

    def task(self, partition: LakePartition, output: str) -> PartitionTask:
        """The task of a partition."""
        settings = {
            "target": self.target,
            "columns": asdict(self.columns),
            "reading": reading_settings(self.reading),
        }
        urls = {"impressions": [partition.url]}
        return PartitionTask.of("bins", urls, partition.identity, output, settings)


def made_bins(task: PartitionTask) -> tuple[bytes, dict[str, Any]]:
    """The bins of one partition as a file with a row group for each hour; tells its rows, and what
    was skipped. A `CommandError` names file, row, column, value and rule."""
    given, (url,) = msgspec.convert(task.settings, BinsSettings), task.urls["impressions"]
    fields, cells, rows = given.columns.fields, EventCells(), 0
    with BytesIO() as file, _errors_named(shown(url)):
        for events, _ in event_batches(url, given.columns, given.reading, may_be_empty=True):
            cells.add(_with_fields(events, fields))
            rows += len(events)
        tables = (
            TargetBins(given.target, hour, BinRows.of_table(table, fields))
            for hour, table in cells.by_hour()
        )
        write_bins(file, tables, fields)
        return file.getvalue(), {"rows": rows, "notes": given.reading.skipped.notes()}


@contextmanager
def _errors_named(what: str) -> Iterator[None]:
    """Inside, what cannot be read, or no bin can hold, is a `CommandError` that says of what."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise CommandError(f"{what}: {error}") from error


def _with_fields(events: EventTable, fields: Sequence[str]) -> EventTable:
    """The events by campaigns that are joined to the values of their fields."""
    if not fields:
        return events
    column = FieldColumn(events.campaigns, events.rows.astype(np.int64))
    for field in fields:
        column = column.beside((events.fields or {})[field])
    return replace(
        events, campaigns=tuple(column.names), rows=column.codes.astype(np.int32), fields=None
    )


@dataclass(frozen=True, slots=True)
class MergedBins:
    """The sum of the results of tasks by target and hour, added in the order of their names.

    output : the folder or URL of the results.
    results : their paths in it.
    fields : the fields that rows keep apart.
    """

    output: str
    results: Sequence[str]
    fields: Sequence[str] = ()

    def __iter__(self) -> Iterator[TargetBins]:
        """Each target and hour, ascending; one of them is in memory at a time."""
        folder, places = Folder.open(self.output), self._places()
        for target, hour in sorted(places):
            parts = []
            for result, group in places[target, hour]:
                with _errors_named(_DAMAGED.format(result)), folder.opened(result) as file:
                    parts.append(bins_of_group(file, group, self.fields).rows.table(self.fields))
            with _errors_named(f"target {target}, hour {hour}"):
                merged = BinsTable.merge(parts)
            yield TargetBins(target, hour, BinRows.of_table(merged, self.fields))

    def write(self, name: str) -> str:
        """Write all of them into one file of the output; returns the digest of the bins by
        campaign, whatever the fields."""
        digest = BinsDigest()

        def looked_at() -> Iterator[TargetBins]:
            for found in self:
                digest.add(found.target, found.hour, found.rows.table())
                yield found

        with TemporaryFile() as file, reaching_output(self.output) as folder:
            write_bins(file, looked_at(), self.fields)
            file.seek(0)
            folder.write_pieces(name, iter(lambda: file.read(_PIECE), b""))
        return digest.hex

    def _places(self) -> dict[tuple[str, int], list[tuple[str, int]]]:
        """In which results, and row groups of these, each target and hour is."""
        folder = Folder.open(self.output)
        places: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for result in sorted(self.results):
            with _errors_named(_DAMAGED.format(result)), folder.opened(result) as file:
                for group, place in enumerate(hours_of(file)):
                    places[place].append((result, group))
        return places
