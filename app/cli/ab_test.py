"""`sirocco readout`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options


@dataclass(frozen=True, slots=True)
class ArmColumnOptions:
    """The columns of the log of an A/B test."""

    arm: Annotated[str, options.column("--arm", help="Arm of the impression.")] = "arm"
    cost: Annotated[
        str,
        options.column("--cost", help="What the advertiser was charged for it, 0 where nothing."),
    ] = "cost"
    value: Annotated[
        str | None,
        options.column(
            "--value",
            help="What its conversions were worth to the advertiser, 0 where none came.",
            show_default="value, where the log has one",
        ),
    ] = None
    outcome: Annotated[
        str | None,
        options.column(
            "--outcome",
            help="1 where it was clicked, else 0.",
            show_default="outcome, where the log has one",
        ),
    ] = None
    unit: Annotated[
        str | None,
        options.column(
            "--unit",
            help="What was drawn into the arms, or makes rows alike: user, campaign.",
            show_default="every impression by itself",
        ),
    ] = None


_Log = Annotated[Path, options.log_argument("One row for each impression, of all arms")]
_Control = Annotated[
    str, typer.Option("--control", metavar="ARM", help="The arm that others are compared with.")
]
_Split = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar="ARM=SHARE",
        help="Share of the traffic an arm was meant to get; once for each arm.",
        show_default="equal shares",
    ),
]


@options.grouped
def readout(
    log: _Log,
    control: _Control = "control",
    split: _Split = None,
    json: options.Json = False,
    *,
    columns: ArmColumnOptions,
) -> None:
    """Analyse an A/B test: did the new arm earn more, and is that more than luck?

    Prints RPM (what the platform earns with 1,000 impressions), CTR (clicks for
    each impression) and ROI (value over cost of the advertisers) of each arm, and the
    lift over the control with its interval. Says first whether the arms got the
    traffic they were meant to get: if not, no other number can be trusted.

    Every impression is a row, also those that cost nothing. Where one user has
    many rows, name the user with --unit, or the intervals are too narrow.

    [bold]Examples[/bold]

      sirocco readout test.parquet --unit user
      sirocco readout test.csv.gz --arm bucket --control A --cost paid --json
      sirocco readout test.parquet --split control=9 --split calibrated=1
    """
    from app.cli.measure.ab_test import run_ab_test

    run_ab_test(log, control, split or (), columns, as_json=json)
