"""Promised over actual by hour: 1 is right."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.drawing import drawn, new_axes
from app.reports.hours_axis import Hours, placed, said, set_hours, span, with_gaps
from app.reports.labels import fixed
from app.reports.page import Chart, Table
from app.reports.painting import (
    edge_note,
    left_margin,
    name_axes,
    paint_band,
    paint_line,
    reference_line,
    set_y,
)
from app.reports.scale import Floats, Scale, ratio_scale, within_reach
from app.reports.series_style import series_style, style_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 320.0
_REACH: Final = 1.3
_CAPTION: Final = "Above 1 more was promised than came true, below 1 less."
_BANDS: Final = " A shaded band is the range that chance explains."

Lines = Mapping[str, Floats]


def ratios_over_time_chart(
    hours: ArrayLike,
    series: Mapping[str, ArrayLike],
    lower: Mapping[str, ArrayLike] | None = None,
    upper: Mapping[str, ArrayLike] | None = None,
    title: str = "Promised over actual, hour by hour",
    caption: str = "",
) -> Chart:
    """Ratios at hours since the epoch, (k,) each; a band for the series in `lower` and `upper`.

    A line has a gap where an hour is missing or its ratio is undefined.
    """
    given: Hours = np.asarray(hours, np.int64)
    places = with_gaps(given)
    lines, low, high = (_placed(some, given, places) for some in (series, lower, upper))
    ends = within_reach([*low.values(), *high.values()], lines.values(), _REACH)
    scale = ratio_scale([*lines.values(), *ends])
    numbers = style_numbers(lines)

    def paint(figure: "Figure") -> None:
        axes = new_axes(figure, left_margin(scale.labels), 26, 18, 44)
        _frame(axes, scale, places)
        for name, number in numbers.items():
            style = series_style(number)
            if name in low and name in high:
                paint_band(axes, style, places.astype(float), low[name], high[name], scale)
            paint_line(axes, style, places.astype(float), lines[name], scale)

    how = caption or _CAPTION + (_BANDS if low and high else "")
    edge = edge_note(scale, lines.values())
    table = _table(given, series, lower or {}, upper or {})
    svg = drawn(_HEIGHT, title, lines.values(), paint)
    return Chart(title, how + edge, svg, table, list(numbers.items()))


def _placed(series: Mapping[str, ArrayLike] | None, hours: Hours, places: Hours) -> Lines:
    return {name: placed(values, hours, places) for name, values in (series or {}).items()}


def _frame(axes: "Axes", scale: Scale, hours: Hours) -> None:
    set_y(axes, scale)
    set_hours(axes, hours)
    name_axes(axes, span(hours), "promised / actual")
    reference_line(axes, 1.0, horizontal=True)


def _table(
    hours: Hours,
    series: Mapping[str, ArrayLike],
    lower: Mapping[str, ArrayLike],
    upper: Mapping[str, ArrayLike],
) -> Table:
    columns: dict[str, Floats] = {}
    for name, values in series.items():
        sides = {name: values}
        if name in lower and name in upper:
            sides |= {f"{name}, from": lower[name], f"{name}, to": upper[name]}
        columns |= {column: np.asarray(found, float) for column, found in sides.items()}
    rows = [
        (said(int(hours[row])), *(fixed(float(values[row]), ".3f") for values in columns.values()))
        for row in np.argsort(hours, kind="stable")
    ]
    return Table(("hour, UTC", *columns), rows)
