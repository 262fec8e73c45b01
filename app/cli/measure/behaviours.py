"""What `sirocco behaviours` prints: conversion rates, cross-validated models, JSON."""

import math
from collections.abc import Mapping
from typing import Any

from app.cli.console import (
    note,
    note_files,
    note_skipped,
    numbers_table,
    print_json,
    print_line,
    print_table,
)
from app.cli.measure_logs import BehaviourOptions
from app.cli.options import ReadingOptions
from app.datasets.behaviours import read_behaviour_log
from app.datasets.parts import refuse_inside
from app.reports.pictures import check_picture, draw_rates
from app.results.formatting import records
from evaluation import BehaviourStudy, QuantileRates

Rates = Mapping[str, QuantileRates]
Summary = Mapping[str, Mapping[str, float]]
HOW_TO_READ = (
    "A rate comes with Wilson's 95 % interval. Each model is evaluated on clicks it was not fitted"
    " on, ± is the standard deviation over the folds; gain is all less pre_click, fold by fold."
    " AUC: 1 ranks every conversion first, 0.5 is no ranking. PCOC: 1 predicts what came."
)
_METRICS = {"auc": ("AUC", ".4f"), "log_loss": ("log loss", ".5f"), "pcoc": ("PCOC", ".3f")}


def run_behaviours(log: str, given: BehaviourOptions, reading: ReadingOptions) -> None:
    """Study the log, and print and draw what came of it."""
    check_picture(given.picture)
    refuse_inside([log], {"--picture": given.picture})
    how = reading.reading("does not go with behaviours: the models are fitted on single clicks")
    clicks = read_behaviour_log(log, given.conversion, given.behaviour, given.feature or [], how)
    note_skipped(how)
    rates = clicks.rates(given.quintiles or clicks.numeric)
    study = clicks.study(given.folds, given.seed)
    if given.picture is not None:
        title = f"{clicks.file}: conversions by behaviour after the click"
        draw_rates(rates, title, given.picture)
    if given.json:
        print_json(_document(rates, study.summary()))
        return
    _show(rates, study, given.folds)
    note_files(picture=given.picture)


def _show(rates: Mapping[str, QuantileRates], study: BehaviourStudy, folds: int) -> None:
    for name, groups in rates.items():
        _show_rates(name, groups)
    _show_models(study.summary(), f"Post-click model, {folds} folds")
    if "pre_click" not in study.scores:
        note("Nothing to compare with: no --feature from before the click was given.")
    note(HOW_TO_READ)


def _show_rates(name: str, rates: QuantileRates) -> None:
    """Print the conversion rate of each group of clicks with like values of one behaviour."""
    missing = f", {rates.missing:,} clicks without it" if rates.missing else ""
    table = numbers_table(name, "clicks", "conversions", "rate", "interval")
    for row in _groups(rates):
        table.add_row(
            f"{row['from']:g} to {row['to']:g}",
            f"{row['n']:,}",
            f"{row['positives']:,.0f}",
            f"{row['rate']:.2%}",
            f"{row['lower']:.2%} to {row['upper']:.2%}",
        )
    print_table(table, f"Conversion rate by {name}{missing}")
    print_line("")


def _show_models(summary: Summary, title: str) -> None:
    """Print mean and spread of each metric for each model."""
    table = numbers_table("", *(heading for heading, _ in _METRICS.values()))
    for name, scores in summary.items():
        cells = (
            _shown(scores[metric], scores[f"{metric}_spread"], form)
            for metric, (_, form) in _METRICS.items()
        )
        table.add_row(name, *cells)
    print_table(table, title)
    print_line("")


def _document(rates: Rates, summary: Summary) -> dict[str, Any]:
    """`{"rows": {model: {metric: number}}, "quintiles": {behaviour: [group, ...]}}`."""
    return {
        "rows": {name: dict(scores) for name, scores in summary.items()},
        "quintiles": {name: _groups(groups) for name, groups in rates.items()},
        "missing": {name: groups.missing for name, groups in rates.items()},
    }


def _groups(rates: QuantileRates) -> list[dict[str, float]]:
    return records(
        {
            "from": rates.lowest,
            "to": rates.highest,
            "n": rates.counts,
            "positives": rates.positives,
            "rate": rates.rates,
            "lower": rates.lower,
            "upper": rates.upper,
        }
    )


def _shown(mean: float, spread: float, form: str) -> str:
    return "-" if math.isnan(mean) else f"{mean:{form}} ± {spread:{form}}"
