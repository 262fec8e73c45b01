"""What `sirocco auction` prints: models side by side, operating points, JSON.

The findings of `sirocco auction` as JSON.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import note, results
from app.results.auction import (
    HOW_TO_READ,
    SWEPT,
    AuctionFindings,
    rows_of,
    sweep_cells,
    truth_text,
)
from evaluation.auction import RelativeChange, SimulatedModel, SweptPoint


def show_models(findings: AuctionFindings) -> None:
    """Print the models side by side."""
    console, log = results(), findings.log
    title = f"{findings.name}: {log.n_pages:,} pages, {len(log):,} candidates"
    console.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    models = findings.comparison.models
    for name in models:
        table.add_column(name, justify="right", no_wrap=True)
    if findings.candidate is not None:
        table.add_column("change", justify="right", no_wrap=True)
        table.add_column(f"{100 * findings.confidence:g} % interval", justify="right", no_wrap=True)
    for row in rows_of(findings):
        table.add_row(*row)
    console.print(table)


def show_sweep(findings: AuctionFindings) -> None:
    """Print the operating points; the most clicks are bold."""
    points = [(model, each) for model, swept in findings.sweep.items() for each in swept]
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in SWEPT:
        table.add_column(heading, justify="right", no_wrap=True)
    best = max(points, key=lambda point: point[1].metrics["click_yield"])[1]
    for model, each in points:
        table.add_row(model, *sweep_cells(each), style="bold" if each is best else "")
    console = results()
    console.print(Text("Operating points, against the model and settings in force", style="bold"))
    console.print(table)


def show_findings(findings: AuctionFindings) -> None:
    """Print everything for people."""
    show_models(findings)
    if findings.sweep:
        show_sweep(findings)
    console = results()
    console.print(Text(findings.verdict, style="bold"), soft_wrap=True)
    if findings.truth:
        console.print(Text(truth_text(findings.truth)), soft_wrap=True)
    note(f"\n{HOW_TO_READ}")
    for warning in findings.warnings:
        note(f"Careful: {warning}")


def print_findings(findings: AuctionFindings) -> None:
    """Print `{"rows": {model: {column: number}}, ...}`; an undefined number is null."""
    comparison = findings.comparison
    curve, candidate = comparison.simulator.history.curve, findings.candidate
    said = None if candidate is None else candidate.conclusion
    document = {
        "rows": {name: _row(model) for name, model in comparison.models.items()},
        "conclusive": None if said is None else said.conclusive,
        "verdict": findings.verdict,
        "warnings": findings.warnings,
        "pages": findings.log.n_pages,
        "candidates": len(findings.log),
        "point": asdict(comparison.baseline.simulation.point),
        "agreement": comparison.agreement,
        "click_curve": {
            "factors": curve.factors.tolist(),
            "naive": curve.naive_factors.tolist(),
            "linked": curve.linked.tolist(),
        },
        "sweep": [_point(model, each) for model, swept in findings.sweep.items() for each in swept],
        "truth": {f"{name}_change": value for name, value in findings.truth.items()},
    }
    results().out(orjson.dumps(document).decode(), highlight=False)


def _row(model: SimulatedModel) -> dict[str, float]:
    levels = {f"level_{n}": share for n, share in enumerate(model.simulation.level_shares, 1)}
    told = {**levels, "guessed_clicks": model.simulation.guessed_share}
    return {**model.offline, **model.simulation.metrics, **told, **_changes(model.changes)}


def _point(model: str, swept: SweptPoint) -> dict[str, Any]:
    levels = {f"level_{n}": share for n, share in enumerate(swept.level_shares, 1)}
    settings = {"model": model, "load": swept.load, **asdict(swept.point)}
    return {**settings, **swept.metrics, **levels, **_changes(swept.changes)}


def _changes(changes: Mapping[str, RelativeChange]) -> dict[str, float]:
    told: dict[str, float] = {}
    for name, change in changes.items():
        told[f"{name}_change"] = change.value
        told[f"{name}_change_lower"] = change.lower
        told[f"{name}_change_upper"] = change.upper
    return told
