"""Promised over actual by name: 1 is right."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.drawing import drawn
from app.reports.labels import fixed
from app.reports.names_axis import MOST_NAMES, height_of, left_out_note, named_axes
from app.reports.page import Chart, Table
from app.reports.painting import (
    edge_note,
    name_axes,
    paint_dumbbells,
    reference_line,
)
from app.reports.scale import ratio_scale
from app.reports.series_style import style_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABEL: Final = "promised / actual"
_CAPTION: Final = (
    "Right of the line at 1 more was promised than came true, left of it less. The closer a mark is"
    " to the line, the better."
)


def ratios_by_name_chart(
    names: Sequence[str],
    series: Mapping[str, ArrayLike],
    title: str = "Promised over actual, by campaign",
    caption: str = "",
    heading: str = "campaign",
) -> Chart:
    """Ratios of each name, (k,) for each series, in the order that is given.

    `heading` says in the table what the names are.
    """
    values = {name: np.asarray(found, float) for name, found in series.items()}
    shown = names[:MOST_NAMES]
    points = {name: found[:MOST_NAMES] for name, found in values.items()}
    scale = ratio_scale(points.values())
    numbers = style_numbers(points)

    def paint(figure: "Figure") -> None:
        axes = named_axes(figure, shown, scale, label=_LABEL)
        name_axes(axes, _LABEL)
        reference_line(axes, 1.0, horizontal=False)
        paint_dumbbells(axes, points, numbers, scale)

    how = (caption or _CAPTION) + left_out_note(len(names)) + edge_note(scale, points.values())
    rows = [
        (name, *(fixed(float(found[row]), ".3f") for found in values.values()))
        for row, name in enumerate(names)
    ]
    svg = drawn(height_of(len(shown), label=_LABEL), title, points.values(), paint)
    return Chart(title, how, svg, Table((heading, *values), rows), list(numbers.items()))
