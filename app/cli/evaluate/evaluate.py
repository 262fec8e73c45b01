"""`sirocco evaluate`.

Reading and measuring a log for `sirocco evaluate`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options
from app.cli.console import messages, note, percent_bar, progress
from app.cli.evaluate.tables import (
    print_evaluated,
    show_overview,
    show_quantiles,
    show_slices,
    show_title,
)
from app.datasets.evaluation_log import HOURS, MAINLINE, BatchReader, EvaluateColumns, column_cut
from app.datasets.impressions import LogColumns, LogFile, RawBatch
from app.datasets.tables import no_rows
from app.errors import CommandError, invocation
from app.reports.evaluation import evaluate_page
from app.reports.page import check_report, how_made, write_page
from app.reports.pictures import check_picture, draw_evaluated
from app.results.evaluation import EvaluatedLog, SliceTable, notes
from evaluation.streaming import LogMetrics, RowLimits, StreamedLog, log_metrics

BATCH_ROWS, BLOCK_BYTES = 1 << 17, 1 << 23
"""Rows of Parquet and bytes of text that are read at a time."""
ROOM = RowLimits()
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
    steps = len(run.log.groupings) + len(run.log.ranked_groupings)
    with progress("measuring", steps, "cuts", shown=shown) as advance:
        metrics = log_metrics(
            run.log, run.reader.sizes(), advance=lambda _: advance(""), workers=_WORKERS
        )
    return run.evaluated(metrics)


class LogRun:
    """One log, read and then measured; what is measured is settled when its columns are known."""

    reader: BatchReader
    log: StreamedLog

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
        self.log = StreamedLog(cuts, ranked, room)
        return present.chosen

    def _values(self, metrics: LogMetrics, column: str) -> SliceTable:
        return SliceTable.of(self.reader.names(column), metrics.groupings[column_cut(column)])

    def _hours(self, metrics: LogMetrics) -> SliceTable:
        times = (datetime.fromtimestamp(hour * 3600, UTC) for hour in self.reader.hours.hours)
        names = [f"{time:%Y-%m-%dT%H:00Z}" for time in times]
        return SliceTable.of(names, metrics.groupings[HOURS])


def _read_ahead(batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
    """The batches, the next of which is read while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


_SLICES = "What is measured"

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Also measure each value of this column; may be given several times.",
        rich_help_panel=_SLICES,
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COLUMN",
        help="What GAUC and gcsAUC average over, such as user or request.",
        rich_help_panel=_SLICES,
        show_default="the campaign",
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        metavar="COLUMN",
        help="Where an impression was shown; with --mainline.",
        rich_help_panel=_SLICES,
        show_default=False,
    ),
]
Mainline = Annotated[
    str | None,
    typer.Option(
        "--mainline",
        metavar="VALUE",
        help="The placement whose AUC is measured by itself.",
        rich_help_panel=_SLICES,
        show_default=False,
    ),
]
Top = Annotated[
    int,
    typer.Option("--top", min=1, help="Slices that a table shows.", rich_help_panel=_SLICES),
]


def evaluate(
    log: options.Log,
    by: By = None,
    group: Group = None,
    placement: Placement = None,
    mainline: Mainline = None,
    top: Top = 10,
    picture: options.OptionalPicture = None,
    report: options.Report = None,
    json: options.Json = False,
    score: options.ScoreColumn = "score",
    outcome: options.OutcomeColumn = "outcome",
    campaign: options.CampaignColumn = "campaign",
    time: options.TimeColumn = "time",
    bid: options.BidColumn = "bid",
) -> None:
    """Measure the scores of a log as they are: how far off are they, and where?

    Prints every metric of calibration, loss, ranking and revenue: of all rows,
    by campaign, by hour, by score and by any column. A log may have any length.
    Without a campaign, time or bid column the rest is measured.

    [bold]Examples[/bold]

      sirocco evaluate log.parquet
      sirocco evaluate log.parquet --by device --by country --report log.html
      sirocco evaluate log.parquet --group user --placement slot --mainline top
      sirocco evaluate clicks.csv.gz --score pctr --json
    """
    if picture is not None:
        check_picture(picture)
    if report is not None:
        check_report(report)
    if (placement is None) != (mainline is None):
        raise CommandError("--placement and --mainline go together: a column and one of its values")
    columns = EvaluateColumns(
        LogColumns(score, outcome, campaign, time, bid),
        tuple(dict.fromkeys(by or ())),
        group,
        placement,
        mainline,
    )
    evaluated = evaluate_log(log, columns, quiet=json)
    if picture is not None:
        draw_evaluated(evaluated, picture)
    if report is not None:
        write_page(evaluate_page(evaluated, how_made(invocation(), datetime.now(UTC))), report)
    if json:
        print_evaluated(evaluated)
    else:
        _show(evaluated, top)
        _tell_files(picture, report)


def _show(evaluated: EvaluatedLog, top: int) -> None:
    show_title(evaluated)
    show_overview(evaluated)
    show_quantiles(evaluated)
    show_slices(evaluated, top)
    if evaluated.notes:
        note("")
    for text in evaluated.notes:
        note(text)


def _tell_files(picture: Path | None, report: Path | None) -> None:
    for what, path in (("Picture", picture), ("Report", report)):
        if path is not None:
            note(f"{what}: {path}")
