"""What `sirocco compare` reads and prints: two models, or training runs of two models."""

from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from app.cli.console import (
    note,
    note_files,
    numbers_table,
    percent_bar,
    print_json,
    print_line,
    print_table,
    results,
)
from app.cli.measure_logs import CompareOptions, PairedColumnOptions
from app.cli.options import ReadingOptions, refuse
from app.datasets.impressions import LogColumns
from app.datasets.options import Reading
from app.datasets.paired_logs import SideFile, joined_batches, paired_batches
from app.datasets.parts import Where, logs_in, name_of, refuse_inside
from app.datasets.parts import shown as shown_place
from app.errors import CommandError
from app.reports.comparison import compare_page, runs_page
from app.reports.page import check_report, write_page
from app.results.comparison import (
    HOW_TO_READ,
    HOW_TO_READ_RUNS,
    LOSSES,
    STARRED,
    Compared,
    ComparedRuns,
    about,
    compare_conclusion,
    compared_metrics,
    rows_of_runs,
    sample_notes,
)
from evaluation.comparison.models import (
    MOST_ROWS,
    A,
    B,
    ComparedModel,
    PairedLog,
    PairedRows,
    compare_models,
    compared_models,
)

_UNWEIGHTED = "does not go with compare: its bootstrap counts every row once"
_UNSKIPPED = "does not go with compare: the row of the other log would have no partner"


def run_compare(
    log_a: str,
    log_b: str,
    given: CompareOptions,
    columns: PairedColumnOptions,
    reading: ReadingOptions,
) -> None:
    """Compare two logs, or two folders of logs, and print what came of it."""
    check_report(given.report)
    refuse_inside([log_a, log_b], {"--report": given.report})
    if not 0.0 < given.bias_share < 1.0:
        raise CommandError(f"--bias-share {given.bias_share:g}: must be above 0 and below 1")
    refuse({"--skip-bad": reading.skip_bad or None}, _UNSKIPPED)
    run = CompareRun(given, columns, reading.reading(_UNWEIGHTED))
    if logs_in(log_a) or logs_in(log_b):
        _report_runs(compare_runs(run, log_a, log_b), given)
    else:
        _report(run.compare(log_a, log_b), given)


def _report(compared: Compared, given: CompareOptions) -> None:
    conclusion = compare_conclusion(compared)
    if given.report is not None:
        write_page(compare_page(compared, conclusion), given.report)
    if given.json:
        print_json(comparison_json(compared, conclusion))
        return
    show_comparison(compared)
    print_line(f"\n{conclusion}")
    for line in (f"\n{HOW_TO_READ}", f"\n{STARRED} {about(compared)}", *compared.warnings):
        note(line)
    note_files(report=given.report)


def _report_runs(compared: ComparedRuns, given: CompareOptions) -> None:
    if given.report is not None:
        write_page(runs_page(compared), given.report)
    if given.json:
        print_json(runs_json(compared))
        return
    show_runs(compared)
    print_line(f"\n{compared.conclusion}")
    for line in (f"\n{HOW_TO_READ_RUNS}", *compared.warnings):
        note(line)
    note_files(report=given.report)


def show_comparison(compared: Compared) -> None:
    """Print the metrics of both, their difference and its interval."""
    found = compared.found
    table = numbers_table("", "A", "B", "A less B", "better")
    for row in compared_metrics(found):
        interval = f"\n{row.interval}" if found.draws[0] else ""
        difference = Text.assemble(row.difference, (interval, "dim"), justify="right")
        cells = (Text(row.heading), Text(row.a), Text(row.b))
        table.add_row(*cells, difference, Text(row.better, style="bold green"))
    _print_named(compared.names, table)


def comparison_json(compared: Compared, conclusion: str) -> dict[str, Any]:
    """The comparison for programs."""
    found, blocks = compared.found, compared.log.blocks
    return {
        "rows": found.metrics,
        "names": dict(compared.names),
        "verdict": conclusion,
        "warnings": compared.warnings,
        "differences": {
            name: {**asdict(difference), "better": found.better(name)}
            for name, difference in found.differences.items()
        },
        "lifts": {name: asdict(lift) for name, lift in found.lifts.items()},
        "unit": blocks.unit,
        "blocks": blocks.count,
        "effective_blocks": found.effective,
        "draws": {"sums": found.draws[0], "rows": found.draws[1]},
        "confidence": 0.95,
        "seed": compared.seed,
        "bias_share": compared.bias_share,
        "rows_in_log": compared.log.rows,
        "rows_held": len(compared.log.events),
    }


def _print_named(names: Mapping[str, str], table: Table) -> None:
    for side, what in names.items():
        results().print(Text.assemble((f"{side}: ", "bold"), what), soft_wrap=True)
    print_table(table)


def show_runs(compared: ComparedRuns) -> None:
    """Print the metrics of both over their runs, and the accuracy of each loss."""
    table = numbers_table("", "A", "B", "metric accuracy")
    for row in rows_of_runs(compared):
        table.add_row(*row)
    _print_named(compared.names, table)


def runs_json(compared: ComparedRuns) -> dict[str, Any]:
    """The runs for programs."""
    return {
        "rows": compared.means(),
        "spread": compared.spreads(),
        "runs": {side: dict(runs) for side, runs in compared.runs.items()},
        "names": dict(compared.names),
        "verdict": compared.conclusion,
        "warnings": [*compared.warnings],
        "better": compared.better,
        "metric_accuracy": {name: asdict(compared.accuracy(name)) for name in LOSSES},
        "seed": compared.seed,
        "bias_share": compared.bias_share,
    }


@dataclass(frozen=True, slots=True)
class CompareRun:
    """How two models are compared, and the columns of both logs.

    most_rows : rows that are held; of longer logs a sample is.
    """

    given: CompareOptions
    columns: PairedColumnOptions
    reading: Reading = field(default_factory=Reading)
    most_rows: int = MOST_ROWS

    def compare(self, a: Where, b: Where) -> Compared:
        """Two logs, one of each model."""
        ours, theirs = self.file(a, A), self.file(b, B)
        log, given = self.read(ours, theirs), self.given
        models = self.models(log)
        with percent_bar(f"drawing {log.blocks.unit}", shown=not given.json) as reached:
            found = compare_models(
                models,
                draws=given.draws,
                seed=given.seed,
                progress=lambda done, of: reached(done / of),
            )
        names = {A: _named(ours), B: _named(theirs)}
        return Compared(names, log, found, given.seed, given.bias_share)

    def models(self, log: PairedLog) -> dict[str, ComparedModel]:
        """Both models on the rows of a log."""
        return compared_models(log, bias_share=self.given.bias_share, seed=self.given.seed)

    def file(self, path: Where, side: str) -> SideFile:
        """A log of one side."""
        named = self.columns
        score = (named.score_a if side == A else named.score_b) or named.score
        columns = replace(LogColumns.of(named), score=score)
        return SideFile(path, columns, side.lower(), named.row_id, self.reading)

    def read(self, a: SideFile, b: SideFile) -> PairedLog:
        """The rows of both logs; a `CommandError` where they are not the same impressions."""
        rows = PairedRows(self.most_rows, self.given.seed)
        batches = paired_batches(a, b) if a.id is None else joined_batches(a, b)
        shown = not self.given.json
        with percent_bar(f"reading {name_of(a.path)}, {name_of(b.path)}", shown=shown) as reached:
            for batch in batches:
                rows.add(batch.events, batch.scores_b)
                reached(batch.done)
        log = rows.log()
        _check_classes(log, a.path)
        return log


def _named(file: SideFile) -> str:
    return f"{shown_place(file.path)}, {file.columns.score}"


def _check_classes(log: PairedLog, path: Where) -> None:
    positives, weight = log.sums_a.positives.sum(), log.sums_a.weights.sum()
    if positives in (0.0, weight):
        told = f"outcomes of all {log.rows:,} rows are" if log.rows > 1 else "only outcome is"
        raise CommandError(
            f"{shown_place(path)}: the {told} {int(positives == weight)}: nothing can be ranked or"
            " calibrated with one outcome only"
        )


def compare_runs(run: CompareRun, a: Where, b: Where) -> ComparedRuns:
    """Every run of both models, each on the rows of the first run of A."""
    paths = {side: logs_in(log) or {name_of(log): log} for side, log in ((A, a), (B, b))}
    reference = next(iter(paths[A].values()))
    warnings: list[str] = []
    metrics: dict[str, dict[str, Mapping[str, float]]] = {A: {}, B: {}}
    for side, files in paths.items():
        for name, file in files.items():
            log = run.read(run.file(reference, A), run.file(file, side))
            metrics[side][name] = run.models(log)[B].metrics
            warnings = sample_notes(log, "logs have")
    names = {A: _run_name(a, paths[A]), B: _run_name(b, paths[B])}
    return ComparedRuns(names, metrics, run.given.seed, run.given.bias_share, warnings)


def _run_name(path: Where, runs: Sized) -> str:
    return f"{shown_place(path)}, {len(runs)} {'run' if len(runs) == 1 else 'runs'}"
