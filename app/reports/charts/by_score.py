"""Charts over the score: reliability, and the error of score quantiles beside their loss."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.reports.axes import (
    column_values,
    edge_note,
    left_margin,
    look,
    name_axes,
    paint_edges,
    paint_line,
    paint_side_edges,
    point_values,
    reference_line,
    right_margin,
    set_x,
    set_y,
    texts_of,
)
from app.reports.drawing import (
    MUTED,
    TEXT,
    Drawing,
    SeriesStyle,
    Value,
    drawn,
    new_axes,
    series_colour,
    series_style,
    style_numbers,
)
from app.reports.page import Chart, Table
from app.reports.scale import (
    Scale,
    linear_scale,
    log_scale,
    number,
    percent,
    percents,
    ratio_scale,
    within_reach,
)
from calibrators.samples import Floats
from evaluation import ReliabilityDiagram
from evaluation.metrics.reliability import ScoreQuantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 400.0
_REACH: Final = 1.3
# Whiskers of more series hide each other.
_MOST_WHISKERS: Final = 3
_COLUMNS: Final = ("group", "count", "predicted", "observed", "from", "to")
_CAPTION: Final = (
    "Each mark is a group of similar scores. On the line, as many happened as were predicted;"
    " below it, too many were predicted."
)
_WHISKERS: Final = " A whisker is the range that chance explains."


def reliability_chart(series: Mapping[str, ReliabilityDiagram]) -> Chart:
    """Diagrams by the name of their predictions, on logarithmic axes."""
    title = "Predicted and observed"
    rates = [diagram.rates for diagram in series.values()]
    probabilities = [diagram.probabilities for diagram in series.values()]
    scale = _scale(series)
    numbers = style_numbers(series)
    whiskers = len(series) <= _MOST_WHISKERS
    table = _table(_COLUMNS, series, _shares)

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = new_axes(figure, left_margin(scale.labels), 28, right_margin(scale.labels), 44)
        _frame(axes, scale)
        for name, diagram in series.items():
            _paint(axes, series_style(numbers[name]), diagram, scale, whiskers=whiskers)
        x = np.clip(np.concatenate(probabilities), scale.low, scale.high)
        return point_values(axes, x, np.concatenate(rates), texts_of(table))

    how = _CAPTION + (_WHISKERS if whiskers else "")
    svg, said = drawn(_HEIGHT, title, rates, paint)
    how += edge_note(scale, [*rates, *probabilities])
    return Chart(title, how, svg, table, list(numbers.items()), said)


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
    name_axes(axes, "predicted: mean probability of the group", "observed: share of positives")


def _paint(
    axes: "Axes", style: SeriesStyle, diagram: ReliabilityDiagram, scale: Scale, *, whiskers: bool
) -> None:
    columns = (diagram.probabilities, diagram.rates, diagram.lower, diagram.upper)
    x, y, low, high = (np.clip(column, scale.low, scale.high) for column in columns)
    if whiskers:
        axes.vlines(x, low, high, color=series_colour(style.colour), linewidth=1.1, alpha=0.7)
    inside = scale.inside(diagram.rates) & scale.inside(diagram.probabilities)
    shown = np.where(inside, diagram.rates, np.nan)
    axes.plot(x, shown, linewidth=1.6, dashes=style.dashes or (None, None), **look(style))
    paint_edges(axes, style, x, diagram.rates, scale)
    paint_side_edges(axes, style, diagram.probabilities, y, scale)


def _table(
    columns: Sequence[str], series: Mapping[str, Any], cells: Callable[[Any, int], list[str]]
) -> Table:
    rows = [
        (f"{name}, {row + 1}", number(float(found.weights[row]), 12), *cells(found, row))
        for name, found in series.items()
        for row in range(len(found.rates))
    ]
    return Table(columns, rows)


def _shares(diagram: ReliabilityDiagram, row: int) -> list[str]:
    columns = (diagram.probabilities, diagram.rates, diagram.lower, diagram.upper)
    return [percent(float(column[row]), 4) for column in columns]


_HEIGHT_QUANTILES: Final = 430.0
_REACH_QUANTILES: Final = 1.6
_TOP, _RIGHT, _BOTTOM = 28.0, 14.0, 44.0
_LOSS_TOP, _ERROR_BOTTOM = 304.0, 176.0
_MOST_TICKS: Final = 12
_APART: Final = 0.14
_COLUMNS_QUANTILES: Final = (
    "group",
    "count",
    "predicted",
    "observed",
    "error",
    "from",
    "to",
    "loss share",
)
_CAPTION_QUANTILES: Final = (
    "Groups of about the same size, from the lowest scores on the left to the highest. Above the"
    " line too much was predicted. Below: where the log loss comes from."
)

Series = Mapping[str, ScoreQuantiles]


def quantile_chart(series: Series) -> Chart:
    """Score quantiles by the name of their predictions: the error, and the share of the loss."""
    ratios = {name: 1.0 + found.prediction_errors for name, found in series.items()}
    scale = _scale_quantiles(ratios.values(), series)
    how = _CAPTION_QUANTILES + (_WHISKERS if len(series) <= _MOST_WHISKERS else "")
    how += edge_note(scale, ratios.values())
    title = "Error from low scores to high"
    svg, said = _drawn(series, title, scale)
    numbers = list(style_numbers(series).items())
    table = _table(_COLUMNS_QUANTILES, series, _cells)
    return Chart(title, how, svg, table, numbers, said)


def _scale_quantiles(ratios: Iterable[Floats], series: Series) -> Scale:
    held = list(ratios)
    ends = [1.0 + end for found in series.values() for end in _interval(found)]
    return ratio_scale(
        [*held, *within_reach(ends, held, _REACH_QUANTILES)],
        form=lambda ratio: _signed_error(round(ratio - 1.0, 9)),
    )


def _signed_error(error: float) -> str:
    return f"{'+' if error > 0 else ''}{percent(error)}"


def _drawn(series: Series, title: str, scale: Scale) -> Drawing:
    shares = [found.loss_shares for found in series.values()]
    loss = linear_scale(shares, include=(0.0,), form=percents, most=4)
    left = left_margin([*scale.labels, *loss.labels])

    def paint(figure: "Figure") -> Sequence[Value]:
        above = new_axes(figure, left, _TOP, _RIGHT, _ERROR_BOTTOM)
        below = new_axes(figure, left, _LOSS_TOP, _RIGHT, _BOTTOM)
        groups = max(len(found.rates) for found in series.values())
        _frame_error(above, scale, groups)
        _frame_loss(below, loss, groups)
        for place, (name, style_number) in enumerate(style_numbers(series).items()):
            style, found = series_style(style_number), series[name]
            x = 1.0 + np.arange(len(found.rates), dtype=float)
            paint_line(below, style, x, found.loss_shares, loss)
            if len(series) <= _MOST_WHISKERS:
                # Beside each other, so that no whisker hides another.
                x += _APART * (place - (len(series) - 1) / 2)
                low, high = (np.clip(1.0 + end, scale.low, scale.high) for end in _interval(found))
                above.vlines(x, low, high, series_colour(style.colour), linewidth=1.1, alpha=0.75)
            paint_line(above, style, x, 1.0 + found.prediction_errors, scale)
        places, texts = np.arange(1.0, groups + 1.0), _texts(series, groups)
        return [value for axes in (above, below) for value in column_values(axes, places, texts)]

    return drawn(_HEIGHT_QUANTILES, title, [found.rates for found in series.values()], paint)


def _texts(series: Series, groups: int) -> list[str]:
    """What each group says: the error and the share of the loss of every series."""
    return [
        f"group {row + 1}: "
        + "; ".join(
            f"{name} {_signed_error(float(found.prediction_errors[row]))},"
            f" loss share {percent(float(found.loss_shares[row]))}"
            for name, found in series.items()
            if row < len(found.rates)
        )
        for row in range(groups)
    ]


def _frame_error(axes: "Axes", scale: Scale, groups: int) -> None:
    set_y(axes, scale)
    _set_groups(axes, groups)
    reference_line(axes, 1.0, horizontal=True)
    name_axes(axes, "", "predicted too much (+) or too little (-)")


def _frame_loss(axes: "Axes", scale: Scale, groups: int) -> None:
    set_y(axes, scale)
    _set_groups(axes, groups)
    name_axes(axes, "group of scores, lowest first")
    axes.annotate(
        "share of the log loss", (0.0, 1.0), (0.0, 9.0), textcoords="offset points",
        xycoords=("figure fraction", "axes fraction"), color=MUTED, fontsize=TEXT, va="bottom",
    )  # fmt: skip


def _set_groups(axes: "Axes", groups: int) -> None:
    ticks = range(1, groups + 1, -(-groups // _MOST_TICKS))
    axes.set_xlim(0.5, groups + 0.5)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.grid(visible=False, axis="x")


def _interval(found: ScoreQuantiles) -> tuple[Floats, Floats]:
    """The error if the rate were at the upper, and at the lower end of its interval."""
    with np.errstate(all="ignore"):
        return found.probabilities / found.upper - 1.0, found.probabilities / found.lower - 1.0


def _cells(found: ScoreQuantiles, row: int) -> list[str]:
    low, high = _interval(found)
    errors = (found.prediction_errors, low, high)
    return [
        percent(float(found.probabilities[row]), 4),
        percent(float(found.rates[row]), 4),
        *(_signed_error(float(error[row])) for error in errors),
        percent(float(found.loss_shares[row])),
    ]
