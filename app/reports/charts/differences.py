"""Differences with their intervals, around zero."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.axes import (
    MOST_NAMES,
    edge_note,
    left_out_note,
    look,
    name_axes,
    paint_side_edges,
    set_x,
)
from app.reports.drawing import CARD, INK, MUTED, TEXT, drawn, new_axes, series_colour, series_style
from app.reports.labels import cells, fixed, has_room, in_unit, number, shortened, width, with_unit
from app.reports.page import Chart, Table
from app.reports.scale import Mask, Scale, linear_scale
from calibrators.samples import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW: Final = 44.0
_TOP, _BOTTOM, _LABEL, _SIDE = 4.0, 28.0, 18.0, 14.0
# Of a line that holds the name and the numbers.
_CELLS, _SHORTEST = 54, 8
# Intervals outside of these are written with an exponent.
_FINEST, _WIDEST, _DIGITS = 1e-7, 1e9, 3
_STYLE: Final = series_style(1)


def differences_chart(
    names: Sequence[str],
    middle: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    title: str,
    caption: str,
    unit: str = "",
    heading: str = "name",
) -> Chart:
    """The difference of each name, (k,), and the interval around it.

    A mark is filled when the interval leaves zero out. `unit` is written beside the numbers;
    `heading` says in the table what the names are.
    """
    columns = [np.asarray(found, float) for found in (middle, lower, upper)]
    ends = np.array(columns).reshape(3, len(names))
    svg = _drawn(names[:MOST_NAMES], ends[:, :MOST_NAMES], title, unit)
    rows = [
        (name, *(with_unit(number(value), unit) for value in ends[:, row].tolist()))
        for row, name in enumerate(names)
    ]
    how = caption + left_out_note(len(names)) + edge_note(_scale(ends, unit), [ends[0]])
    return Chart(title, how, svg, Table((heading, "difference", "from", "to"), rows))


def _scale(ends: Floats, unit: str) -> Scale:
    return linear_scale([ends], include=(0.0,), form=in_unit(unit))


def _drawn(names: Sequence[str], ends: Floats, title: str, unit: str) -> str:
    label = "" if has_room(unit) else unit
    bottom = _BOTTOM + (_LABEL if label else 0.0)
    scale = _scale(ends, unit)
    side = max(_SIDE, *(width(text, TEXT) / 2 for text in scale.labels))

    def paint(figure: "Figure") -> None:
        axes = new_axes(figure, side, _TOP, side, bottom)
        _frame(axes, scale, len(names))
        name_axes(axes, label)
        _paint(axes, ends, scale)
        for row, name in enumerate(names):
            _say(axes, row, name, _said(ends[:, row], unit))

    return drawn(_TOP + bottom + max(len(names), 1) * _ROW, title, ends[:1], paint)


def _frame(axes: "Axes", scale: Scale, rows: int) -> None:
    set_x(axes, scale)
    axes.set_ylim(rows - 0.3, -0.7)
    axes.set_yticks([])
    # Only beside the intervals: a line through the words would be read as part of them.
    places = np.arange(rows)
    axes.grid(visible=False)
    axes.vlines(np.zeros(rows), places - 0.16, places + 0.16, color=MUTED, linewidth=1.6)


def _paint(axes: "Axes", ends: Floats, scale: Scale) -> None:
    middle, lower, upper = ends
    rows = np.arange(len(middle), dtype=float)
    colour = series_colour(_STYLE.colour)
    known = ~np.isnan(ends).any(axis=0)
    sides = [np.clip(end[known], scale.low, scale.high) for end in (lower, upper)]
    axes.hlines(rows[known], sides[0], sides[1], color=colour, linewidth=2.2)
    hollow = {"markerfacecolor": CARD, "markeredgecolor": colour, "markeredgewidth": 1.6}
    clear = (lower > 0) | (upper < 0)
    _paint_marks(axes, middle, rows, scale.inside(middle) & clear, {})
    _paint_marks(axes, middle, rows, scale.inside(middle) & ~clear, hollow)
    paint_side_edges(axes, _STYLE, middle, rows, scale)


def _paint_marks(
    axes: "Axes", x: Floats, rows: Floats, which: Mask, otherwise: dict[str, Any]
) -> None:
    if which.any():
        axes.plot(x[which], rows[which], linestyle="none", zorder=3, **(look(_STYLE) | otherwise))


def _say(axes: "Axes", row: int, name: str, said: str) -> None:
    named = shortened(name, max(_SHORTEST, _CELLS - cells(said)))
    sides = ((0.0, named, "left", INK), (1.0, said, "right", MUTED))
    for x, text, align, colour in sides:
        axes.text(
            x, row - 0.25, text, color=colour, ha=align, va="bottom", fontsize=TEXT,
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip


def _said(ends: Floats, unit: str) -> str:
    if np.isnan(ends[0]):
        return "undefined"
    middle, lower, upper = _as_exact_as_known(ends)
    signed = f"+{middle}" if ends[0] > 0 else middle
    return f"{with_unit(signed, unit)}  ({lower} to {upper})"


def _as_exact_as_known(ends: Floats) -> list[str]:
    """Decimals that tell a hundredth of the interval; more of them mean nothing."""
    spread = float(np.ptp(ends[np.isfinite(ends)])) if np.isfinite(ends).any() else 0.0
    if not _FINEST <= spread < _WIDEST:
        return [number(value, 3) for value in ends.tolist()]
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(spread)))
    return [fixed(round(value, decimals) + 0.0, f",.{decimals}f") for value in ends.tolist()]
