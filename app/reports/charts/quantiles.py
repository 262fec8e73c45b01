"""How far off the promise is from the lowest scores to the highest, and where the loss is."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from app.reports.axes import edge_note, left_margin, name_axes, paint_line, reference_line, set_y
from app.reports.drawing import (
    MUTED,
    TEXT,
    SeriesStyle,
    drawn,
    new_axes,
    series_colour,
    series_style,
    style_numbers,
)
from app.reports.labels import number, percent, percents
from app.reports.page import Chart, Table
from app.reports.scale import Scale, linear_scale, ratio_scale, within_reach
from calibrators.samples import Floats
from evaluation.metrics.reliability import ScoreQuantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 430.0
_REACH: Final = 1.6
_TOP, _RIGHT, _BOTTOM = 28.0, 14.0, 44.0
_LOSS_TOP, _ERROR_BOTTOM = 304.0, 176.0
_MOST_TICKS: Final = 12
# Whiskers of more series hide each other.
_MOST_WHISKERS: Final = 3
_APART: Final = 0.14
_COLUMNS: Final = ("group", "count", "promised", "came true", "error", "from", "to", "loss share")
_CAPTION: Final = (
    "Groups of about the same size, from the lowest scores on the left to the highest. Above the"
    " line too much was promised. Below: where the log loss comes from."
)
_WHISKERS: Final = " A whisker is the range that chance explains."

Series = Mapping[str, ScoreQuantiles]


def quantile_chart(
    series: Series, title: str = "Error from low scores to high", caption: str = ""
) -> Chart:
    """Score quantiles by the name of their predictions: the error, and the share of the loss."""
    ratios = {name: 1.0 + found.prediction_errors for name, found in series.items()}
    scale = _scale(ratios.values(), series)
    how = caption or _CAPTION + (_WHISKERS if len(series) <= _MOST_WHISKERS else "")
    svg = _drawn(series, title, scale)
    numbers = list(style_numbers(series).items())
    return Chart(title, how + edge_note(scale, ratios.values()), svg, _table(series), numbers)


def _scale(ratios: Iterable[Floats], series: Series) -> Scale:
    held = list(ratios)
    ends = [1.0 + end for found in series.values() for end in _interval(found)]
    return ratio_scale([*held, *within_reach(ends, held, _REACH)], form=_signed)


def _signed(ratio: float) -> str:
    return _signed_error(round(ratio - 1.0, 9))


def _signed_error(error: float) -> str:
    return f"{'+' if error > 0 else ''}{percent(error)}"


def _drawn(series: Series, title: str, scale: Scale) -> str:
    shares = [found.loss_shares for found in series.values()]
    loss = linear_scale(shares, include=(0.0,), form=percents, most=4)
    left = left_margin([*scale.labels, *loss.labels])

    def paint(figure: "Figure") -> None:
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
                _paint_whiskers(above, style, x, found, scale)
            paint_line(above, style, x, 1.0 + found.prediction_errors, scale)

    return drawn(_HEIGHT, title, [found.rates for found in series.values()], paint)


def _frame_error(axes: "Axes", scale: Scale, groups: int) -> None:
    set_y(axes, scale)
    _set_groups(axes, groups)
    reference_line(axes, 1.0, horizontal=True)
    name_axes(axes, "", "promised too much (+) or too little (-)")


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


def _paint_whiskers(
    axes: "Axes", style: SeriesStyle, x: Floats, found: ScoreQuantiles, scale: Scale
) -> None:
    low, high = (np.clip(1.0 + end, scale.low, scale.high) for end in _interval(found))
    axes.vlines(x, low, high, color=series_colour(style.colour), linewidth=1.1, alpha=0.75)


def _interval(found: ScoreQuantiles) -> tuple[Floats, Floats]:
    """The error if the rate were at the upper, and at the lower end of its interval."""
    with np.errstate(all="ignore"):
        return found.probabilities / found.upper - 1.0, found.probabilities / found.lower - 1.0


def _table(series: Series) -> Table:
    rows = [
        (f"{name}, {row + 1}", number(float(found.weights[row]), 12), *_cells(found, row))
        for name, found in series.items()
        for row in range(len(found.rates))
    ]
    return Table(_COLUMNS, rows)


def _cells(found: ScoreQuantiles, row: int) -> list[str]:
    low, high = _interval(found)
    errors = (found.prediction_errors, low, high)
    return [
        percent(float(found.probabilities[row]), 4),
        percent(float(found.rates[row]), 4),
        *(_signed_error(float(error[row])) for error in errors),
        percent(float(found.loss_shares[row])),
    ]
