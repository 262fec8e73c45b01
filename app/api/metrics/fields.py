"""Gauges of predicted over true outcomes by field, from the reports of the version in force."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import Metric

from app.api.metrics.counters import gauge

TOP: Final = 10
"""Values of a field with gauges of their own: those with the most evidence."""
_RCE: Final = {
    "": ("value", "By how much a field's values are off, relative to their positives (Field-RCE)."),
    "_floor": ("floor", "Field-RCE by chance alone, if the probabilities were the truth."),
}
_MCE: Final = {
    "sigmas": "The largest cumulative error of any value of a field or pair, over chance.",
    "chance": "How often, at most, chance alone makes any of them so bad.",
    "relative": "The same error over the positives of that value.",
}


def field_metrics(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    """Of the part `fields` of each target's report; without, nothing has a sample."""
    pcoc = (
        ([target, field, row["value"]], pcoc_of(row))
        for target, found in reports.items()
        for field in found["rce"]
        for row in found["top"][field]["rows"][:TOP]
    )
    text = "Predicted over true outcomes of the values of a field with the most evidence."
    yield gauge("sirocco_field_pcoc", text, ["target", "field", "value"], pcoc)
    for suffix, (name, text) in _RCE.items():
        errors = (
            ([target, field], row[name])
            for target, found in reports.items()
            for field, row in found["rce"].items()
        )
        yield gauge(f"sirocco_field_rce{suffix}", text, ["target", "field"], errors)
    for name, text in _MCE.items():
        worst = (([target], (found["mce"] or {}).get(name)) for target, found in reports.items())
        yield gauge(f"sirocco_mce_{name}", text, ["target"], worst)


def pcoc_of(row: Mapping[str, Any]) -> float | None:
    """Expected over true positives of a value; None without positives."""
    positives = float(row["positives"])
    return float(row["expected"]) / positives if positives > 0 else None
