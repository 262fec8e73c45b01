"""`sirocco readout`."""

import math
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options
from app.cli.ab_test.tables import HOW_TO_READ, print_readout, show_readout
from app.cli.console import note
from app.datasets.ab_test import ReadoutColumns, ReadoutLog, read_readout_log
from app.errors import CommandError

_COLUMNS = "Columns of the log"
_Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="One row for each impression, of all arms: .parquet, .csv or .tsv; .gz, .bz2 or .zst"
        " may follow.",
        show_default=False,
    ),
]
_Arm = Annotated[
    str, typer.Option("--arm", help="Arm of the impression.", rich_help_panel=_COLUMNS)
]
_Cost = Annotated[
    str,
    typer.Option(
        "--cost",
        help="What the advertiser was charged for it, 0 where nothing.",
        rich_help_panel=_COLUMNS,
    ),
]
_Value = Annotated[
    str | None,
    typer.Option(
        "--value",
        help="What its conversions were worth to the advertiser, 0 where none came.",
        rich_help_panel=_COLUMNS,
        show_default="value, where the log has one",
    ),
]
_Outcome = Annotated[
    str | None,
    typer.Option(
        "--outcome",
        help="1 where it was clicked, else 0.",
        rich_help_panel=_COLUMNS,
        show_default="outcome, where the log has one",
    ),
]
_Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        help="What was drawn into the arms, or makes rows alike: user, campaign.",
        rich_help_panel=_COLUMNS,
        show_default="every impression by itself",
    ),
]
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


def readout(
    log: _Log,
    control: _Control = "control",
    split: _Split = None,
    json: options.Json = False,
    arm: _Arm = "arm",
    cost: _Cost = "cost",
    value: _Value = None,
    outcome: _Outcome = None,
    unit: _Unit = None,
) -> None:
    """Read out an A/B test: did the new arm earn more, and is that more than luck?

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
    shares = _shares(split)
    test = read_readout_log(log, ReadoutColumns(arm, cost, value, outcome, unit))
    found = test.read_out(control, shares)
    names: dict[Hashable, str] = dict(enumerate(test.arms))
    if json:
        print_readout(found, names)
        return
    show_readout(found, names, f"{log.name}: arms against {control}")
    note(f"\n{HOW_TO_READ}")
    _say_what_is_missing(test)


def _shares(split: list[str] | None) -> dict[str, float] | None:
    if not split:
        return None
    shares: dict[str, float] = {}
    for text in split:
        arm, _, share = text.rpartition("=")
        if not arm or arm in shares:
            raise CommandError(f"--split {text!r}: give ARM=SHARE, once for each arm")
        shares[arm] = _share(text, share)
    return shares


def _share(text: str, share: str) -> float:
    try:
        number = float(share)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise CommandError(f"--split {text!r}: a share is a number above 0, such as 9 or 0.1")
    return number


def _say_what_is_missing(test: ReadoutLog) -> None:
    if test.units is None:
        note(
            "Impressions are taken as independent; where one user sees many, name the user with"
            " --unit."
        )
    if test.clicks is None:
        note("No CTR: the log has no column 'outcome'; name the clicks with --outcome.")
    if test.values is None:
        note("No ROI: the log has no column 'value'; name the advertisers' value with --value.")
