"""Charts of values by name: bars, marks where bars would look alike, differences with intervals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from app.reports.axes import (
    MOST_NAMES,
    ROW,
    edge_note,
    height_of,
    left_out_note,
    look,
    name_axes,
    named_axes,
    paint_dumbbells,
    paint_side_edges,
    reference_line,
    row_values,
    set_x,
    texts_of,
)
from app.reports.drawing import (
    CARD,
    INK,
    MUTED,
    TEXT,
    Drawing,
    Value,
    drawn,
    new_axes,
    series_colour,
    series_style,
    style_numbers,
)
from app.reports.page import Chart, Table
from app.reports.scale import (
    Mask,
    Scale,
    alike,
    drawable,
    has_room,
    in_unit,
    linear_scale,
    log_scale,
    number,
    width,
    with_unit,
)
from app.results.formatting import cells, shortened, shown
from calibrators.samples import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Bars of values more alike than that look the same; of values further apart, the short ones vanish.
_ALIKE, _FAR_APART = 0.7, 300.0
_MOST_BARS, _MOST_SERIES = 24, 3
_MOST_SAID: Final = 30
_BAR, _BETWEEN = 15.0, 9.0
_AWAY: Final = 7.0
# Room for the number behind a bar, in lengths of the axis.
_ROOM: Final = 0.2
_CUT: Final = " The axis does not begin at zero."
_LOGARITHMIC: Final = " The axis is logarithmic."

Points = Mapping[str, Floats]


def bars_chart(
    names: Sequence[str],
    series: Mapping[str, ArrayLike],
    title: str,
    caption: str,
    unit: str = "",
    heading: str = "name",
) -> Chart:
    """Values of each name, (k,) for each series, in the order that is given.

    `unit` is written beside the numbers; `heading` says in the table what the names are.
    """
    values = {name: np.asarray(found, float) for name, found in series.items()}
    points = {name: found[:MOST_NAMES] for name, found in values.items()}
    bars = _are_bars(points)
    scale = _scale(points, unit, bars=bars)
    table = Table.of(heading, names, values, lambda value: with_unit(number(value), unit))
    row_texts = texts_of(table)[:MOST_NAMES]
    svg, pointed_at = _drawn(points, names[:MOST_NAMES], title, unit, scale, row_texts, bars=bars)
    how = caption + left_out_note(len(names)) + _about_axis(points, scale)
    keys = list(style_numbers(points).items()) if len(points) > 1 else []
    return Chart(title, how, svg, table, keys, pointed_at)


def _drawn(
    points: Points,
    names: Sequence[str],
    title: str,
    unit: str,
    scale: Scale,
    row_texts: Sequence[str],
    *,
    bars: bool,
) -> Drawing:
    label = "" if has_room(unit) else unit
    texts = [] if bars else _texts_beside(points)
    row = _BETWEEN + _BAR * len(points) if bars else ROW

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = named_axes(figure, names, scale, label=label, beside=texts)
        name_axes(axes, label)
        (_paint_bars if bars else paint_dumbbells)(axes, points, style_numbers(points), scale)
        return row_values(axes, row_texts)

    return drawn(height_of(len(names), row=row, label=label), title, points.values(), paint)


def _together(points: Points) -> Floats:
    return np.concatenate([np.empty(0), *points.values()])


def _are_bars(points: Points) -> bool:
    known = drawable(points.values())
    if not len(known) or len(points) > _MOST_SERIES or len(known) > _MOST_BARS:
        return False
    if known.min() <= 0:
        return True
    return bool(known.min() < _ALIKE * known.max() and known.max() < _FAR_APART * known.min())


def _scale(points: Points, unit: str, *, bars: bool) -> Scale:
    known = drawable(points.values())
    if bars:
        return linear_scale([known], include=(0.0,), end_on=(0.0,), room=_ROOM, form=in_unit(unit))
    if len(known) and known.min() > 0 and known.max() >= _FAR_APART * known.min():
        return log_scale([known], form=lambda tick: in_unit(unit)([tick])[0])
    return linear_scale([known], form=in_unit(unit))


def _about_axis(points: Points, scale: Scale) -> str:
    edge = edge_note(scale, points.values())
    if scale.logarithmic:
        return _LOGARITHMIC + edge
    return (_CUT if scale.low > 0 or scale.high < 0 else "") + edge


def _texts_beside(points: Points) -> list[str]:
    """The numbers of a single series, for which there is room beside the marks."""
    together = _together(points)
    if len(points) != 1 or len(together) > _MOST_SAID:
        return []
    return alike(together.tolist(), digits=4)


def _paint_bars(axes: "Axes", points: Points, numbers: Mapping[str, int], scale: Scale) -> None:
    parts = iter(alike(_together(points).tolist(), digits=3))
    texts = {name: list(islice(parts, len(values))) for name, values in points.items()}
    thick = _BAR / (_BETWEEN + _BAR * len(points))
    for place, (name, values) in enumerate(points.items()):
        style = series_style(numbers[name])
        rows = np.arange(len(values), dtype=float) + (place - (len(points) - 1) / 2) * thick
        shown = np.where(scale.inside(values), values, np.nan)
        colour = series_colour(style.colour)
        axes.barh(rows, np.nan_to_num(shown), 0.8 * thick, color=colour, clip_on=False)
        if len(points) > 1:
            axes.plot(shown, rows, linestyle="none", zorder=3, **look(style))
        paint_side_edges(axes, style, values, rows, scale)
        _say(axes, shown, rows, texts[name])
    reference_line(axes, 0.0, horizontal=False)


def _say(axes: "Axes", values: Floats, rows: Floats, texts: Sequence[str]) -> None:
    for value, row, text in zip(values.tolist(), rows.tolist(), texts, strict=True):
        side, align = (-_AWAY, "right") if value < 0 else (_AWAY, "left")
        axes.annotate(
            text, (0.0 if math.isnan(value) else value, row), (side, 0),
            textcoords="offset points", ha=align, va="center_baseline", fontsize=TEXT, color=INK,
        )  # fmt: skip


_ROW: Final = 44.0
_TOP, _BOTTOM, _LABEL, _SIDE = 4.0, 28.0, 18.0, 14.0
# Of a line that holds the name and the numbers.
_CELLS, _SHORTEST = 54, 8
# Intervals outside of these are written with an exponent.
_FINEST, _WIDEST, _DIGITS = 1e-7, 1e9, 3
# Of a row, with its words, over its interval.
_ABOVE: Final = 0.7
_STYLE: Final = series_style(1)


def ends_of(found: Iterable[Any]) -> Floats:
    """`value`, `lower` and `upper` of k findings, (3, k), as `differences_chart` takes them."""
    return np.array([(each.value, each.lower, each.upper) for each in found]).reshape(-1, 3).T


def differences_chart(
    names: Sequence[str],
    ends: ArrayLike,
    title: str,
    caption: str,
    unit: str = "",
    heading: str = "name",
) -> Chart:
    """The difference of each name and the two ends of the interval around it, (3, k).

    A mark is filled when the interval leaves zero out. `unit` is written beside the numbers;
    `heading` says in the table what the names are.
    """
    ends = np.asarray(ends, float).reshape(3, len(names))
    named = dict(zip(("difference", "from", "to"), ends, strict=True))
    table = Table.of(heading, names, named, lambda value: with_unit(number(value), unit))
    row_texts = texts_of(table)[:MOST_NAMES]
    svg, pointed_at = _drawn_differences(
        names[:MOST_NAMES], ends[:, :MOST_NAMES], title, unit, row_texts
    )
    how = caption + left_out_note(len(names)) + edge_note(_scale_differences(ends, unit), [ends[0]])
    return Chart(title, how, svg, table, values=pointed_at)


def _scale_differences(ends: Floats, unit: str) -> Scale:
    return linear_scale([ends], include=(0.0,), form=in_unit(unit))


def _drawn_differences(
    names: Sequence[str], ends: Floats, title: str, unit: str, row_texts: Sequence[str]
) -> Drawing:
    label = "" if has_room(unit) else unit
    bottom = _BOTTOM + (_LABEL if label else 0.0)
    scale = _scale_differences(ends, unit)
    side = max(_SIDE, *(width(text, TEXT) / 2 for text in scale.labels))

    def paint(figure: "Figure") -> Sequence[Value]:
        axes = new_axes(figure, side, _TOP, side, bottom)
        _frame(axes, scale, len(names))
        name_axes(axes, label)
        _paint(axes, ends, scale)
        for row, name in enumerate(names):
            _say_differences(axes, row, name, _interval_text(ends[:, row], unit))
        return row_values(axes, row_texts, above=_ABOVE)

    return drawn(_TOP + bottom + max(len(names), 1) * _ROW, title, ends[:1], paint)


def _frame(axes: "Axes", scale: Scale, rows: int) -> None:
    set_x(axes, scale)
    axes.set_ylim(rows - 0.3, -_ABOVE)
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


def _say_differences(axes: "Axes", row: int, name: str, texts: str) -> None:
    named = shortened(name, max(_SHORTEST, _CELLS - cells(texts)))
    sides = ((0.0, named, "left", INK), (1.0, texts, "right", MUTED))
    for x, text, align, colour in sides:
        axes.text(
            x, row - 0.25, text, color=colour, ha=align, va="bottom", fontsize=TEXT,
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip


def _interval_text(ends: Floats, unit: str) -> str:
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
    return [shown(round(value, decimals) + 0.0, f",.{decimals}f") for value in ends.tolist()]
