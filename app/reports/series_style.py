"""How a series is told from the others: by colour, and by marker and line without any colour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

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
