"""Lines over a number that is swept."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.axes import (
    edge_note,
    left_margin,
    name_axes,
    paint_line,
    right_margin,
    set_x,
    set_y,
)
from app.reports.drawing import drawn, new_axes, series_style, style_numbers
from app.reports.labels import number
from app.reports.page import Chart, Table
from app.reports.scale import Scale, drawable, linear_scale, log_scale
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

    def paint(figure: "Figure") -> None:
        axes = new_axes(figure, left_margin(up.labels), 28, right_margin(across.labels), 44)
        set_x(axes, across)
        set_y(axes, up)
        name_axes(axes, x_label, y_label)
        for name, values in lines.items():
            paint_line(axes, series_style(numbers[name]), places, values, up)

    how = caption + edge_note(up, lines.values())
    rows = [
        (number(place, 12), *(number(float(values[row])) for values in lines.values()))
        for row, place in enumerate(places.tolist())
    ]
    svg = drawn(_HEIGHT, title, lines.values(), paint)
    return Chart(title, how, svg, Table((x_label, *lines), rows), list(numbers.items()))


def _scale(values: Sequence[Floats]) -> Scale:
    known = drawable(values)
    if len(known) and known.min() > 0 and known.max() >= _FAR_APART * known.min():
        return log_scale([known])
    # Positions and counts have nothing between them.
    whole = bool((known == np.rint(known)).all())
    return linear_scale([known], least_step=1.0 if whole else 0.0)
