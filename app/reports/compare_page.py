"""The report of a comparison of two models."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from app.command_line.compare_tables import (
    HOW_TO_READ,
    METRICS,
    STARRED,
    about,
    compared_by,
    shown_metrics,
)
from app.command_line.compared import Compared
from app.command_line.interval_text import interval_text, value_text
from app.command_line.judged import Judged
from app.command_line.tables import shown
from app.reports.charts import bars_chart, differences_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.reports.prediction_charts import campaigns_of, hours_of, quantiles_of, reliability_of
from evaluation.model_comparison import A, B, ModelComparison

_SIDES: Final = (A, B)
_TILES: Final = ("log_loss", "calibrated_log_loss", "auc", "pcoc")


def compare_page(compared: Compared, verdict: str, footer: str) -> Page:
    """The page that `sirocco compare --report` writes."""
    log, found = compared.log, compared.found
    judged = Judged(log.events, {A: log.events.scores, B: log.scores_b})
    return Page(
        title="Two models on the same impressions",
        subtitle=_subtitle(compared),
        verdict=verdict,
        tiles=[_tile(found, name) for name in _TILES],
        sections=[
            Section("By how much is A better?", about(compared), [_lifts(found)]),
            Section("All metrics", HOW_TO_READ, [_table(found)]),
            _reliability(judged),
            _by_hour_and_campaign(judged),
            _ranking(found),
        ],
        warnings=compared.warnings,
        footer=footer,
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
        [100.0 * lift.value for lift in lifts.values()],
        [100.0 * lift.lower for lift in lifts.values()],
        [100.0 * lift.upper for lift in lifts.values()],
        title="Improvement of A on B",
        caption="Right of the line A is better, by so many percent of B's metric: a lower loss, a"
        " higher AUC. The bar is the 95 % interval; a filled mark is beyond chance.",
        unit="%",
        heading="metric",
    )


def _table(found: ModelComparison) -> Table:
    rows = [_row(found, name) for name in shown_metrics(found)]
    return Table(("", "A", "B", "A less B", "95 % interval", "better"), rows, note=STARRED)


def _row(found: ModelComparison, name: str) -> Sequence[str]:
    metric, key = METRICS[name], compared_by(name)
    values = (shown(found.metrics[side][name], metric.form) for side in _SIDES)
    difference = found.differences[key]
    mark = " *" if metric.difference else ""
    return (
        metric.heading.strip(),
        *values,
        value_text(difference) + mark,
        interval_text(difference),
        found.better(key) or "",
    )


def _reliability(judged: Judged) -> Section:
    return Section(
        "Promised and actual",
        "A is the first model, B the second.",
        [reliability_of(judged, _SIDES), quantiles_of(judged, _SIDES)],
    )


def _by_hour_and_campaign(judged: Judged) -> Section:
    return Section(
        "By hour and by campaign", "", [hours_of(judged, _SIDES), campaigns_of(judged, _SIDES)]
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
