"""The report of `sirocco auction`."""

from collections.abc import Mapping, Sequence

import numpy as np

from app.reports.charts.by_name import differences_chart, ends_of
from app.reports.charts.by_score import quantile_chart
from app.reports.charts.over_time import lines_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from app.results.auction import (
    HOW_TO_READ,
    SIMULATED,
    SWEPT,
    AuctionFindings,
    change_text,
    rows_of,
    sweep_cells,
    truth_text,
)
from app.results.formatting import shown
from evaluation import score_quantiles
from evaluation.auction.comparison import SimulatedModel, logged_predictions
from evaluation.auction.simulation import CLICK_METRICS, SweptPoint

_PERCENT = 100.0
_QUANTILES = 10
_NAMES = {
    "click_yield": "clicks",
    "mainline_click_yield": "clicks in the mainline",
    "revenue_per_mille": "revenue",
}


def auction_page(findings: AuctionFindings) -> Page:
    """The verdict, headline figures, changes, operating points, click curve and score quantiles."""
    log = findings.log
    truth = (truth_text(findings.truth),) if findings.truth else ()
    return Page(
        title=f"Simulated auctions: {findings.name}",
        subtitle=f"{log.n_pages:,} pages, {len(log):,} candidates, {len(log.shown):,} ads shown,"
        f" {int(log.clicks.sum()):,} clicks",
        verdict=" ".join((findings.conclusion, *truth)),
        tiles=_tiles(findings),
        sections=[
            _models(findings),
            *([_sweep(findings)] if findings.sweep else []),
            _curve(findings),
            _quantiles(findings),
        ],
        warnings=findings.warnings,
    )


def _tiles(findings: AuctionFindings) -> list[Tile]:
    candidate, baseline = findings.candidate, findings.comparison.baseline
    if candidate is None:
        return [
            Tile(heading, shown(baseline.simulation.metrics[name], form))
            for name, (heading, form) in SIMULATED.items()
            if name in CLICK_METRICS
        ]
    never = max(model.simulation.level_shares[2] for model in (baseline, candidate))
    said = candidate.conclusion
    return [
        *(_change_tile(candidate, name) for name in CLICK_METRICS),
        Tile(
            "slots with ads never shown",
            shown(never, ".1%"),
            "their clicks are a guess",
            said is not None and said.conclusive,
        ),
    ]


def _change_tile(candidate: SimulatedModel, name: str) -> Tile:
    change = candidate.changes[name]
    value, interval = change_text(change)
    return Tile(_NAMES[name], value, interval, change.value > 0.0 if change.is_clear else None)


def _models(findings: AuctionFindings) -> Section:
    names = [*findings.comparison.models]
    changed = (
        [] if len(names) == 1 else ["change", f"{_PERCENT * findings.confidence:g} % interval"]
    )
    table = Table(["", *names, *changed], rows_of(findings), note=HOW_TO_READ)
    parts: list[Chart | Table] = [table]
    if findings.candidate is not None:
        parts.insert(0, _changes(findings.candidate, findings.confidence))
    return Section("What the models would bring", "", parts)


def _changes(candidate: SimulatedModel, confidence: float) -> Chart:
    return differences_chart(
        [_NAMES[name] for name in CLICK_METRICS],
        _PERCENT * ends_of(candidate.changes[name] for name in CLICK_METRICS),
        title="Change from the model in force",
        caption="Right of zero the candidate brings more. The intervals, of"
        f" {_PERCENT * confidence:g} %, take pages as units; they do not cover that ads never shown"
        " are taken for as good as those shown.",
        unit="%",
    )


def _sweep(findings: AuctionFindings) -> Section:
    parts: list[Chart | Table] = [
        _sweep_chart(findings.sweep, name, load)
        for load in dict.fromkeys(each.load for swept in findings.sweep.values() for each in swept)
        for name in ("click_yield", "revenue_per_mille")
    ]
    rows = [
        [model, *sweep_cells(each)] for model, swept in findings.sweep.items() for each in swept
    ]
    parts.append(Table(["", *SWEPT], rows))
    text = (
        "Every point shows as many mainline ads a page as the model in force, times the load."
        " A higher alpha prefers ads that are clicked; revenue moves the other way in the end."
    )
    return Section("Operating points", text, parts)


def _sweep_chart(sweep: Mapping[str, Sequence[SweptPoint]], name: str, load: float) -> Chart:
    at_load = {
        model: [each for each in swept if each.load == load] for model, swept in sweep.items()
    }
    alphas = [each.point.alpha for each in next(iter(at_load.values()))]
    series = {
        model: [_PERCENT * each.changes[name].value for each in swept]
        for model, swept in at_load.items()
    }
    what, at = _NAMES[name], "equal" if load == 1.0 else f"{load:g} times the"
    return lines_chart(
        alphas,
        series,
        title=f"Change of {what} at {at} mainline load",
        caption="Against the model and the settings in force, in per cent.",
        x_label="alpha",
        y_label=f"change of {what}, %",
    )


def _curve(findings: AuctionFindings) -> Section:
    curve = findings.comparison.simulator.history.curve
    chart = lines_chart(
        np.arange(1, len(curve.factors) + 1),
        {"in use": curve.factors, "naive": curve.naive_factors},
        title="Click curve",
        caption="Clicks at each position relative to the first. The naive curve is the click rate"
        " by position; it is too steep where better ads stand higher.",
        x_label="position",
        y_label="clicks relative to the first",
    )
    return Section("What a position does to clicks", "", [chart])


def _quantiles(findings: AuctionFindings) -> Section:
    curve = findings.comparison.simulator.history.curve
    series = {}
    for name, scores in findings.models.items():
        logged = logged_predictions(findings.log, scores, curve)
        series[name] = score_quantiles(logged.probabilities, logged.outcomes, _QUANTILES)
    text = (
        "On the logged impressions, scores times the click curve. Too high a score matters most"
        " at the low end: there it puts poor ads in the place of better ones."
    )
    return Section("Errors by score", text, [quantile_chart(series)])
