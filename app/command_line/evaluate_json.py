"""What `sirocco evaluate --json` prints."""

import math
from collections.abc import Mapping
from typing import Any

import orjson

from app.command_line.console import results
from app.command_line.evaluated_log import EvaluatedLog, SliceTable
from app.command_line.judged_hours import RAW
from evaluation.compact import OVERALL

_ALWAYS = (
    "n", "positives", "pcoc", "log_loss", "auc", "gc_3", "gc_4", "gc_5", "gauc", "cs_auc", "gcs_auc"
)  # fmt: skip


def print_evaluated(log: EvaluatedLog) -> None:
    """Print `{"rows": {"raw": {column: number}}, "campaigns": {name: {...}}, ...}`; an undefined
    or infinite number is null."""
    results().out(orjson.dumps(evaluated_json(log)).decode(), highlight=False)


def evaluated_json(log: EvaluatedLog) -> dict[str, Any]:
    """The answer as values of JSON, but for nan and infinities, which are printed as null."""
    return {
        "rows": {RAW: dict.fromkeys(_ALWAYS, math.nan) | dict(log.overall)},
        "campaigns": _slices(log.campaigns),
        "hours": _slices(log.hours),
        "by": {column: _slices(table) for column, table in log.by.items()},
        "quantiles": quantile_rows(log),
        "score_cells_per_octave": log.fewest_cells,
        "precision": _precision(log),
        "notes": [*log.notes],
    }


def quantile_rows(log: EvaluatedLog) -> list[dict[str, float]]:
    """The score quantiles, lowest scores first, with the metrics of each."""
    found = log.metrics.quantiles
    total = log.overall["log_loss"] * log.overall["n"]
    columns = {
        "n": found.weights,
        "positives": found.weights * found.rates,
        "probability": found.probabilities,
        "rate": found.rates,
        "rate_lower": found.lower,
        "rate_upper": found.upper,
        "prediction_error": found.prediction_errors,
        "log_loss": found.loss_shares * total / found.weights,
        "log_loss_share": found.loss_shares,
    }
    lists = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _slices(table: SliceTable | None) -> Mapping[str, Mapping[str, float]]:
    if table is None:
        return {}
    lists = {name: column.tolist() for name, column in table.columns.items()}
    rows = zip(*lists.values(), strict=True)
    return {
        name: dict(zip(lists, row, strict=True))
        for name, row in zip(table.names, rows, strict=True)
    }


def _precision(log: EvaluatedLog) -> dict[str, dict[str, float | None]]:
    tables = {"campaigns": log.campaigns, "hours": log.hours} | {
        f"by {column}": table for column, table in log.by.items()
    }
    cuts = {RAW: log.metrics.cuts[OVERALL]}
    cuts |= {name: table.metrics for name, table in tables.items() if table is not None}
    return {
        name: {
            "score_cells_per_octave": cut.cells_per_octave,
            "auc_error_at_most": cut.auc_error,
        }
        for name, cut in cuts.items()
    }
