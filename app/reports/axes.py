"""Axes of numbers, hours and names, and what is painted over them: lines, bands and marks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.reports.drawing import (
    CARD,
    FAINT,
    GRID,
    INK,
    MUTED,
    POINTS,
    TEXT,
    WIDTH,
    SeriesStyle,
    Value,
    new_axes,
    series_colour,
    series_style,
)
from app.reports.scale import Scale, width
from app.results.formatting import shortened
from calibrators.samples import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from app.reports.page import Table

MARK: Final = 6.5
LINE: Final = 1.8
EDGE_NOTE: Final = (
    " A hollow triangle at the edge is a value with no place on the axis, such as zero or infinity;"
    " the table has it."
)
_MOST_MARKS: Final = 24
_PAD: Final = 9.0
_LEAST_RIGHT: Final = 14.0
_LONGEST_LABEL: Final = 50


def set_x(axes: "Axes", scale: Scale) -> None:
    """Give the horizontal axis this scale."""
    axes.set_xscale("log" if scale.logarithmic else "linear")
    axes.set_xlim(scale.low, scale.high)
    every = _every_that_fits(axes, scale.labels)
    _set_ticks(axes.xaxis, scale.ticks[::every], scale.labels[::every])


def set_y(axes: "Axes", scale: Scale) -> None:
    """Give the vertical axis this scale."""
    axes.set_yscale("log" if scale.logarithmic else "linear")
    axes.set_ylim(scale.low, scale.high)
    _set_ticks(axes.yaxis, scale.ticks, scale.labels)


def _set_ticks(axis: Any, ticks: Sequence[float], labels: Sequence[str]) -> None:
    axis.set_ticks([], minor=True)
    axis.set_ticks(ticks, labels)


def _every_that_fits(axes: "Axes", labels: Sequence[str]) -> int:
    """Every how many labels there is room for, side by side."""
    widest = max((width(label, TEXT) for label in labels), default=0.0) + _PAD
    return max(1, math.ceil(len(labels) * widest / (axes.get_position().width * WIDTH + widest)))


def left_margin(labels: Sequence[str]) -> float:
    """The room that the labels of a vertical axis need."""
    return max((width(label, TEXT) for label in labels), default=0.0) + _PAD


def right_margin(labels: Sequence[str]) -> float:
    """The room behind a horizontal axis, over which half of its last label stands."""
    return max(_LEAST_RIGHT, width(labels[-1], TEXT) / 2 if labels else 0.0)


def name_axes(axes: "Axes", x_label: str, y_label: str = "") -> None:
    """Name the axes; the vertical one above it, where no one must turn the head to read."""
    axes.set_xlabel(shortened(x_label, _LONGEST_LABEL), color=MUTED, fontsize=TEXT, labelpad=5)
    said = shortened(y_label, _LONGEST_LABEL)
    axes.figure.text(0.0, 0.995, said, color=MUTED, fontsize=TEXT, ha="left", va="top")


def reference_line(axes: "Axes", at: float, *, horizontal: bool) -> None:
    """The line on which a value is right."""
    draw = axes.axhline if horizontal else axes.axvline
    draw(at, color=MUTED, linewidth=1.2, zorder=1.5, clip_on=False)


def look(style: SeriesStyle) -> dict[str, Any]:
    """How matplotlib draws the marks of a series."""
    return {
        "color": series_colour(style.colour),
        "marker": style.marker,
        "markersize": MARK,
        "markeredgecolor": CARD,
        "markeredgewidth": 0.8,
        "clip_on": False,
    }


def paint_line(axes: "Axes", style: SeriesStyle, x: Floats, y: Floats, scale: Scale) -> None:
    """A line over `x`; what is undefined or off the vertical axis is a gap in it."""
    shown = np.where(scale.inside(y), y, np.nan)
    axes.plot(
        x, shown, linewidth=LINE, dashes=style.dashes or (None, None),
        markevery=_marked(shown), zorder=3, **look(style),
    )  # fmt: skip
    paint_edges(axes, style, x, y, scale)


def _marked(y: Floats) -> list[int]:
    """A mark now and then, and on each point that no line would show."""
    known = np.isfinite(y)
    before, after = np.r_[False, known[:-1]], np.r_[known[1:], False]
    every = max(1, len(y) // _MOST_MARKS)
    regular = (np.arange(len(y)) % every == 0) | (~before & ~after)
    return [int(place) for place in np.flatnonzero(known & regular)]


def paint_band(
    axes: "Axes", style: SeriesStyle, x: Floats, low: Floats, high: Floats, scale: Scale
) -> None:
    """The area between two lines, as far as the vertical axis goes."""
    ends = [np.clip(end, scale.low, scale.high) for end in (low, high)]
    colour = series_colour(style.colour)
    axes.fill_between(x, ends[0], ends[1], color=colour, alpha=0.16, linewidth=0)


def paint_dumbbells(
    axes: "Axes", points: Mapping[str, Floats], numbers: Mapping[str, int], scale: Scale
) -> None:
    """The values of each row on one line, joined."""
    known = [np.where(scale.inside(x), x, np.nan) for x in points.values()]
    rows = np.arange(len(known[0]), dtype=float)
    held = np.isfinite(known).any(axis=0)
    joined = np.array(known)[:, held]
    axes.hlines(rows, scale.low, scale.high, color=GRID, linewidth=1, zorder=1)
    axes.hlines(
        rows[held], np.nanmin(joined, axis=0), np.nanmax(joined, axis=0), color=FAINT,
        linewidth=2, zorder=2,
    )  # fmt: skip
    for (name, values), inside in zip(points.items(), known, strict=True):
        style = series_style(numbers[name])
        axes.plot(inside, rows, linestyle="none", zorder=3, **look(style))
        paint_side_edges(axes, style, values, rows, scale)


def paint_edges(axes: "Axes", style: SeriesStyle, x: Floats, y: Floats, scale: Scale) -> None:
    """Hollow triangles where values lie beyond the vertical axis."""
    for beyond, edge, marker in _sides(y, scale, "v^"):
        axes.plot(x[beyond], np.full(int(beyond.sum()), edge), **_hollow(style, marker))


def paint_side_edges(axes: "Axes", style: SeriesStyle, x: Floats, y: Floats, scale: Scale) -> None:
    """Hollow triangles where values lie beyond the horizontal axis."""
    for beyond, edge, marker in _sides(x, scale, "<>"):
        axes.plot(np.full(int(beyond.sum()), edge), y[beyond], **_hollow(style, marker))


def _sides(values: Floats, scale: Scale, markers: str) -> list[tuple[Any, float, str]]:
    sides = ((scale.below(values), scale.low), (scale.above(values), scale.high))
    return [
        (beyond, edge, marker)
        for (beyond, edge), marker in zip(sides, markers, strict=True)
        if beyond.any()
    ]


def _hollow(style: SeriesStyle, marker: str) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": MARK,
        "markerfacecolor": CARD,
        "markeredgecolor": series_colour(style.colour),
        "markeredgewidth": 1.4,
        "clip_on": False,
        "zorder": 4,
    }


def edge_note(scale: Scale, values: Iterable[Floats]) -> str:
    """What a caption says when marks stand at the edge of a drawing."""
    drawn = np.concatenate([np.empty(0), *(np.ravel(found) for found in values)])
    beyond = scale.below(drawn) | scale.above(drawn)
    return EDGE_NOTE if np.isfinite(drawn).any() and beyond.any() else ""


# A page with more of them opens slowly.
_MOST_VALUES: Final = 500
_POINT: Final = 12.0


def texts_of(table: "Table") -> list[str]:
    """Each row of a table as one line."""
    return [
        f"{name}: " + ", ".join(map(" ".join, zip(table.columns[1:], cells, strict=True)))
        for name, *cells in table.rows
    ]


def column_values(axes: "Axes", x: Floats, texts: Sequence[str]) -> list[Value]:
    """One for each place on the horizontal axis, (n,) ascending, as high as the axes."""
    if len(x) > _MOST_VALUES:
        return []
    box = axes.get_position()
    at = _on_the_page(axes, x, np.full(len(x), float(axes.get_ylim()[0])))[:, 0]
    edges = np.concatenate(([100 * box.x0], (at[1:] + at[:-1]) / 2, [100 * box.x1]))
    top, height = 100 * (1 - box.y1), 100 * box.height
    return [
        Value(left, top, right - left, height, text)
        for left, right, text in zip(edges[:-1].tolist(), edges[1:].tolist(), texts, strict=True)
    ]


def row_values(axes: "Axes", texts: Sequence[str], above: float = 0.5) -> list[Value]:
    """One for each row of a vertical axis of names, from `above` over its place on, all across."""
    edges: Floats = np.arange(len(texts) + 1.0) - above
    tops = _on_the_page(axes, np.full(len(edges), float(axes.get_xlim()[0])), edges)[:, 1].tolist()
    return [
        Value(0.0, top, 100.0, bottom - top, text)
        for top, bottom, text in zip(tops[:-1], tops[1:], texts, strict=True)
    ]


def point_values(axes: "Axes", x: Floats, y: Floats, texts: Sequence[str]) -> list[Value]:
    """One around each point, (n,); what lies beyond the vertical axis is at its end."""
    figure: Any = axes.figure
    wide, high = (100 * _POINT / (size * POINTS) for size in figure.get_size_inches())
    places = _on_the_page(axes, x, np.clip(np.nan_to_num(y), *axes.get_ylim())).tolist()
    return [
        Value(left - wide / 2, top - high / 2, wide, high, text)
        for (left, top), text in zip(places, texts, strict=True)
    ]


def _on_the_page(axes: "Axes", x: Floats, y: Floats) -> Floats:
    """Points in percent of the figure, (n, 2), from the left and from the top."""
    pixels = axes.transData.transform(np.column_stack((x, y)))
    shares: Floats = np.asarray(axes.figure.transFigure.inverted().transform(pixels))
    return np.array([0.0, 100.0]) + shares * (100.0, -100.0)


Hours = NDArray[np.int64]

_HOUR: Final = 3600
_DAY: Final = 24
_STEPS: Final = (1, 2, 3, 6, 12, 24, 48, 72, 168, 336, 720, 1440, 2160, 4380, 8760)
_MOST_TICKS: Final = 6


def with_gaps(hours: Hours) -> Hours:
    """The hours in order, and one more wherever some are missing, since no line may cross that."""
    ordered = np.unique(hours)
    steps = np.diff(ordered)
    usual = int(steps.min(initial=_HOUR))
    return np.sort(np.concatenate([ordered, ordered[:-1][steps > usual] + usual]))


def placed(values: ArrayLike, hours: Hours, places: Hours) -> Floats:
    """The values of `hours` at `places`; undefined at the places in a gap."""
    found = np.full(len(places), np.nan)
    found[np.searchsorted(places, hours)] = np.asarray(values, float)
    return found


def set_hours(axes: "Axes", hours: Hours) -> None:
    """Give the horizontal axis these hours since the epoch."""
    first, last = int(hours.min()), int(hours.max())
    step = next((s for s in _STEPS if (last - first) / s < _MOST_TICKS), _STEPS[-1])
    ticks = range(-(-first // step) * step, last + 1, step)
    room = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - room, last + room)
    moments = [moment(hour) for hour in ticks]
    labels = [
        f"{at.day} {at:%b}" if step >= _DAY or at.hour == 0 else f"{at:%H:%M}" for at in moments
    ]
    axes.set_xticks(ticks, labels)


def span(hours: Hours) -> str:
    """From when to when, for the name of the axis."""
    return f"{hour_text(int(hours.min()))} to {hour_text(int(hours.max()))} UTC"


def hour_text(hour: int) -> str:
    """An hour since the epoch as people write it."""
    return f"{moment(hour):%Y-%m-%d %H:%M}"


def moment(hour: int) -> datetime:
    """When an hour since the epoch begins."""
    return datetime.fromtimestamp(hour * _HOUR, UTC)


MOST_NAMES: Final = 60
ROW: Final = 21.0
_LONGEST: Final = 18
_FEWEST_ROWS: Final = 2
_TOP, _LABEL, _TICKS, _SIDE = 8.0, 20.0, 26.0, 16.0
# Room for a mark at the edge.
_EDGE: Final = 4.0


def height_of(rows: int, *, row: float = ROW, label: str = "") -> float:
    """The height of a figure of so many rows over an axis named `label`."""
    return _TOP + max(rows, _FEWEST_ROWS) * row + _TICKS + (_LABEL if label else 0.0)


def named_axes(
    figure: "Figure",
    names: Sequence[str],
    scale: Scale,
    *,
    label: str = "",
    beside: Sequence[str] = (),
) -> "Axes":
    """Axes with the names down the left side, values across, and `beside` at the right."""
    labels = [shortened(name, _LONGEST) for name in names]
    reach = max((width(text, TEXT) + _SIDE for text in beside), default=0.0)
    right = max(reach, right_margin(scale.labels))
    axes = new_axes(
        figure, left_margin(labels) + _EDGE, _TOP, right, _TICKS + (_LABEL if label else 0.0)
    )
    set_x(axes, scale)
    axes.set_ylim(max(len(names), _FEWEST_ROWS) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels)
    axes.grid(visible=False, axis="y")
    for row, text in enumerate(beside):
        axes.annotate(
            text, (1.0, row), (reach, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", ha="right", va="center_baseline", color=INK, fontsize=TEXT,
        )  # fmt: skip
    return axes


def left_out_note(count: int) -> str:
    """What a caption says when there are more names than a drawing has room for."""
    if count <= MOST_NAMES:
        return ""
    return f" The first {MOST_NAMES} of {count:,} are drawn; the table has all."
