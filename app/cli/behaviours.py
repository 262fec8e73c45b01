"""`sirocco behaviours`: its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options


@dataclass(frozen=True, slots=True)
class BehaviourOptions:
    """What a log says of its clicks, how that is studied, and what is written."""

    behaviour: Annotated[
        list[str],
        typer.Option(
            "--behaviour",
            metavar="NAME",
            help="What was known only after the click: a column, or NAME=COLUMN+COLUMN for a sum."
            " May be repeated.",
            show_default=False,
        ),
    ]
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="NAME",
            help="What was known before the click, as numbers or text; named in the same way.",
            show_default=False,
        ),
    ] = None
    conversion: Annotated[
        str,
        typer.Option("--conversion", metavar="COLUMN", help="1 where the click converted, else 0."),
    ] = "conversion"
    quintiles: Annotated[
        list[str] | None,
        typer.Option(
            "--quintiles",
            metavar="NAME",
            help="A behaviour to show conversion rates by; may be repeated.",
            show_default="every behaviour",
        ),
    ] = None
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")] = 5
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the folds.")] = 0
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="PATH",
            help="Save a picture of the rates there.",
            show_default=False,
        ),
    ] = None
    json: options.Json = False


@options.grouped
def behaviours(
    log: Annotated[Path, options.log_argument("One row for each click")], given: BehaviourOptions
) -> None:
    """Does behaviour after the click foretell conversions? Ask your own log.

    Prints the conversion rate by quintile of each behaviour, and how well the
    post-click model predicts with the behaviours and without them, on clicks
    that it was not fitted on.

    [bold]Examples[/bold]

      sirocco behaviours clicks.parquet --behaviour page_views --feature device
      sirocco behaviours visits.csv --conversion bought --behaviour seconds=a+b
    """
    from app.cli.measure.behaviours import run_behaviours

    run_behaviours(log, given)
