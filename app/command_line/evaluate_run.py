"""Reading and measuring a log for `sirocco evaluate`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from app.command_line.console import messages
from app.command_line.evaluate_batches import HOURS, MAINLINE, BatchReader, column_cut
from app.command_line.evaluate_columns import EvaluateColumns
from app.command_line.evaluate_notes import notes
from app.command_line.evaluated_log import EvaluatedLog, SliceTable
from app.command_line.log_batches import LogFile, RawBatch
from app.command_line.percent_bar import percent_bar
from app.command_line.progress import progress
from app.command_line.table_files import no_rows
from evaluation.compact import CompactLog, LogMetrics, Room, log_metrics

BATCH_ROWS, BLOCK_BYTES = 1 << 17, 1 << 23
"""Rows of Parquet and bytes of text that are read at a time."""
ROOM = Room()
TABLE_ROWS = 12_000_000
"""Rows of all tables together, of a log that is not held."""
_WORKERS = 2
"""Cuts measured at a time; each takes some 35 bytes a row."""


def evaluate_log(path: Path, columns: EvaluateColumns, *, quiet: bool) -> EvaluatedLog:
    """Every metric of a log of any length; a `CommandError` says what is wrong with it."""
    run = LogRun(path, columns)
    shown = not quiet and messages().is_terminal
    with percent_bar(f"reading {path.name}", shown=shown) as reached:
        for done in run.read():
            reached(done)
    steps = len(run.log.cuts) + len(run.log.ranked_cuts)
    with progress("measuring", steps, "cuts", shown=shown) as advance:
        metrics = log_metrics(
            run.log, run.reader.sizes(), advance=lambda _: advance(""), workers=_WORKERS
        )
    return run.evaluated(metrics)


class LogRun:
    """One log, read and then measured; what is measured is settled when its columns are known."""

    reader: BatchReader
    log: CompactLog

    def __init__(self, path: Path, columns: EvaluateColumns) -> None:
        self._path, self._columns = path, columns

    def read(self) -> Iterator[float]:
        """Read all rows; gives the share that is done."""
        file = LogFile(self._path, self._choose, self._columns.types, self._columns.words)
        for raw in _read_ahead(file.batches(BATCH_ROWS, BLOCK_BYTES)):
            self.log.add(self.reader.batch(raw))
            yield raw.done
        if not len(self.log):
            raise no_rows(self._path)

    def evaluated(self, metrics: LogMetrics) -> EvaluatedLog:
        """What has been measured, with the names of the slices."""
        present = self.reader.present
        by = {name: self._values(metrics, name) for name in present.columns.by}
        campaign = present.campaign
        return EvaluatedLog(
            name=self._path.name,
            metrics=metrics,
            campaigns=None if campaign is None else self._values(metrics, campaign),
            hours=None if present.time is None else self._hours(metrics),
            by=by,
            campaign_numbers=("",) if campaign is None else self.reader.names(campaign),
            epoch_hours=sorted(self.reader.hours.hours),
            group=present.group,
            notes=[*present.notes(self._path.name), *notes(self.log, metrics)],
        )

    def _choose(self, names: Sequence[str]) -> list[str]:
        present = self._columns.present(self._path.name, names)
        self.reader = BatchReader(self._path.name, present)
        cuts = self.reader.cuts
        ranked = [cut for cut in cuts if cut != MAINLINE]
        tables = len(cuts) + len(ranked)
        room = replace(ROOM, table_rows=min(ROOM.table_rows, TABLE_ROWS // tables))
        self.log = CompactLog(cuts, ranked, room)
        return present.chosen

    def _values(self, metrics: LogMetrics, column: str) -> SliceTable:
        return SliceTable.of(self.reader.names(column), metrics.cuts[column_cut(column)])

    def _hours(self, metrics: LogMetrics) -> SliceTable:
        times = (datetime.fromtimestamp(hour * 3600, UTC) for hour in self.reader.hours.hours)
        names = [f"{time:%Y-%m-%dT%H:00Z}" for time in times]
        return SliceTable.of(names, metrics.cuts[HOURS])


def _read_ahead(batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
    """The batches, the next of which is read while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
