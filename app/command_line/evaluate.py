"""`sirocco evaluate`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.command_line import options
from app.command_line.canvas import check_picture
from app.command_line.console import note
from app.command_line.errors import CommandError
from app.command_line.evaluate_columns import EvaluateColumns
from app.command_line.evaluate_json import print_evaluated
from app.command_line.evaluate_overview import show_overview, show_title
from app.command_line.evaluate_picture import draw_evaluated
from app.command_line.evaluate_run import evaluate_log
from app.command_line.evaluate_tables import show_quantiles, show_slices
from app.command_line.evaluated_log import EvaluatedLog
from app.command_line.invocation import invocation
from app.command_line.log_files import LogColumns
from app.reports.evaluate_page import evaluate_page
from app.reports.page import check_report, how_made, write_page

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
