"""The sections of an evaluation's report about fields."""

from typing import Final

import numpy as np

from app.reports.charts.by_name import differences_chart
from app.reports.page import Chart, Section, Table
from app.results.fields import (
    FIELD_HEADINGS,
    SEGMENT_HEADINGS,
    field_row,
    mean_line,
    ratios_of_values,
    segment_row,
)
from evaluation.fields import FieldMetrics, FieldSums

_DRAWN: Final = 12
_ABOUT: Final = """Field-RCE is by how much the positives of a typical row's value are off: 0.2 is \
20 %. Read it beside what chance alone makes of it."""


def field_sections(found: FieldMetrics) -> list[Section]:
    """Each field with its picture, and the worst segments of all fields and pairs."""
    fields = Table(FIELD_HEADINGS, [field_row(field, found) for field in found.errors], "Fields")
    mce = found.multicalibration
    segments = Table(
        SEGMENT_HEADINGS,
        [segment_row(segment) for segment in mce.worst],
        f"Worst of {mce.segments:,} segments of fields and pairs",
        "Sigmas of the worst stretch of probabilities in the segment; 2.5 comes by chance in 5 % of"
        " segments.",
    )
    charts = [values_chart(field, sums) for field, sums in found.sums.items()]
    return [Section("By field", f"{_ABOUT} {mean_line(found)}", [fields, *charts, segments])]


def values_chart(field: str, sums: FieldSums) -> Chart:
    """Predicted over actual positives by value, with intervals, those on top that chance explains
    least."""
    worst = sums.worst_first[:_DRAWN]
    ratios = ratios_of_values(sums)
    middle, lower, upper = (
        100.0 * (np.where(np.isfinite(found), found, np.nan) - 1.0)
        for found in (ratios[name][worst] for name in ("pcoc", "pcoc_lower", "pcoc_upper"))
    )
    return differences_chart(
        [sums.names[i] for i in worst],
        middle,
        lower,
        upper,
        f"Predicted over actual, by {field}",
        "Right of 0 more was predicted than happened, left of it less; the line is where chance may"
        " take it, and a hollow mark is no more than chance. Those that chance explains least stand"
        " first.",
        unit="%",
        heading=field,
    )
