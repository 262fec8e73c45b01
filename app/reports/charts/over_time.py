"""Lines over a number or over hours, and predicted over actual by hour and by name: 1 is right."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.axes import (
    MOST_NAMES,
    Hours,
    column_values,
    edge_note,
    height_of,
    hour_text,
    left_margin,
    left_out_note,
    name_axes,
    named_axes,
    paint_band,
    paint_dumbbells,
    paint_line,
    placed,
    reference_line,
    right_margin,
    row_values,
    set_hours,
    set_x,
    set_y,
    span,
    texts_of,
    with_gaps,
)
from app.reports.drawing import Value, drawn, new_axes, series_style, style_numbers
from app.reports.page import Chart, Table
from app.reports.scale import (
    Scale,
    drawable,
    linear_scale,
    log_scale,
    number,
    ratio_scale,
    within_reach,
)
from app.results.formatting import shown
from calibrators.samples import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT: Final = 320.0
# From this ratio on a linear axis would press most values against its beginning.
_FAR_APART: Final = 50.0


def lines_chart(
    x: ArrayLike,
    series: Mapping[str, ArrayLike],
    title: str,
    caption: str,
    x_label: str,
    y_label: str,
) -> Chart:
    """Series over `x`, (k,) each; an axis whose values are far apart is logarithmic."""
    given = np.asarray(x, float)
    order = np.argsort(given, kind="stable")
    places = given[order]
    lines = {name: np.asarray(values, float)[order] for name, values in series.items()}
    numbers = style_numbers(lines)
    across, up = _scale([places]), _scale(list(lines.values()))

    table = Table.of(x_label, [number(place, 12) for place in places.tolist()], lines, number)

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = new_axes(figure, left_margin(up.labels), 28, right_margin(across.labels), 44)
        set_x(axes, across)
        set_y(axes, up)
        name_axes(axes, x_label, y_label)
        for name, values in lines.items():
            paint_line(axes, series_style(numbers[name]), places, values, up)
        return column_values(axes, places, [f"{x_label} {text}" for text in texts_of(table)])

    how = caption + edge_note(up, lines.values())
    svg, said = drawn(_HEIGHT, title, lines.values(), paint)
    return Chart(title, how, svg, table, list(numbers.items()), said)


def _scale(values: Sequence[Floats]) -> Scale:
    known = drawable(values)
    if len(known) and known.min() > 0 and known.max() >= _FAR_APART * known.min():
        return log_scale([known])
    # Positions and counts have nothing between them.
    whole = bool((known == np.rint(known)).all())
    return linear_scale([known], least_step=1.0 if whole else 0.0)


_REACH: Final = 1.3
_CAPTION: Final = "Above 1 more was predicted than happened, below 1 less."
_BANDS: Final = " A shaded band is the range that chance explains."

Lines = Mapping[str, Floats]


def ratios_over_time_chart(
    hours: ArrayLike,
    series: Mapping[str, ArrayLike],
    lower: Mapping[str, ArrayLike] | None = None,
    upper: Mapping[str, ArrayLike] | None = None,
) -> Chart:
    """Ratios at hours since the epoch, (k,) each; a band for the series in `lower` and `upper`.

    A line has a gap where an hour is missing or its ratio is undefined.
    """
    title = "Predicted over actual, hour by hour"
    given: Hours = np.asarray(hours, np.int64)
    places = with_gaps(given)
    lines, low, high = (_placed(some, given, places) for some in (series, lower, upper))
    ends = within_reach([*low.values(), *high.values()], lines.values(), _REACH)
    scale = ratio_scale([*lines.values(), *ends])
    numbers = style_numbers(lines)

    table = _table(given, series, lower or {}, upper or {})

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = new_axes(figure, left_margin(scale.labels), 26, 18, 44)
        set_y(axes, scale)
        set_hours(axes, places)
        name_axes(axes, span(places), "predicted / actual")
        reference_line(axes, 1.0, horizontal=True)
        for name, look in numbers.items():
            style = series_style(look)
            if name in low and name in high:
                paint_band(axes, style, places.astype(float), low[name], high[name], scale)
            paint_line(axes, style, places.astype(float), lines[name], scale)
        return column_values(axes, np.sort(given).astype(float), texts_of(table))

    how = _CAPTION + (_BANDS if low and high else "")
    edge = edge_note(scale, lines.values())
    svg, said = drawn(_HEIGHT, title, lines.values(), paint)
    return Chart(title, how + edge, svg, table, list(numbers.items()), said)


def _placed(series: Mapping[str, ArrayLike] | None, hours: Hours, places: Hours) -> Lines:
    return {name: placed(values, hours, places) for name, values in (series or {}).items()}


def _table(
    hours: Hours,
    series: Mapping[str, ArrayLike],
    lower: Mapping[str, ArrayLike],
    upper: Mapping[str, ArrayLike],
) -> Table:
    order, columns = np.argsort(hours, kind="stable"), dict[str, Floats]()
    for name, values in series.items():
        sides = {name: values}
        if name in lower and name in upper:
            sides |= {f"{name} from": lower[name], f"{name} to": upper[name]}
        columns |= {column: np.asarray(found, float)[order] for column, found in sides.items()}
    names = [*map(hour_text, hours[order].tolist())]
    return Table.of("hour, UTC", names, columns, partial(shown, form=".3f"))


_LABEL: Final = "predicted / actual"


def ratios_by_name_chart(
    names: Sequence[str],
    series: Mapping[str, ArrayLike],
    caption: str,
    title: str = "Predicted over actual, by campaign",
    heading: str = "campaign",
) -> Chart:
    """Ratios of each name, (k,) for each series, in the order that is given.

    `heading` says in the table what the names are.
    """
    values = {name: np.asarray(found, float) for name, found in series.items()}
    first = names[:MOST_NAMES]
    points = {name: found[:MOST_NAMES] for name, found in values.items()}
    scale = ratio_scale(points.values())
    numbers = style_numbers(points)

    table = Table.of(heading, names, values, partial(shown, form=".3f"))

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = named_axes(figure, first, scale, label=_LABEL)
        name_axes(axes, _LABEL)
        reference_line(axes, 1.0, horizontal=False)
        paint_dumbbells(axes, points, numbers, scale)
        return row_values(axes, texts_of(table)[:MOST_NAMES])

    how = caption + left_out_note(len(names)) + edge_note(scale, points.values())
    svg, said = drawn(height_of(len(first), label=_LABEL), title, points.values(), paint)
    return Chart(title, how, svg, table, list(numbers.items()), said)
