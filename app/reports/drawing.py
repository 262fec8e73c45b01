"""From a figure of matplotlib to markup that belongs to a page: its colours, fonts and size.

A chart is drawn in reserved colours; each becomes a variable of the style sheet, so that light,
dark and paper are decided where the page is read.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.etree import ElementTree

import numpy as np

from app.results.formatting import clean
from calibrators.samples import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = 8
_RAW, _TRUTH = 0, 7
_OTHERS: Final = (1, 2, 3, 4, 5, 6)
# What stands for the scores as they came, or for what nothing can beat, in every chart of a page.
_KNOWN: Final = {"raw": _RAW, "none": _RAW, "truth": _TRUTH, "oracle": _TRUTH}

# matplotlib's name of a marker, and its outline in a box of 10 by 10.
_MARKERS: Final = (
    ("o", "M5 1a4 4 0 1 0 0 8a4 4 0 1 0 0-8z"),
    ("s", "M1.4 1.4h7.2v7.2H1.4z"),
    ("^", "M5 .8L9.4 9H.6z"),
    ("D", "M5 .2L9.8 5L5 9.8L.2 5z"),
    ("v", "M5 9.2L.6 1h8.8z"),
    ("P", "M3.5 1h3v2.5H9v3H6.5V9h-3V6.5H1v-3h2.5z"),
    ("X", "M3 .8l2 2l2-2L9.2 3l-2 2l2 2L7 9.2l-2-2l-2 2L.8 7l2-2l-2-2z"),
    ("p", "M5 .6L9.4 3.8L7.7 9H2.3L.6 3.8z"),
)
_DASHES: Final[tuple[tuple[float, ...], ...]] = (
    (5, 1.5),
    (),
    (2, 1.5),
    (7, 2, 1.5, 2),
    (4, 3),
    (10, 2),
    (1, 2),
    (5, 1, 1, 1, 1, 1),
)


@dataclass(frozen=True, slots=True)
class SeriesStyle:
    """The look of one series; `outline` is its marker in a box of 10 by 10."""

    colour: int
    marker: str
    outline: str
    dashes: tuple[float, ...]


def series_style(number: int) -> SeriesStyle:
    """The style of a number; after the colours are used up they come again with other markers."""
    colour, again = number % COLOURS, number // COLOURS
    marker, outline = _MARKERS[(colour + 3 * again) % len(_MARKERS)]
    return SeriesStyle(colour, marker, outline, _DASHES[(colour + again) % len(_DASHES)])


def style_numbers(names: Iterable[str]) -> Mapping[str, int]:
    """A number for each series: `raw` and `truth` look the same in all charts."""
    found: dict[str, int] = {}
    others = 0
    for name in names:
        if name in _KNOWN and _KNOWN[name] not in found.values():
            found[name] = _KNOWN[name]
            continue
        found[name] = _OTHERS[others % len(_OTHERS)] + COLOURS * (others // len(_OTHERS))
        others += 1
    return found


_NAMES: Final = (
    "ink",
    "muted",
    "faint",
    "grid",
    "card",
    *(f"series-{n + 1}" for n in range(COLOURS)),
)
RESERVED: Final = {name: f"#0102{number:02x}" for number, name in enumerate(_NAMES)}
INK, MUTED, FAINT, GRID, CARD = (RESERVED[name] for name in _NAMES[:5])
VARIABLES: Final = {colour: f"var(--{name})" for name, colour in RESERVED.items()}


def series_colour(number: int) -> str:
    """The reserved colour of the series colours, counted from 0."""
    return RESERVED[f"series-{number + 1}"]


WIDTH: Final = 440.0
# A phone shows a drawing at four fifths of its size, which leaves ten pixels of this.
TEXT: Final = 12.5
_EMPTY_HEIGHT: Final = 90.0
POINTS: Final = 72.0
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "sirocco",
    "text.parse_math": False,
    "font.size": TEXT,
    "font.family": "sans-serif",
    "path.simplify_threshold": 0.3,
}
_UNMEASURED: Final = ("Glyph .* missing from", "Matplotlib currently does not support")
_NO_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}
_SVG: Final = "{http://www.w3.org/2000/svg}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_LEFT_OUT: Final = (f"{_SVG}metadata", f"{_SVG}defs")
_COORDINATES: Final = {"d", "x", "y", "transform"}
_UNTURNED: Final = "rotate(-0 "
_LONG_FRACTION: Final = re.compile(r"(\d+\.\d\d)\d+")
_COLOUR: Final = re.compile("|".join(VARIABLES))
_FONT_FAMILY: Final = re.compile(r"\s*font-family:[^;]*;?")


class Value(NamedTuple):
    """What a part of a drawing says when it is pointed at, and where that is, in percent of the
    drawing's width and height, from the left and from the top."""

    left: float
    top: float
    width: float
    height: float
    text: str


Drawing = tuple[str, Sequence[Value]]
"""The SVG, and the values in it that can be pointed at."""


def drawn(
    height: float,
    title: str,
    values: Iterable[Floats],
    paint: Callable[["Figure"], Sequence[Value]],
    width: float = WIDTH,
) -> Drawing:
    """What `paint` paints on a figure of `width` by `height`, named `title`; it returns the values
    that can be pointed at.

    When none of `values` is a number, there is nothing to paint, and the drawing says so.
    """
    if not any(np.isfinite(found).any() for found in values):
        height, paint = _EMPTY_HEIGHT, _say_empty
    with _own_settings():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / POINTS, height / POINTS), facecolor="none")
        canvas: Any = FigureCanvasSVG(figure)
        said = paint(figure)
        buffer = io.StringIO()
        canvas.print_svg(buffer, metadata=_NO_METADATA)
    return _for_a_page(buffer.getvalue(), title), said


def new_axes(figure: "Figure", left: float, top: float, right: float, bottom: float) -> "Axes":
    """Axes with these margins inside the figure, in its own units."""
    wide, high = (size * POINTS for size in figure.get_size_inches())
    axes = figure.add_axes(
        (left / wide, bottom / high, (wide - left - right) / wide, (high - top - bottom) / high)
    )
    axes.set_facecolor("none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=MUTED, labelsize=TEXT, length=0, pad=5)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=1)
    return axes


def _say_empty(figure: "Figure") -> Sequence[Value]:
    figure.text(0.5, 0.5, "no value to draw", color=MUTED, fontsize=TEXT, ha="center")
    return ()


@contextmanager
def _own_settings() -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(_SETTINGS), warnings.catch_warnings():
        # The page is written in the fonts of its reader, not in the one that is measured here.
        for message in _UNMEASURED:
            warnings.filterwarnings("ignore", message=message)
        yield


def _for_a_page(source: str, title: str) -> str:
    """One drawing of many in a document: without ids, styles and fonts of its own."""
    root = ElementTree.fromstring(source)
    outlines = {f"#{path.get('id')}": path for path in root.iter(f"{_SVG}path") if path.get("id")}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        if _LINK in element.attrib:
            _expand(element, outlines[element.attrib.pop(_LINK)])
        _adapt(element)
    root.attrib = {
        "xmlns": _SVG.strip("{}"),
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": clean(title),
    }
    return ElementTree.tostring(root, encoding="unicode")


def _expand(use: ElementTree.Element, outline: ElementTree.Element) -> None:
    """A mark becomes a path of its own: a reference would need an id."""
    use.tag = "path"
    use.set("transform", f"translate({use.attrib.pop('x')} {use.attrib.pop('y')})")
    use.set("d", outline.attrib["d"])
    use.set("style", f"{outline.get('style', '')}; {use.get('style', '')}".strip("; "))


def _adapt(element: ElementTree.Element) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    element.tail = None
    for name in ("id", "clip-path"):
        element.attrib.pop(name, None)
    if element.get("transform", "").startswith(_UNTURNED):
        element.attrib.pop("transform")
    for name in _COORDINATES & element.attrib.keys():
        rounded = _LONG_FRACTION.sub(r"\1", element.attrib[name])
        element.set(name, " ".join(rounded.split()))
    if "style" in element.attrib:
        style = _COLOUR.sub(lambda found: VARIABLES[found[0]], element.attrib["style"])
        element.set("style", _FONT_FAMILY.sub("", style))
