"""`sirocco compare`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.command_line import options
from app.command_line.compare_report import report_comparison, report_runs
from app.command_line.compare_run import CompareRun
from app.command_line.errors import CommandError
from app.command_line.log_files import LogColumns
from app.command_line.run_folders import compare_runs
from app.reports.page import check_report

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
