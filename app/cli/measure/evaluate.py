"""What `sirocco evaluate` measures of a log and prints: all metrics, the worst slices, JSON."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import (
    note,
    note_files,
    percent_bar,
    print_json,
    print_line,
    print_table,
    progress,
    results,
)
from app.cli.measure_logs import EvaluateOptions
from app.cli.options import LogColumnOptions, ReadingOptions
from app.datasets.evaluation_log import HOURS, MAINLINE, BatchReader, EvaluateColumns, column_cut
from app.datasets.impressions import LogColumns
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of, refuse_inside
from app.datasets.reading import LogReader
from app.errors import CommandError
from app.reports.evaluation import evaluate_page
from app.reports.page import check_report, write_page
from app.reports.pictures import check_picture, draw_evaluated
from app.results.backtest import RAW
from app.results.evaluation import EvaluatedLog, SliceTable, conclusions, notes, overview, summary
from app.results.fields import (
    FIELD_HEADINGS,
    SEGMENT_HEADINGS,
    field_row,
    fields_json,
    mean_line,
    segment_row,
)
from app.results.formatting import counted, records, shortened, shown
from evaluation.fields.field_log import FieldLog, FieldMetrics
from evaluation.fields.segments import SegmentLimits
from evaluation.metrics.predictions import Predictions
from evaluation.streaming.log import OVERALL, RowLimits, StreamedLog
from evaluation.streaming.log_metrics import LogMetrics, log_metrics
from evaluation.streaming.rows import LogBatch

T = TypeVar("T")


def run_evaluate(
    where: str, given: EvaluateOptions, columns: LogColumnOptions, reading: ReadingOptions
) -> None:
    """Measure the log, and print, draw and write what came of it."""
    check_picture(given.picture)
    check_report(given.report)
    refuse_inside([where], {"--picture": given.picture, "--report": given.report})
    if (given.placement is None) != (given.mainline is None):
        raise CommandError("--placement and --mainline go together: a column and one of its values")
    how = reading.reading()
    wanted = EvaluateColumns(
        LogColumns.of(columns, reading),
        tuple(dict.fromkeys(given.by or ())),
        given.group,
        given.placement,
        given.mainline,
        _listed(given.fields),
    )
    log = evaluate_log(where, wanted, how, quiet=given.json)
    if given.picture is not None:
        draw_evaluated(log, given.picture)
    if given.report is not None:
        write_page(evaluate_page(log), given.report)
    if given.json:
        print_json(evaluated_json(log))
    else:
        _show(log, given.top)
        note_files(picture=given.picture, report=given.report)


def _listed(fields: str | None) -> tuple[str, ...]:
    names = [] if fields is None else [name.strip() for name in fields.split(",")]
    if "" in names or len(names) > MOST_FIELDS:
        rule = f"names of at most {MOST_FIELDS} columns, with commas between them"
        raise CommandError(f"--fields {fields!r}: must be {rule}")
    return tuple(dict.fromkeys(names))


def _show(log: EvaluatedLog, top: int) -> None:
    print_line(f"{log.name}: {summary(log)}", "bold")
    for sentence in conclusions(log):
        print_line(sentence)
    _show_overview(log)
    _show_quantiles(log)
    if log.fields is not None:
        _show_fields(log.fields, top)
    _show_slices(log, top)
    if log.notes:
        note("")
    for text in log.notes:
        note(text)


def _show_overview(log: EvaluatedLog) -> None:
    """Print all metrics of the log."""
    console = results()
    for part in overview(log):
        console.print(Text.assemble("\n", (part.title, "bold"), f": {part.question}"))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        for style, width in (("", 20), ("bold", 22), ("dim", 36)):
            table.add_column(style=style, width=width)
        for line in part.lines:
            table.add_row(Text(line.name), Text(line.value), Text(line.reading))
        console.print(table)


_ALWAYS = (
    "n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5", "gauc", "cs_auc", "gcs_auc"
)  # fmt: skip


def evaluated_json(log: EvaluatedLog) -> dict[str, Any]:
    """The answer as values of JSON, but for nan and infinities, which are printed as null."""
    return {
        "rows": {RAW: dict.fromkeys(_ALWAYS, math.nan) | dict(log.overall)},
        "campaigns": _slices_json(log.campaigns),
        "hours": _slices_json(log.hours),
        "by": {column: _slices_json(table) for column, table in log.by.items()},
        "quantiles": quantile_rows(log),
        "score_cells_per_octave": log.fewest_cells,
        "precision": _precision(log),
        "notes": [*log.notes],
    } | ({} if log.fields is None else {"fields": fields_json(log.fields)})


def quantile_rows(log: EvaluatedLog) -> list[dict[str, float]]:
    """The score quantiles, lowest scores first, with the metrics of each."""
    found = log.metrics.quantiles
    total = log.overall["log_loss"] * log.overall["n"]
    return records(
        {
            "n": found.weights,
            "positives": found.weights * found.rates,
            "probability": found.probabilities,
            "rate": found.rates,
            "rate_lower": found.lower,
            "rate_upper": found.upper,
            "prediction_error": found.prediction_errors,
            "log_loss": found.loss_shares * total / found.weights,
            "log_loss_share": found.loss_shares,
        }
    )


def _slices_json(table: SliceTable | None) -> Mapping[str, Mapping[str, float]]:
    if table is None:
        return {}
    return dict(zip(table.names, records(table.columns), strict=True))


def _precision(log: EvaluatedLog) -> dict[str, dict[str, float | None]]:
    tables = {"campaigns": log.campaigns, "hours": log.hours} | {
        f"by {column}": table for column, table in log.by.items()
    }
    cuts = {RAW: log.metrics.groupings[OVERALL]}
    cuts |= {name: table.metrics for name, table in tables.items() if table is not None}
    return {
        name: {"score_cells_per_octave": cut.cells_per_octave, "auc_error_at_most": cut.auc_error}
        for name, cut in cuts.items()
    }


_HOURS_OF_A_DAY = 24
_LONGEST_NAME, _LONGEST_SEGMENT = 18, 44
_QUANTILE_HEADINGS = (
    "part", "positives", "predicted", "observed", "by chance", "error", "of log loss"
)  # fmt: skip
_OFF, _FAR_OFF = "yellow", "bold red"
_FAR = 0.2
"""A slice is far off when its PCOC is, by more than this in logarithms, beyond chance."""


def _show_slices(log: EvaluatedLog, top: int) -> None:
    """Print the slices of every cut, at most `top` of each."""
    if log.campaigns is not None and len(log.campaigns) > 1:
        _show_worst(log.campaigns, "campaigns", "campaign", top)
    for column, table in log.by.items():
        _show_worst(table, f"values of {column}", column, top)
    if log.hours is not None and len(log.hours) > 1:
        _show_hours(log.hours, top)


def _show_quantiles(log: EvaluatedLog) -> None:
    """Print the score quantiles, lowest scores first."""
    rows = quantile_rows(log)
    table = _table(_QUANTILE_HEADINGS)
    for place, row in enumerate(rows, 1):
        inside = row["rate_lower"] <= row["probability"] <= row["rate_upper"]
        table.add_row(
            f"{place}",
            shown(row["positives"], ",.0f"),
            _percent(row["probability"]),
            _percent(row["rate"]),
            f"{_percent(row['rate_lower'])} to {_percent(row['rate_upper'])}",
            Text(shown(row["prediction_error"], "+.0%"), style="" if inside else _OFF),
            shown(row["log_loss_share"], ".0%"),
        )
    size = log.overall["n"] / len(rows)
    parts, each = counted(len(rows), "part"), counted(round(size), "row")
    _print(f"By score: {parts} of about {each}, lowest scores first", table)


def _show_hours(hours: SliceTable, top: int) -> None:
    if len(hours) <= max(_HOURS_OF_A_DAY, top):
        _print(_title(hours, "hours"), _slices(hours, "hour, UTC", range(len(hours))))
    else:
        _show_worst(hours, "hours", "hour, UTC", top)


def _show_fields(found: FieldMetrics, top: int) -> None:
    fields = _table(FIELD_HEADINGS)
    for field in found.errors:
        fields.add_row(*map(_name, field_row(field, found)))
    _print("By field: how far off the totals of its values are", fields, mean_line(found))
    mce, segments = found.multicalibration, _table(SEGMENT_HEADINGS)
    for segment in mce.worst[:top]:
        segments.add_row(*map(_name, segment_row(segment)))
    _print(f"Worst of {mce.segments:,} segments of fields and pairs", segments)


def _name(text: str) -> Text:
    return Text(shortened(text, _LONGEST_SEGMENT))


def _show_worst(table: SliceTable, what: str, heading: str, top: int) -> None:
    rows = table.worst_first[:top]
    more = len(table) - len(rows)
    others = f"and {more:,} more: --top shows more of them, --json has all" if more else ""
    _print(_title(table, what), _slices(table, heading, rows), others)


def _title(table: SliceTable, what: str) -> str:
    chance = table.off_by_chance
    expected = f"up to {chance:,.0f} on average" if chance > 0.5 else "hardly any"
    return f"{table.off_text(what)} (if all were right, {expected})"


def _slices(table: SliceTable, heading: str, rows: Iterable[int]) -> Table:
    ranked = "cs_auc" in table.columns
    headings = [heading, "rows", "positives", "PCOC", "by chance", "log loss", "AUC"]
    shown_table = _table([*headings, "csAUC"] if ranked else headings)
    for i in rows:
        row = table.row(i)
        cells: list[Text | str] = [
            Text(shortened(table.names[i], _LONGEST_NAME)),
            shown(row["n"], ",.0f"),
            shown(row["positives"], ",.0f"),
            Text(shown(row["pcoc"], ".2f"), style=_style(float(table.beyond_chance[i]))),
            f"{shown(row['pcoc_lower'], '.2f')}-{shown(row['pcoc_upper'], '.2f')}",
            shown(row["log_loss"], ".4f"),
            shown(row["auc"], ".3f"),
        ]
        if ranked:
            cells.append(shown(row["cs_auc"], ".3f"))
        shown_table.add_row(*cells)
    return shown_table


def _style(beyond_chance: float) -> str:
    if not beyond_chance:
        return ""
    return _FAR_OFF if beyond_chance > _FAR else _OFF


def _percent(share: float) -> str:
    """A share with three digits, such as 0.0691 %."""
    return shown(100.0 * share, ".2g" if share < 0.1 else ".3g") + " %"


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for place, heading in enumerate(headings):
        # A blank more, so that numbers stand apart.
        table.add_column(
            f" {heading}" if place else heading, justify="right" if place else "left", no_wrap=True
        )
    return table


def _print(title: str, table: Table, more: str = "") -> None:
    print_table(table, f"\n{title}")
    if more:
        print_line(more, "dim")


MOST_FIELDS = 20
FIELD_ROWS = 2_000_000
"""Rows whose fields are held as they come; of a longer log they go into cells."""
FIELD_LIMITS = SegmentLimits(variance=5.0)
"""Segments whose positives vary by less have little to say."""
BATCH_ROWS, BLOCK_BYTES = 1 << 17, 1 << 23
"""Rows of Parquet and bytes of text that are read at a time."""
ROOM = RowLimits()
TABLE_ROWS = 12_000_000
"""Rows of all tables together, of a log that is not held."""
_WORKERS = 2
"""Cuts measured at a time; each takes some 35 bytes a row."""


def evaluate_log(
    where: Where, columns: EvaluateColumns, reading: Reading | None = None, *, quiet: bool
) -> EvaluatedLog:
    """Every metric of a log of any length; a `CommandError` says what is wrong with it."""
    run = LogRun(where, columns, reading or Reading())
    with percent_bar(f"reading {name_of(where)}", shown=not quiet) as reached:
        for done in run.read():
            reached(done)
    steps = len(run.log.groupings) + len(run.log.ranked_groupings)
    with progress("measuring", steps, "cuts", shown=not quiet) as advance:
        metrics = log_metrics(
            run.log, run.reader.sizes(), advance=lambda _: advance(""), workers=_WORKERS
        )
    return run.evaluated(metrics)


class LogRun:
    """One log, read and then measured; what is measured is settled when its columns are known."""

    reader: BatchReader
    log: StreamedLog
    fields: FieldLog | None = None

    def __init__(self, where: Where, columns: EvaluateColumns, reading: Reading) -> None:
        self._where, self._columns, self._reading = where, columns, reading
        self._name = name_of(where)

    def read(self) -> Iterator[float]:
        """Read all rows; gives the share that is done."""
        columns = self._columns
        how = (columns.types, columns.words, self._reading, columns.log.weight)
        log = LogReader(self._where, self._choose, *how)
        batches = log.parsed(lambda rows: self.reader.batch(rows), BATCH_ROWS, BLOCK_BYTES)
        for batch, rows in _read_ahead(batches):
            self.log.add(batch)
            if self.fields is not None:
                self.fields.add(_predictions(batch), batch.fields)
            yield rows.done

    def evaluated(self, metrics: LogMetrics) -> EvaluatedLog:
        """What has been measured, with the names of the slices."""
        present = self.reader.present
        campaign = present.campaign
        return EvaluatedLog(
            name=self._name,
            metrics=metrics,
            campaigns=None if campaign is None else self._values(metrics, campaign),
            hours=None if present.time is None else self._hours(metrics),
            by={name: self._values(metrics, name) for name in present.columns.by},
            campaign_numbers=("",) if campaign is None else self.reader.names(campaign),
            epoch_hours=sorted(self.reader.hours.hours),
            group=present.group,
            fields=None if self.fields is None else self.fields.measured(),
            notes=[
                *self._reading.skipped.notes(),
                *present.notes(self._name),
                *notes(self.log, metrics),
            ],
        )

    def _choose(self, file: str, names: Sequence[str]) -> list[str]:
        present = self._columns.present(file, names)
        self.reader = BatchReader(self._name, present)
        cuts = self.reader.cuts
        ranked = [cut for cut in cuts if cut != MAINLINE]
        tables = len(cuts) + len(ranked)
        room = replace(ROOM, table_rows=min(ROOM.table_rows, TABLE_ROWS // tables))
        self.log = StreamedLog(cuts, ranked, room)
        if self._columns.fields:
            values = self.reader.field_values
            self.fields = FieldLog(self._columns.fields, values, FIELD_LIMITS, FIELD_ROWS)
        return present.chosen

    def _values(self, metrics: LogMetrics, column: str) -> SliceTable:
        return SliceTable.of(self.reader.names(column), metrics.groupings[column_cut(column)])

    def _hours(self, metrics: LogMetrics) -> SliceTable:
        times = (datetime.fromtimestamp(hour * 3600, UTC) for hour in self.reader.hours.hours)
        names = [f"{time:%Y-%m-%dT%H:00Z}" for time in times]
        return SliceTable.of(names, metrics.groupings[HOURS])


def _predictions(batch: LogBatch) -> Predictions:
    weights = np.ones(len(batch)) if batch.weights is None else batch.weights
    return Predictions(batch.scores, batch.outcomes, weights)


def _read_ahead(batches: Iterator[T]) -> Iterator[T]:
    """The batches, the next of which is read while one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
