"""`sirocco evaluate`, `compare`, `readout` and `behaviours`: their options."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import options

_measured = partial(options.option, rich_help_panel="What is measured", show_default=False)


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured besides the whole log, and what is written."""

    by: list[str] | None = _measured(
        None,
        "Also measure each value of this column; may be given several times.",
        metavar="COLUMN",
    )
    fields: str | None = _measured(
        None,
        "Fields, by commas: is the total of each of their values right, and of each pair?",
        metavar="COLUMN,...",
    )
    group: str | None = _measured(
        None,
        "What GAUC and gcsAUC average over, such as user or request.",
        metavar="COLUMN",
        show_default="the campaign",
    )
    placement: str | None = _measured(
        None, "Where an impression was shown; with --mainline.", metavar="COLUMN"
    )
    mainline: str | None = _measured(
        None, "The placement whose AUC is measured by itself.", metavar="VALUE"
    )
    top: int = _measured(10, "Slices that a table shows.", min=1, show_default=True)
    picture: options.OptionalPicture = None
    report: options.Report = None
    json: options.Json = False


@options.grouped
def evaluate(
    log: options.Log,
    given: EvaluateOptions,
    columns: options.LogColumnOptions,
    reading: options.ReadingOptions,
) -> None:
    """Measure the scores of a log as they are: how far off are they, and where?

    Prints every metric of calibration, loss, ranking and revenue: of all rows,
    by campaign, by hour, by score and by any column. A log may have any length.
    Without a campaign, time or bid column the rest is measured.

    [bold]Examples[/bold]

      sirocco evaluate log.parquet
      sirocco evaluate log.parquet --by device --by country --report log.html
      sirocco evaluate log.parquet --fields device,placement --report log.html
      sirocco evaluate log.parquet --group user --placement slot --mainline top
      sirocco evaluate clicks.csv.gz --score pctr --json
      sirocco evaluate 's3://bucket/log/date=2026-01-*' --time-unit ms --skip-bad
      sirocco evaluate counts.csv --impressions shown --clicks clicked
    """
    from app.cli.measure.evaluate import run_evaluate

    run_evaluate(log, given, columns, reading)


_column = partial(options.option, rich_help_panel="Columns of the logs", show_default="--score")


def _log(which: str) -> Any:
    return typer.Argument(
        metavar=f"LOG_{which}",
        help=f"Impressions scored by model {which}: as for `sirocco evaluate`; but a folder holds"
        " one log for each training run.",
        show_default=False,
    )


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How two models are compared, and what is written."""

    bias_share: float = options.option(
        0.1,
        "Share of the rows on which the bias of calibrated losses is fitted, above 0 and below 1.",
    )
    draws: int = options.option(
        1000,
        "Resamples of campaign-days behind each interval (300 at most for ranking"
        " metrics); 0 for no intervals.",
        min=0,
    )
    seed: int = options.option(0, "Of the resamples and of the rows for the bias.", min=0)
    report: options.Report = None
    json: options.Json = False


@dataclass(frozen=True, slots=True)
class PairedColumnOptions(options.LogColumnOptions):
    """The columns of two logs."""

    score_a: str | None = _column(None, "Scores of LOG_A, where they have another name.")
    score_b: str | None = _column(None, "Scores of LOG_B, where they have another name.")
    row_id: str | None = _column(
        None,
        "Join the rows by this column, instead of by their places.",
        "--id",
        metavar="COLUMN",
        show_default=False,
    )


@options.grouped
def compare(
    log_a: Annotated[str, _log("A")],
    log_b: Annotated[str, _log("B")],
    given: CompareOptions,
    columns: PairedColumnOptions,
    reading: options.ReadingOptions,
) -> None:
    """Which of two models is better, on the same impressions?

    Both logs hold the same rows; what both have of campaign, time, outcome and
    bid must agree, and what only one has is taken from it. Metrics come plain and
    calibrated (the overall bias of each model taken out), each difference with an
    interval over campaign-days drawn again and again, and a verdict in words.

    Folders hold one log for each training run: then it says how often a single
    run puts the better model first, by the plain and by the calibrated metric.

    [bold]Examples[/bold]

      sirocco compare old.parquet new.parquet
      sirocco compare log.parquet log.parquet --score-a old --score-b new
      sirocco compare scored.csv candidate.csv --id impression_id
      sirocco compare runs-of-a/ runs-of-b/
    """
    from app.cli.measure.compare import run_compare

    run_compare(log_a, log_b, given, columns, reading)


@dataclass(frozen=True, slots=True)
class ArmColumnOptions:
    """The columns of the log of an A/B test."""

    arm: str = options.column("arm", "Arm of the impression.")
    cost: str = options.column("cost", "What the advertiser was charged for it, 0 where nothing.")
    value: str | None = options.column(
        None,
        "What its conversions were worth to the advertiser, 0 where none came.",
        show_default="value, where the log has one",
    )
    outcome: str | None = options.column(
        None, "1 where it was clicked, else 0.", show_default="outcome, where the log has one"
    )
    unit: str | None = options.column(
        None,
        "What was drawn into the arms, or makes rows alike: user, campaign.",
        show_default="every impression by itself",
    )


_Log = Annotated[str, options.log_argument("One row for each impression, of all arms")]


@dataclass(frozen=True, slots=True)
class AbTestOptions:
    """Which arm the others are compared with, and the sizes they should have."""

    control: str = options.option(
        "control", "The arm that others are compared with.", metavar="ARM"
    )
    split: list[str] | None = options.option(
        None,
        "Share of the traffic an arm was meant to get; once for each arm.",
        metavar="ARM=SHARE",
        show_default="equal shares",
    )
    json: options.Json = False


@options.grouped
def analyse_ab_test(
    log: _Log, given: AbTestOptions, columns: ArmColumnOptions, reading: options.ReadingOptions
) -> None:
    """Analyse an A/B test: did the new arm earn more, and is that more than luck?

    Prints RPM (what the platform earns with 1,000 impressions), CTR (clicks for
    each impression) and ROI (value over cost of the advertisers) of each arm, and
    the lift over the control with its interval. Says first whether the arms got
    the traffic they were meant to get: if not, no other number can be trusted.

    Every impression is a row, also those that cost nothing. Where one user has
    many rows, name the user with --unit, or the intervals are too narrow.

    [bold]Examples[/bold]

      sirocco readout test.parquet --unit user
      sirocco readout test.csv.gz --arm bucket --control A --cost paid --json
      sirocco readout test.parquet --split control=9 --split calibrated=1
    """
    from app.cli.measure.ab_test import run_ab_test

    run_ab_test(log, given, columns, reading)


readout = analyse_ab_test
"""The command `sirocco readout`: a command is found by its name."""


@dataclass(frozen=True, slots=True)
class BehaviourOptions:
    """What a log says of its clicks, how that is studied, and what is written."""

    behaviour: list[str] = options.option(
        ...,
        "What was known only after the click: a column, or NAME=COLUMN+COLUMN for a sum."
        " May be repeated.",
        metavar="NAME",
        show_default=False,
    )
    feature: list[str] | None = options.option(
        None,
        "What was known before the click, as numbers or text; named in the same way.",
        metavar="NAME",
    )
    conversion: str = options.option(
        "conversion", "1 where the click converted, else 0.", metavar="COLUMN"
    )
    quintiles: list[str] | None = options.option(
        None,
        "A behaviour to show conversion rates by; may be repeated.",
        metavar="NAME",
        show_default="every behaviour",
    )
    folds: int = options.option(5, "Folds of the cross-validation.", min=2)
    seed: int = options.option(0, "Draws the folds.", min=0)
    picture: Path | None = options.option(
        None, "Save a picture of the rates there.", metavar="PATH"
    )
    json: options.Json = False


@options.grouped
def behaviours(
    log: Annotated[str, options.log_argument("One row for each click")],
    given: BehaviourOptions,
    reading: options.ReadingOptions,
) -> None:
    """Does behaviour after the click predict conversions? Ask your own log.

    Prints the conversion rate by quintile of each behaviour, and how well the
    post-click model predicts with the behaviours and without them, on clicks
    that it was not fitted on.

    [bold]Examples[/bold]

      sirocco behaviours clicks.parquet --behaviour page_views --feature device
      sirocco behaviours visits.csv --conversion bought --behaviour seconds=a+b
    """
    from app.cli.measure.behaviours import run_behaviours

    run_behaviours(log, given, reading)
