"""`sirocco compare`: its options."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import options

_column = partial(typer.Option, rich_help_panel="Columns of the logs", show_default="--score")


def _log(which: str) -> Any:
    return typer.Argument(
        metavar=f"LOG_{which}",
        help=f"Impressions scored by model {which}: .parquet, .csv or .tsv; .gz, .bz2 or .zst may"
        " follow. Or a folder of such logs, one for each training run.",
        show_default=False,
    )


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How two models are compared, and what is written."""

    bias_share: Annotated[
        float,
        typer.Option(
            "--bias-share",
            help="Share of the rows on which the bias of calibrated losses is fitted, above 0 and"
            " below 1.",
        ),
    ] = 0.1
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=0,
            help="Resamples of campaign-days behind each interval (300 at most for ranking"
            " metrics); 0 for no intervals.",
        ),
    ] = 1000
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the resamples and of the rows for the bias.")
    ] = 0
    report: options.Report = None
    json: options.Json = False


@dataclass(frozen=True, slots=True)
class PairedColumnOptions(options.LogColumnOptions):
    """The columns of two logs."""

    score_a: Annotated[
        str | None, _column("--score-a", help="Scores of LOG_A, where they have another name.")
    ] = None
    score_b: Annotated[
        str | None, _column("--score-b", help="Scores of LOG_B, where they have another name.")
    ] = None
    row_id: Annotated[
        str | None,
        _column(
            "--id",
            metavar="COLUMN",
            help="Join the rows by this column, instead of by their places.",
            show_default=False,
        ),
    ] = None


@options.grouped
def compare(
    log_a: Annotated[Path, _log("A")],
    log_b: Annotated[Path, _log("B")],
    given: CompareOptions,
    columns: PairedColumnOptions,
) -> None:
    """Which of two models is better, on the same impressions?

    Both logs hold the same rows; what both have of campaign, time, outcome and bid
    must agree, and what only one has is taken from it. Metrics come plain and
    calibrated (the overall bias of each model taken out), each difference with an
    interval over campaign-days drawn again and again, and a verdict in words.

    Folders hold one log for each training run: then it says how often a single
    run puts the better model first, by the plain and by the calibrated metric.

    [bold]Examples[/bold]

      sirocco compare old.parquet new.parquet
      sirocco compare log.parquet log.parquet --score-a old --score-b new --report ab.html
      sirocco compare scored.csv candidate.csv --id impression_id
      sirocco compare runs-of-a/ runs-of-b/
    """
    from app.cli.measure.compare import run_compare

    run_compare(log_a, log_b, given, columns)
