"""What all charts are painted with: axes, lines with gaps, marks and marks at the edge."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.reports.drawing import TEXT, WIDTH
from app.reports.labels import shortened, width
from app.reports.palette import CARD, FAINT, GRID, MUTED, series_colour
from app.reports.scale import Floats, Scale
from app.reports.series_style import SeriesStyle, series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
