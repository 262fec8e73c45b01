"""`sirocco compare`.

Reading two logs in step, and comparing their models.
Folders of logs, one for each training run of a model.
What `sirocco compare` ends with: the table, the verdict, how to read both, the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import options
from app.cli.compare.tables import print_comparison, print_runs, show_comparison, show_runs
from app.cli.console import note, percent_bar, results
from app.datasets.impressions import LogColumns
from app.datasets.paired_logs import SideFile, joined_batches, paired_batches
from app.datasets.tables import delimiter_of
from app.errors import CommandError, invocation
from app.reports.comparison import compare_page, runs_page
from app.reports.page import Page, check_report, how_made, write_page
from app.results.comparison import (
    HOW_TO_READ,
    HOW_TO_READ_RUNS,
    STARRED,
    Compared,
    ComparedRuns,
    about,
    compare_verdict,
    sample_notes,
)
from evaluation.comparison.models import A, B, compare_models, compared_models
from evaluation.comparison.paired_log import MOST_ROWS, PairedLog, PairedRows


@dataclass(frozen=True, slots=True)
class CompareRun:
    """How two models are compared.

    Attributes
    ----------
    columns : of both logs; the score is named by `scores`.
    scores : score column of A and of B.
    id : column that rows are joined by; None where they stand in the same order.
    draws : of campaign-days; 0 for no intervals.
    bias_share : share of the rows that the bias of calibrated losses is fitted on.
    seed : of the draws, of the bias rows and of a sample of rows.
    quiet : whether no progress is shown.
    most_rows : rows that are held; of longer logs a sample is.
    """

    columns: LogColumns
    scores: tuple[str, str]
    id: str | None
    draws: int
    bias_share: float
    seed: int
    quiet: bool
    most_rows: int = MOST_ROWS

    def compare(self, a: Path, b: Path) -> Compared:
        """Two logs, one of each model."""
        ours, theirs = self.file(a, A), self.file(b, B)
        log = self.read(ours, theirs)
        models = compared_models(log, bias_share=self.bias_share, seed=self.seed)
        with percent_bar(f"drawing {log.blocks.unit}", shown=not self.quiet) as reached:
            found = compare_models(
                models,
                draws=self.draws,
                seed=self.seed,
                progress=lambda done, of: reached(done / of),
            )
        names = {A: _named(ours), B: _named(theirs)}
        return Compared(names, log, found, self.seed, self.bias_share)

    def file(self, path: Path, side: str) -> SideFile:
        """A log of one side."""
        score = self.scores[0 if side == A else 1]
        return SideFile(path, replace(self.columns, score=score), side.lower(), self.id)

    def read(self, a: SideFile, b: SideFile) -> PairedLog:
        """The rows of both logs; a `CommandError` where they are not the same impressions."""
        rows = PairedRows(self.most_rows, self.seed)
        batches = paired_batches(a, b) if self.id is None else joined_batches(a, b)
        with percent_bar(f"reading {a.path.name}, {b.path.name}", shown=not self.quiet) as reached:
            for batch in batches:
                rows.add(batch.events, batch.scores_b)
                reached(batch.done)
        log = rows.log()
        _check_classes(log, a.path)
        return log


def _named(file: SideFile) -> str:
    return f"{file.path}, {file.columns.score}"


def _check_classes(log: PairedLog, path: Path) -> None:
    positives, weight = log.sums_a.positives.sum(), log.sums_a.weights.sum()
    if positives in (0.0, weight):
        outcome = int(positives == weight)
        raise CommandError(
            f"{path}: the outcomes of all {log.rows:,} rows are {outcome}: nothing can be ranked or"
            " calibrated with one outcome only"
        )


def runs_of(path: Path) -> list[Path]:
    """The logs of a folder by name, or the one log; a `CommandError` for a folder without any."""
    if not path.is_dir():
        return [path]
    logs = [file for file in sorted(path.iterdir()) if file.is_file() and _is_log(file)]
    if not logs:
        raise CommandError(f"{path}: the folder holds no log (.parquet, .csv or .tsv)")
    return logs


def compare_runs(run: CompareRun, a: Path, b: Path) -> ComparedRuns:
    """Every run of both models, each on the rows of the first run of A."""
    paths = {A: runs_of(a), B: runs_of(b)}
    reference = paths[A][0]
    warnings: list[str] = []
    metrics: dict[str, dict[str, Mapping[str, float]]] = {A: {}, B: {}}
    for side, files in paths.items():
        for file in files:
            log = run.read(run.file(reference, A), run.file(file, side))
            models = compared_models(log, bias_share=run.bias_share, seed=run.seed)
            metrics[side][file.name] = models[B].metrics
            warnings = sample_notes(log, "logs have")
    names = {A: _run_name(a, paths[A]), B: _run_name(b, paths[B])}
    return ComparedRuns(names, metrics, run.seed, run.bias_share, warnings)


def _run_name(path: Path, runs: Sequence[Path]) -> str:
    return f"{path}, {len(runs)} {'run' if len(runs) == 1 else 'runs'}"


def _is_log(path: Path) -> bool:
    try:
        delimiter_of(path)
    except CommandError:
        return False
    return not path.name.startswith(".")


def report_comparison(compared: Compared, *, page: Path | None, as_json: bool) -> None:
    """Of two logs."""
    verdict = compare_verdict(compared)
    _write(compare_page(compared, verdict, _footer()) if page else None, page)
    if as_json:
        print_comparison(compared, verdict)
        return
    show_comparison(compared)
    _say(verdict)
    for line in (f"\n{HOW_TO_READ}", f"\n{STARRED} {about(compared)}", *compared.warnings):
        note(line)
    _say_where(page)


def report_runs(compared: ComparedRuns, *, page: Path | None, as_json: bool) -> None:
    """Of two folders of runs."""
    _write(runs_page(compared, _footer()) if page else None, page)
    if as_json:
        print_runs(compared)
        return
    show_runs(compared)
    _say(compared.verdict)
    for line in (f"\n{HOW_TO_READ_RUNS}", *compared.warnings):
        note(line)
    _say_where(page)


def _footer() -> str:
    return how_made(invocation(), datetime.now(UTC))


def _write(page: Page | None, path: Path | None) -> None:
    if page is not None and path is not None:
        write_page(page, path)


def _say(verdict: str) -> None:
    results().print(f"\n{verdict}", soft_wrap=True, markup=False)


def _say_where(page: Path | None) -> None:
    if page is not None:
        note(f"Report: {page}")


_COLUMNS = "Columns of the logs"


def _log(which: str) -> Any:
    return typer.Argument(
        metavar=f"LOG_{which}",
        help=f"Impressions scored by model {which}: .parquet, .csv or .tsv; .gz, .bz2 or .zst may"
        " follow. Or a folder of such logs, one for each training run.",
        show_default=False,
    )


_LogA = Annotated[Path, _log("A")]
_LogB = Annotated[Path, _log("B")]
_ScoreA = Annotated[
    str | None,
    typer.Option(
        "--score-a",
        help="Scores of LOG_A, where they have another name.",
        rich_help_panel=_COLUMNS,
        show_default="--score",
    ),
]
_ScoreB = Annotated[
    str | None,
    typer.Option(
        "--score-b",
        help="Scores of LOG_B, where they have another name.",
        rich_help_panel=_COLUMNS,
        show_default="--score",
    ),
]
_Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Join the rows by this column, instead of by their places.",
        rich_help_panel=_COLUMNS,
        show_default=False,
    ),
]
_BiasShare = Annotated[
    float,
    typer.Option(
        "--bias-share",
        help="Share of the rows on which the bias of calibrated losses is fitted, above 0 and"
        " below 1.",
    ),
]
_Draws = Annotated[
    int,
    typer.Option(
        "--draws",
        min=0,
        help="Draws of campaign-days behind each interval (300 at most for ranking metrics); 0 for"
        " no intervals.",
    ),
]
_Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Of the draws and of the rows for the bias.")
]


def compare(
    log_a: _LogA,
    log_b: _LogB,
    bias_share: _BiasShare = 0.1,
    draws: _Draws = 1000,
    seed: _Seed = 0,
    report: options.Report = None,
    json: options.Json = False,
    score: options.ScoreColumn = "score",
    score_a: _ScoreA = None,
    score_b: _ScoreB = None,
    outcome: options.OutcomeColumn = "outcome",
    campaign: options.CampaignColumn = "campaign",
    time: options.TimeColumn = "time",
    bid: options.BidColumn = "bid",
    row_id: _Id = None,
) -> None:
    """Which of two models is better, on the same impressions?

    Both logs hold the same rows; what both have of campaign, time, outcome and bid
    must agree, and what only one has is taken from it. Metrics come plain and
    calibrated (the overall bias of each model taken out), each difference with an
    interval over campaign-days drawn again and again, and a verdict in words.

    Folders hold one log for each training run: then it is told how often a single
    run puts the better model first, by the plain and by the calibrated metric.

    [bold]Examples[/bold]

      sirocco compare old.parquet new.parquet
      sirocco compare log.parquet log.parquet --score-a old --score-b new --report ab.html
      sirocco compare scored.csv candidate.csv --id impression_id
      sirocco compare runs-of-a/ runs-of-b/
    """
    if report is not None:
        check_report(report)
    run = CompareRun(
        LogColumns(score, outcome, campaign, time, bid),
        (score_a or score, score_b or score),
        row_id,
        draws=draws,
        bias_share=_share(bias_share),
        seed=seed,
        quiet=json,
    )
    if log_a.is_dir() or log_b.is_dir():
        report_runs(compare_runs(run, log_a, log_b), page=report, as_json=json)
    else:
        report_comparison(run.compare(log_a, log_b), page=report, as_json=json)


def _share(bias_share: float) -> float:
    if not 0.0 < bias_share < 1.0:
        raise CommandError(f"--bias-share {bias_share:g}: must be above 0 and below 1")
    return bias_share
