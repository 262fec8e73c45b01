"""Pictures put together from plain marks, as SVG for light and dark pages or for matplotlib."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from app.reports.labels import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_VARIABLES: Final = re.compile(r"(?<=:root )\{[^}]*\}")
_VARIABLE: Final = re.compile(r"--([\w-]+): (#\w+);")
_POINTS: Final = 72.0
_ANCHORS: Final = {"left": "start", "right": "end", "center": "middle"}


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
class Words:
    """A line of text; `x`, `y` is where its base line begins, ends or has its middle."""

    x: float
    y: float
    text: str
    size: float
    colour: str = "ink"
    align: str = "left"
    bold: bool = False


Mark = Dot | Stroke | Words

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
        body = "\n".join(map(_markup, self.marks))
        name = escape(clean(self.title), quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g}'
            f' {self.height:g}" width="{self.width:g}" height="{self.height:g}" role="img"'
            f' aria-label="{name}" font-family="{FONT}">\n<style>{_style()}</style>\n'
            f'<rect x=".5" y=".5" width="{self.width - 1:g}" height="{self.height - 1:g}" rx="6"'
            f' fill="var(--card)" stroke="var(--edge)"/>\n{body}\n</svg>\n'
        )

    def inline(self) -> str:
        """For a page of the reports, which has the colours and the card."""
        name = escape(clean(self.title), quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g}'
            f' {self.height:g}" role="img" aria-label="{name}">{"".join(map(_markup, self.marks))}'
            "</svg>"
        )

    def figure(self) -> "Figure":
        """The same for matplotlib, in light colours."""
        from matplotlib.figure import Figure

        colours = dict(_VARIABLE.findall(_sheets()[0]))
        size = (self.width / _POINTS, self.height / _POINTS)
        figure = Figure(figsize=size, facecolor=colours["card"])
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for mark in self.marks:
            _paint(axes, mark, colours)
        return figure


def _sheets() -> list[str]:
    """The colours of light and of dark pages."""
    sheet = files("app.reports").joinpath("style.css").read_text(encoding="utf-8")
    return _VARIABLES.findall(sheet)[:2]


def _style() -> str:
    light, dark = _sheets()
    rules = f":root {light} @media (prefers-color-scheme: dark) {{ :root {dark} }}"
    return " ".join(rules.split())


def _markup(mark: Mark) -> str:
    if isinstance(mark, Words):
        weight = ' font-weight="600"' if mark.bold else ""
        return (
            f'<text x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"{weight}'
            f' text-anchor="{_ANCHORS[mark.align]}" fill="var(--{mark.colour})">'
            f"{escape(clean(mark.text))}</text>"
        )
    if isinstance(mark, Stroke):
        dashes = f' stroke-dasharray="{" ".join(map(str, mark.dashes))}"' if mark.dashes else ""
        return (
            f'<path d="M{mark.x:.1f} {mark.y:.1f}L{mark.to_x:.1f} {mark.to_y:.1f}" fill="none"'
            f' stroke="var(--{mark.colour})" stroke-width="{mark.width:g}"{dashes}/>'
        )
    look = (
        f'fill="var(--{mark.fill})" stroke="var(--{mark.edge})" stroke-width="{mark.edge_width:g}"'
    )
    if not mark.corners:
        return f'<circle cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="{mark.radius:g}" {look}/>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _corners(mark))
    return f'<polygon points="{points}" stroke-linejoin="round" {look}/>'


def _corners(dot: Dot) -> list[tuple[float, float]]:
    return [(dot.x + dot.radius * x, dot.y + dot.radius * y) for x, y in dot.corners]


def _paint(axes: "Axes", mark: Mark, colours: dict[str, str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon

    if isinstance(mark, Words):
        axes.text(
            mark.x, mark.y, clean(mark.text), fontsize=0.9 * mark.size, ha=mark.align,
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
