"""`sirocco evaluate`: its options."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from app.cli import options

_measured = partial(typer.Option, rich_help_panel="What is measured", show_default=False)


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured besides the whole log, and what is written."""

    by: Annotated[
        list[str] | None,
        _measured(
            "--by",
            metavar="COLUMN",
            help="Also measure each value of this column; may be given several times.",
        ),
    ] = None
    group: Annotated[
        str | None,
        _measured(
            "--group",
            metavar="COLUMN",
            help="What GAUC and gcsAUC average over, such as user or request.",
            show_default="the campaign",
        ),
    ] = None
    placement: Annotated[
        str | None,
        _measured(
            "--placement", metavar="COLUMN", help="Where an impression was shown; with --mainline."
        ),
    ] = None
    mainline: Annotated[
        str | None,
        _measured(
            "--mainline", metavar="VALUE", help="The placement whose AUC is measured by itself."
        ),
    ] = None
    top: Annotated[
        int, _measured("--top", min=1, help="Slices that a table shows.", show_default=True)
    ] = 10
    picture: options.OptionalPicture = None
    report: options.Report = None
    json: options.Json = False


@options.grouped
def evaluate(log: options.Log, given: EvaluateOptions, columns: options.LogColumnOptions) -> None:
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
    from app.cli.measure.evaluate import run_evaluate

    run_evaluate(log, given, columns)
