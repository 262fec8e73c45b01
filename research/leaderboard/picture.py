"""The picture of the leaderboard: how far from the truth each method stays, regime by regime."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import numpy as np

from app.reports.drawing import POINTS, RESERVED, drawn
from app.reports.scale import number, width
from app.results.formatting import clean, shortened
from research.leaderboard.result_file import EXCESS, GC_3_TRUE, Interval, Leaderboard, TrafficResult
from research.leaderboard.targets import (
    DEFAULT_METHOD,
    IDENTITY,
    PUBLISHED,
    geometric_means,
    ratio_to_published,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_VARIABLES: Final = re.compile(r"(?<=:root )\{[^}]*\}")
_VARIABLE: Final = re.compile(r"--([\w-]+): (#\w+);")


@dataclass(frozen=True, slots=True)
class Dot:
    """A polygon around a place, a circle where it has no `corners`; `fill` and `edge` are names of
    colours of the reports' style sheet."""

    x: float
    y: float
    radius: float
    fill: str
    edge: str = "card"
    edge_width: float = 1.0
    corners: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Stroke:
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: str
    width: float = 1.0
    dashes: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `x`, `y` is where its base line begins, ends or has its middle."""

    x: float
    y: float
    text: str
    size: float
    colour: str = "ink"
    align: str = "left"
    bold: bool = False


Mark = Dot | Stroke | Text

SQUARE: Final = ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9))
DIAMOND: Final = ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0))
TRIANGLE: Final = ((0.0, -1.2), (1.15, 0.9), (-1.15, 0.9))
LEFTWARD: Final = ((-1.2, 0.0), (0.9, -1.1), (0.9, 1.1))
RIGHTWARD: Final = ((1.2, 0.0), (-0.9, 1.1), (-0.9, -1.1))


@dataclass(frozen=True, slots=True)
class Drawing:
    """Marks on a card of this size; the later ones cover the earlier."""

    width: float
    height: float
    title: str
    marks: Sequence[Mark]

    def svg(self) -> str:
        """A file of its own, which takes the colours of the page that shows it."""
        opening, _, body = self.inline().partition(">")
        size = f' width="{self.width:g}" height="{self.height:g}" font-family="{FONT}"'
        return (
            f"{opening}{size}>\n<style>{_style()}</style>\n"
            f'<rect x=".5" y=".5" width="{self.width - 1:g}" height="{self.height - 1:g}" rx="6"'
            f' fill="var(--card)" stroke="var(--edge)"/>\n{body}\n'
        )

    def inline(self) -> str:
        """For a page of the reports, which has the colours and the card."""
        marks = [np.arange(len(self.marks), dtype=float)]

        def paint(figure: "Figure") -> tuple[()]:
            self._paint(figure, RESERVED)
            return ()

        return drawn(self.height, self.title, marks, paint, self.width)[0]

    def figure(self) -> "Figure":
        """The same for a file of pixels, in light colours."""
        from matplotlib.figure import Figure

        colours = dict(_VARIABLE.findall(_sheets()[0]))
        size = (self.width / POINTS, self.height / POINTS)
        figure = Figure(figsize=size, facecolor=colours["card"])
        self._paint(figure, colours)
        return figure

    def _paint(self, figure: "Figure", colours: Mapping[str, str]) -> None:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for mark in self.marks:
            _paint(axes, mark, colours)


def _sheets() -> list[str]:
    """The colours of light and of dark pages."""
    sheet = files("app.reports").joinpath("style.css").read_text(encoding="utf-8")
    return _VARIABLES.findall(sheet)[:2]


def _style() -> str:
    light, dark = _sheets()
    rules = f":root {light} @media (prefers-color-scheme: dark) {{ :root {dark} }}"
    return " ".join(rules.split())


def _corners(dot: Dot) -> list[tuple[float, float]]:
    return [(dot.x + dot.radius * x, dot.y + dot.radius * y) for x, y in dot.corners]


def _paint(axes: "Axes", mark: Mark, colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon

    if isinstance(mark, Text):
        axes.text(
            mark.x, mark.y, clean(mark.text), fontsize=mark.size, ha=mark.align,
            va="baseline", color=colours[mark.colour], parse_math=False,
            fontweight="bold" if mark.bold else "normal",
        )  # fmt: skip
    elif isinstance(mark, Stroke):
        axes.add_line(
            Line2D(
                (mark.x, mark.to_x), (mark.y, mark.to_y), color=colours[mark.colour],
                linewidth=mark.width, dashes=tuple(mark.dashes) or (None, None),
            )
        )  # fmt: skip
    else:
        outline = Polygon(_corners(mark)) if mark.corners else Circle((mark.x, mark.y), mark.radius)
        outline.set(
            facecolor=colours[mark.fill], edgecolor=colours[mark.edge], linewidth=mark.edge_width,
            zorder=3,
        )  # fmt: skip
        axes.add_patch(outline)


_TICKS: Final = (1, 2, 5, 10, 25, 50, 100, 200, 500, 1_000)
_LEAST, _MOST = 4.0, 1_000.0
_TARGETS: Final = {EXCESS: 25.0, GC_3_TRUE: 45.0}
_TITLE: Final = "Excess log loss: how far calibrated probabilities stay from the truth"
_AXIS: Final = 62.0
_TICK_SPACING: Final = 46.0
_BESIDE: Final = 18.0
_MEAN: Final = "geometric mean, where scores err"
_LAST: Final = "all regimes"


@dataclass(frozen=True, slots=True)
class _Frame:
    """The measures of a picture: `left` and `right` of the axis, the first row's top; `whole` for
    one that stands by itself, with a title, and text beside each row."""

    width: float
    edge: float
    left: float
    right: float
    row: float
    text: float
    whole: bool


_ALONE: Final = _Frame(860.0, 24.0, 272.0, 112.0, 44.0, 13.0, whole=True)
_IN_PAGE: Final = _Frame(440.0, 6.0, 104.0, 62.0, 27.0, 12.5, whole=False)


@dataclass(frozen=True, slots=True)
class _Look:
    """How the dots of a kind of method look, and what the key says of it."""

    label: str
    fill: str
    radius: float
    corners: Sequence[tuple[float, float]] = ()
    edge: str = "card"
    edge_width: float = 1.0


_OTHERS: Final = _Look("other maps per campaign", "muted", 4.2)
_LOOKS: Final = {
    DEFAULT_METHOD: _Look("pooled, the default", "series-2", 8.5, edge_width=1.6),
    PUBLISHED: _Look("SIR as published", "series-1", 5.6, DIAMOND),
    "lightgbm": _Look("LightGBM", "series-3", 5.8, TRIANGLE),
    "mcgrad": _Look("MCGrad", "series-5", 5.4, SQUARE),
    IDENTITY: _Look("scores as they are", "card", 4.6, edge="muted", edge_width=1.8),
}
_ORDER: Final = ("", IDENTITY, PUBLISHED, "mcgrad", "lightgbm", DEFAULT_METHOD)


def leaderboard_picture(result: Leaderboard) -> Drawing:
    """Rows are regimes whose truth is known, dots methods, in percent of SIR as published."""
    return _picture(result, EXCESS, _ALONE, _TITLE)


def leaderboard_chart(result: Leaderboard, metric: str, title: str) -> Drawing:
    """The same as a chart of a page, of the excess log loss or of GC-3*."""
    return _picture(result, metric, _IN_PAGE, title)


def _picture(result: Leaderboard, metric: str, frame: _Frame, title: str) -> Drawing:
    known = [found for found in result.traffic if _has_ratio(found, metric)]
    rows = [_Row.of(found, metric) for found in known]
    if len(rows) > 1:
        rows.append(_Row.over_all(result, metric))
    axis = _Axis.of(rows, frame, metric)
    ran = {name for row in rows for name in row.percents}
    keys, top = _keys(ran, frame)
    top += 24.0 if frame.whole else 12.0
    marks: list[Mark] = [*(_head(known, frame) if frame.whole else ()), *keys]
    marks += _grid(axis, top, len(rows))
    for place, row in enumerate(rows):
        marks += _row(row, axis, top + frame.row * (place + 0.5))
    return Drawing(frame.width, top + frame.row * len(rows) + _AXIS, title, marks)


def _has_ratio(found: TrafficResult, metric: str) -> bool:
    return found.truth_known and found.value(PUBLISHED, metric) > 0.0


@dataclass(frozen=True, slots=True)
class _Row:
    """A name, what it is, and each method's metric in percent of that of SIR as published."""

    name: str
    about: str
    percents: dict[str, float]

    @classmethod
    def of(cls, found: TrafficResult, metric: str) -> "_Row":
        percents = {name: 100 * ratio_to_published(found, name, metric) for name in found.rows}
        known = {name: value for name, value in percents.items() if not math.isnan(value)}
        return cls(found.name, found.about.partition(":")[0], known)

    @classmethod
    def over_all(cls, result: Leaderboard, metric: str) -> "_Row":
        means: dict[str, Interval] = geometric_means(result, metric)
        percents = {name: 100 * ends.value for name, ends in means.items()}
        return cls(_LAST, _MEAN, percents)


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis of percents, and the percents that are the target."""

    low: float
    high: float
    target: float
    frame: _Frame

    @classmethod
    def of(cls, rows: Sequence[_Row], frame: _Frame, metric: str) -> "_Axis":
        target = _TARGETS[metric]
        drawn = [value for row in rows for value in row.percents.values() if value > 0.0]
        low = min([target / 1.5, *drawn]) / 1.25
        high = min(max([150.0, *drawn]) * 1.2, _MOST)
        return cls(max(low, _LEAST), high, target, frame)

    def position(self, percent: float) -> float:
        """Where a value stands."""
        share = math.log(percent / self.low) / math.log(self.high / self.low)
        return self.frame.left + share * (self.frame.width - self.frame.right - self.frame.left)


def _head(known: Sequence[TrafficResult], frame: _Frame) -> Iterator[Mark]:
    seeds = max((len(found.seeds) for found in known), default=0)
    mean = f"; mean of {seeds} seeds" if seeds > 1 else ""
    subtitle = f"In % of SIR as published, logarithmic{mean}. Left is better, 0 % is the truth."
    yield Text(frame.edge, 36, _TITLE, 19, bold=True)
    yield Text(frame.edge, 58, subtitle, 13, "muted")


def _keys(ran: set[str], frame: _Frame) -> tuple[list[Mark], float]:
    """What the dots are, and the base line of the last of it."""
    marks: list[Mark] = []
    x, y = frame.edge + 6, 86.0 if frame.whole else 16.0
    for kind in reversed(_ORDER):
        if any(_kind(name) == kind for name in ran):
            look = _LOOKS.get(kind, _OTHERS)
            wide = 34 + width(look.label, 0.9 * frame.text)
            if x > frame.edge + 6 and x + wide > frame.width:
                x, y = frame.edge + 6, y + 20
            marks.append(_dot(look, x, y - 4.5))
            marks.append(Text(x + 13, y, look.label, frame.text, bold=kind == DEFAULT_METHOD))
            x += wide
    return marks, y


def _kind(name: str) -> str:
    """The look of a method is its own, or that of all others."""
    return name if name in _LOOKS else ""


def _grid(axis: _Axis, top: float, rows: int) -> Iterator[Mark]:
    bottom = top + axis.frame.row * rows + 4
    for tick in _ticks(axis):
        x = axis.position(tick)
        yield Stroke(x, top - 4, x, bottom, "grid")
        yield Text(x, bottom + 18, f"{tick:,} %", 12.5, "muted", "center")
    for percent, label, dashes in ((axis.target, "target", (4, 3)), (100.0, "SIR", ())):
        x = axis.position(percent)
        yield Stroke(x, top - 4, x, bottom, "faint", 1.4, dashes)
        yield Text(x, bottom + 35, label, 12.5, "muted", "center")


def _ticks(axis: _Axis) -> list[int]:
    """Those that have room beside each other; that of SIR comes first."""
    ticks: list[int] = []
    for tick in sorted(_TICKS, key=lambda tick: (tick != 100, -tick)):
        x = axis.position(tick)
        if axis.low <= tick <= axis.high and all(
            abs(x - axis.position(t)) > _TICK_SPACING for t in ticks
        ):
            ticks.append(tick)
    return ticks


def _row(row: _Row, axis: _Axis, y: float) -> Iterator[Mark]:
    frame = axis.frame
    if row.name == _LAST:
        top = y - frame.row / 2
        yield Stroke(frame.edge, top, frame.width - frame.edge, top, "faint", 1.0)
    if frame.whole:
        yield Text(frame.edge, y - 2, shortened(row.name, 24), 14.5, bold=True)
        yield Text(frame.edge, y + 15, shortened(row.about, 34), 12, "muted")
    else:
        yield Text(frame.edge, y + 4, shortened(row.name, 13), frame.text)
    yield from _dots(row, axis, y)
    if DEFAULT_METHOD in row.percents:
        label, size = f"{number(row.percents[DEFAULT_METHOD], 2)} %", 18.0 if frame.whole else 13.0
        x = frame.width - frame.edge
        yield Text(x, y + size / 3, label, size, "series-2", "right", bold=True)


def _dots(row: _Row, axis: _Axis, y: float) -> Iterator[Mark]:
    inside = [v for v in row.percents.values() if axis.low <= v <= axis.high]
    if inside:
        ends = axis.position(min(inside)), axis.position(max(inside))
        yield Stroke(ends[0], y, ends[1], y, "faint", 2.0)
    for kind in _ORDER:
        for name, percent in row.percents.items():
            if _kind(name) == kind:
                beyond = sum(percent < other < axis.low for other in row.percents.values())
                yield _placed(_LOOKS.get(kind, _OTHERS), axis, percent, y, beyond)


def _placed(look: _Look, axis: _Axis, percent: float, y: float, beyond: int) -> Mark:
    """A dot, or a triangle at the edge for what lies beyond the axis, behind `beyond` others."""
    if percent < axis.low:
        return _dot(look, axis.frame.left - 16 - _BESIDE * beyond, y, LEFTWARD)
    if percent > axis.high:
        return _dot(look, axis.frame.width - axis.frame.right + 8, y, RIGHTWARD)
    return _dot(look, axis.position(percent), y)


def _dot(
    look: _Look, x: float, y: float, corners: Sequence[tuple[float, float]] | None = None
) -> Dot:
    outline = look.corners if corners is None else corners
    return Dot(x, y, look.radius, look.fill, look.edge, look.edge_width, outline)
