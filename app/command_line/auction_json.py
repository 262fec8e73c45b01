"""The findings of `sirocco auction` as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from app.command_line.auction_findings import AuctionFindings
from app.command_line.console import results
from evaluation.auction import JudgedModel, RelativeChange, SweptPoint


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


def _row(model: JudgedModel) -> dict[str, float]:
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
