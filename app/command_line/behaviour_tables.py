"""What `sirocco behaviours` found, as tables for people and as JSON for programs."""

import math
from collections.abc import Mapping
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.console import results
from evaluation import QuantileRates

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
