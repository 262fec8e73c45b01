"""What came true over what was promised."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from app.reports.axes import (
    edge_note,
    left_margin,
    look,
    name_axes,
    paint_edges,
    right_margin,
    set_x,
    set_y,
)
from app.reports.drawing import (
    MUTED,
    SeriesStyle,
    drawn,
    new_axes,
    series_colour,
    series_style,
    style_numbers,
)
from app.reports.labels import number, percent
from app.reports.page import Chart, Table
from app.reports.scale import Scale, log_scale, within_reach
from evaluation import ReliabilityDiagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 400.0
_REACH: Final = 1.3
# Whiskers of more series hide each other.
_MOST_WHISKERS: Final = 3
_COLUMNS: Final = ("group", "count", "promised", "came true", "from", "to")
_CAPTION: Final = (
    "Each mark is a group of similar scores. On the line, as many came true as were promised;"
    " below it, too many were promised."
)
_WHISKERS: Final = " A whisker is the range that chance explains."


def reliability_chart(
    series: Mapping[str, ReliabilityDiagram],
    title: str = "What was promised, and what came true",
    caption: str = "",
) -> Chart:
    """Diagrams by the name of their predictions, on logarithmic axes."""
    rates = [diagram.rates for diagram in series.values()]
    scale = _scale(series)
    numbers = style_numbers(series)
    whiskers = len(series) <= _MOST_WHISKERS

    def paint(figure: "Figure") -> None:
        axes = new_axes(figure, left_margin(scale.labels), 28, right_margin(scale.labels), 44)
        _frame(axes, scale)
        for name, diagram in series.items():
            _paint(axes, series_style(numbers[name]), diagram, scale, whiskers=whiskers)

    how = caption or _CAPTION + (_WHISKERS if whiskers else "")
    svg = drawn(_HEIGHT, title, rates, paint)
    return Chart(title, how + edge_note(scale, rates), svg, _table(series), list(numbers.items()))


def _scale(series: Mapping[str, ReliabilityDiagram]) -> Scale:
    held = [values for d in series.values() for values in (d.probabilities, d.rates)]
    ends = [end for d in series.values() for end in (d.lower, d.upper)]
    near = within_reach(ends, held, _REACH)
    return log_scale([*held, *near], most_high=1.0, form=percent)


def _frame(axes: "Axes", scale: Scale) -> None:
    set_x(axes, scale)
    set_y(axes, scale)
    ends = (scale.low, scale.high)
    axes.plot(ends, ends, color=MUTED, linewidth=1.2, zorder=1.5)
    name_axes(axes, "promised: mean probability of the group", "came true: share of positives")


def _paint(
    axes: "Axes", style: SeriesStyle, diagram: ReliabilityDiagram, scale: Scale, *, whiskers: bool
) -> None:
    x = np.clip(diagram.probabilities, scale.low, scale.high)
    if whiskers:
        low, high = (np.clip(end, scale.low, scale.high) for end in (diagram.lower, diagram.upper))
        axes.vlines(x, low, high, color=series_colour(style.colour), linewidth=1.1, alpha=0.7)
    shown = np.where(scale.inside(diagram.rates), diagram.rates, np.nan)
    axes.plot(x, shown, linewidth=1.6, dashes=style.dashes or (None, None), **look(style))
    paint_edges(axes, style, x, diagram.rates, scale)


def _table(series: Mapping[str, ReliabilityDiagram]) -> Table:
    rows = [
        (f"{name}, {row + 1}", number(float(d.weights[row]), 12), *_shares(d, row))
        for name, d in series.items()
        for row in range(len(d.rates))
    ]
    return Table(_COLUMNS, rows)


def _shares(diagram: ReliabilityDiagram, row: int) -> list[str]:
    columns = (diagram.probabilities, diagram.rates, diagram.lower, diagram.upper)
    return [percent(float(column[row]), 4) for column in columns]
