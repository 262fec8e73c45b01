"""Colours that are decided where the page is read: by its style, for light, dark and paper.

A chart is drawn in reserved colours; each becomes a variable of the style sheet.
"""

from typing import Final

from app.reports.series_style import COLOURS

_NAMES: Final = (
    "ink",
    "muted",
    "faint",
    "grid",
    "card",
    *(f"series-{n + 1}" for n in range(COLOURS)),
)
_RESERVED: Final = {name: f"#0102{number:02x}" for number, name in enumerate(_NAMES)}
INK, MUTED, FAINT, GRID, CARD = (_RESERVED[name] for name in _NAMES[:5])
VARIABLES: Final = {colour: f"var(--{name})" for name, colour in _RESERVED.items()}


def series_colour(number: int) -> str:
    """The reserved colour of the series colours, counted from 0."""
    return _RESERVED[f"series-{number + 1}"]
