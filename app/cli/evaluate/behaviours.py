"""`sirocco behaviours`.

What `sirocco behaviours` found, as tables for people and as JSON for programs.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli import options
from app.cli.console import note, results
from app.datasets.behaviours import read_behaviour_log
from app.reports.behaviour_picture import draw_rates
from app.reports.pictures import check_picture
from evaluation import BehaviourStudy, QuantileRates

Rates = Mapping[str, QuantileRates]
Summary = Mapping[str, Mapping[str, float]]
HOW_TO_READ = (
    "A rate comes with Wilson's 95 % interval. Each model is judged on clicks it was not fitted"
    " on, ± is the standard deviation over the folds; gain is all less pre_click, fold by fold."
    " AUC: 1 ranks every conversion first, 0.5 is no ranking. PCOC: 1 promises what came."
)
_METRICS = {"auc": ("AUC", ".4f"), "log_loss": ("log loss", ".5f"), "pcoc": ("PCOC", ".3f")}


def show_rates(name: str, rates: QuantileRates) -> None:
    """Print the conversion rate of each group of clicks with like values of one behaviour."""
    missing = f", {rates.missing:,} clicks without it" if rates.missing else ""
    table = _table(name, "clicks", "conversions", "rate", "interval")
    for row in _groups(rates):
        table.add_row(
            f"{row['from']:g} to {row['to']:g}",
            f"{row['n']:,}",
            f"{row['positives']:,.0f}",
            f"{row['rate']:.2%}",
            f"{row['lower']:.2%} to {row['upper']:.2%}",
        )
    _print(f"Conversion rate by {name}{missing}", table)


def show_models(summary: Summary, title: str) -> None:
    """Print mean and spread of each metric for each model."""
    table = _table("", *(heading for heading, _ in _METRICS.values()))
    for name, scores in summary.items():
        cells = (
            _shown(scores[metric], scores[f"{metric}_spread"], form)
            for metric, (_, form) in _METRICS.items()
        )
        table.add_row(name, *cells)
    _print(title, table)


def print_study(rates: Rates, summary: Summary) -> None:
    """Print `{"rows": {model: {metric: number}}, "quintiles": {behaviour: [group, ...]}}`."""
    found: dict[str, Any] = {
        "rows": {name: dict(scores) for name, scores in summary.items()},
        "quintiles": {name: _groups(groups) for name, groups in rates.items()},
        "missing": {name: groups.missing for name, groups in rates.items()},
    }
    results().out(orjson.dumps(found).decode(), highlight=False)


def _groups(rates: QuantileRates) -> list[dict[str, float]]:
    columns = {
        "from": rates.lowest,
        "to": rates.highest,
        "n": rates.counts,
        "positives": rates.positives,
        "rate": rates.rates,
        "lower": rates.lower,
        "upper": rates.upper,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column(Text(first), no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _print(title: str, table: Table) -> None:
    console = results()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
    console.print()


def _shown(mean: float, spread: float, form: str) -> str:
    return "-" if math.isnan(mean) else f"{mean:{form}} ± {spread:{form}}"


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
