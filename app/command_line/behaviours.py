"""`sirocco behaviours`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.command_line import options
from app.command_line.behaviour_log import read_behaviour_log
from app.command_line.behaviour_picture import draw_rates
from app.command_line.behaviour_tables import (
    HOW_TO_READ,
    print_study,
    show_models,
    show_rates,
)
from app.command_line.canvas import check_picture
from app.command_line.console import note
from evaluation import BehaviourStudy, QuantileRates

_Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="One row for each click: .parquet, .csv or .tsv; .gz, .bz2 or .zst may follow.",
        show_default=False,
    ),
]
_Conversion = Annotated[
    str, typer.Option("--conversion", metavar="COLUMN", help="1 where the click converted, else 0.")
]
_Behaviours = Annotated[
    list[str],
    typer.Option(
        "--behaviour",
        metavar="NAME",
        help="What was known only after the click: a column, or NAME=COLUMN+COLUMN for a sum."
        " May be repeated.",
        show_default=False,
    ),
]
_Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME",
        help="What was known before the click, as numbers or text; named in the same way.",
        show_default=False,
    ),
]
_Quintiles = Annotated[
    list[str] | None,
    typer.Option(
        "--quintiles",
        metavar="NAME",
        help="A behaviour to show conversion rates by; may be repeated.",
        show_default="every behaviour",
    ),
]
_Folds = Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")]
_Seed = Annotated[int, typer.Option("--seed", min=0, help="Draws the folds.")]
_PicturePath = Annotated[
    Path | None,
    typer.Option(
        "--picture", metavar="PATH", help="Save a picture of the rates there.", show_default=False
    ),
]


def behaviours(
    log: _Log,
    behaviour: _Behaviours,
    feature: _Features = None,
    conversion: _Conversion = "conversion",
    quintiles: _Quintiles = None,
    folds: _Folds = 5,
    seed: _Seed = 0,
    picture: _PicturePath = None,
    json: options.Json = False,
) -> None:
    """Does behaviour after the click foretell conversions? Ask your own log.

    Prints the conversion rate by quintile of each behaviour, and how well the
    post-click model predicts with the behaviours and without them, on clicks
    that it was not fitted on.

    [bold]Examples[/bold]

      sirocco behaviours clicks.parquet --behaviour page_views --feature device
      sirocco behaviours visits.csv --conversion bought --behaviour seconds=a+b
    """
    if picture is not None:
        check_picture(picture)
    clicks = read_behaviour_log(log, conversion, behaviour, feature or [])
    rates = clicks.rates(quintiles or clicks.numeric)
    study = clicks.study(folds, seed)
    if picture is not None:
        draw_rates(rates, f"{log.name}: conversions by behaviour after the click", picture)
    if json:
        print_study(rates, study.summary())
        return
    _show(rates, study, folds)
    if picture is not None:
        note(f"Picture: {picture}")


def _show(rates: Mapping[str, QuantileRates], study: BehaviourStudy, folds: int) -> None:
    for name, groups in rates.items():
        show_rates(name, groups)
    show_models(study.summary(), f"Post-click model, {folds} folds")
    if "pre_click" not in study.scores:
        note("Nothing to compare with: no --feature from before the click was given.")
    note(HOW_TO_READ)
