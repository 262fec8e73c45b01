"""The reports of `sirocco compare`: two models, or training runs of two models."""

from typing import Final

import numpy as np

from app.reports.charts.by_name import bars_chart, differences_chart, ends_of
from app.reports.charts.over_time import lines_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.reports.pictures import campaigns_of, hours_of, quantiles_of, reliability_of
from app.results.backtest import ScoredEvents
from app.results.comparison import (
    CALIBRATED,
    HOW_TO_READ,
    HOW_TO_READ_RUNS,
    LOSSES,
    METRICS,
    PLAIN,
    STARRED,
    Compared,
    ComparedRuns,
    about,
    compared_by,
    compared_metrics,
    rows_of_runs,
)
from app.results.formatting import shown
from evaluation.comparison.models import A, B, ModelComparison

_SIDES: Final = (A, B)
_TILES: Final = ("log_loss", "calibrated_log_loss", "auc", "pcoc")


def compare_page(compared: Compared, conclusion: str) -> Page:
    """The page that `sirocco compare --report` writes."""
    log, found = compared.log, compared.found
    scored = ScoredEvents(log.events, {A: log.events.scores, B: log.scores_b})
    rows = [(row.heading.strip(), *row[1:]) for row in compared_metrics(found)]
    header = ("", "A", "B", "A less B", "95 % interval", "better")
    places = [hours_of(scored, _SIDES), campaigns_of(scored, _SIDES)]
    return Page(
        title="Two models on the same impressions",
        subtitle=_subtitle(compared),
        verdict=conclusion,
        tiles=[_tile(found, name) for name in _TILES],
        sections=[
            Section("By how much do they differ?", about(compared), [_lifts(found)]),
            Section("All metrics", HOW_TO_READ, [Table(header, rows, note=STARRED)]),
            Section(
                "Predicted and actual",
                "A is the first model, B the second.",
                [reliability_of(scored, _SIDES), quantiles_of(scored, _SIDES)],
            ),
            Section("By hour and by campaign", "", places),
            _ranking(found),
        ],
        warnings=compared.warnings,
    )


def _subtitle(compared: Compared) -> str:
    card = compared.found.metrics[A]
    models = "; ".join(f"{side}: {what}" for side, what in compared.names.items())
    return f"{models}. {card['n']:,.0f} impressions, {card['positives']:,.0f} clicks"


def _tile(found: ModelComparison, name: str) -> Tile:
    metric = METRICS[name]
    ours, theirs = (shown(found.metrics[side][name], metric.form) for side in _SIDES)
    better = found.better(compared_by(name))
    said = f"{better} is better" if better else "not told apart"
    return Tile(f"{metric.heading} of A", ours, f"{theirs} of B: {said}")


def _lifts(found: ModelComparison) -> Chart:
    lifts = {METRICS[name].heading: lift for name, lift in found.lifts.items()}
    return differences_chart(
        list(lifts),
        100.0 * ends_of(lifts.values()),
        title="A against B",
        caption="Right of the line A is better, left of it B, by so many percent of B's metric: a"
        " lower loss, a higher AUC. The bar is the 95 % interval; a filled mark is beyond chance.",
        unit="%",
        heading="metric",
    )


def _ranking(found: ModelComparison) -> Section:
    names = [name for name in ("auc", "cs_auc") if name in found.metrics[A]]
    values = {side: [found.metrics[side][name] for name in names] for side in _SIDES}
    chart = bars_chart(
        [METRICS[name].heading for name in names],
        {side: np.array(column) for side, column in values.items()},
        "Ranking",
        "AUC is how often a click ranks above a non-click; csAUC counts it in money, by"
        " probability times bid. A random order has AUC 0.5, but not csAUC.",
        heading="metric",
    )
    return Section(
        "Ranking", "" if "cs_auc" in names else "Without bids there is no csAUC.", [chart]
    )


_HEADINGS = {
    PLAIN: "log loss",
    CALIBRATED: "calibrated log loss",
    "mse_beside_calibrated": "quadratic loss",
    "calibrated_quadratic_loss": "calibrated quadratic loss",
}


def runs_page(compared: ComparedRuns) -> Page:
    """The page that `sirocco compare --report` writes of folders."""
    models = "; ".join(f"{side}: {what}" for side, what in compared.names.items())
    rows = [(heading.strip(), *cells) for heading, *cells in rows_of_runs(compared)]
    table = Table(("", "A", "B", "metric accuracy"), rows)
    return Page(
        title="Training runs of two models",
        subtitle=models,
        verdict=compared.conclusion,
        tiles=[Tile(f"accuracy, {_HEADINGS[name]}", _percent(compared, name)) for name in LOSSES],
        sections=[
            Section("How often is a single run right?", HOW_TO_READ_RUNS, [_accuracies(compared)]),
            Section("Every run", "", [_runs(compared, PLAIN), _runs(compared, CALIBRATED)]),
            Section("All metrics", "", [table]),
        ],
        warnings=compared.warnings,
    )


def _percent(compared: ComparedRuns, name: str) -> str:
    return f"{shown(100.0 * compared.accuracy(name).value, '.1f')} %"


def _accuracies(compared: ComparedRuns) -> Chart:
    return differences_chart(
        [_HEADINGS[name] for name in LOSSES],
        100.0 * ends_of(map(compared.accuracy, LOSSES)) - 50.0,
        title="Metric accuracy above that of a coin",
        caption="Points above 50 %: how much more often than a coin a pair of runs is ranked"
        " rightly. The bar is the 95 % interval.",
        unit="%",
        heading="metric",
    )


def _runs(compared: ComparedRuns, name: str) -> Chart:
    sides = {side: sorted(compared.values(side, name)) for side in (A, B)}
    longest = max(map(len, sides.values()))
    padded = {side: [*v, *[float("nan")] * (longest - len(v))] for side, v in sides.items()}
    return lines_chart(
        list(range(1, longest + 1)),
        padded,
        f"{_HEADINGS[name]} of every run",
        "The runs of each model, from its best to its worst; lower is better.",
        "run, by rank",
        _HEADINGS[name],
    )
