"""An axis of names: campaigns, calibrators, arms."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from app.reports.drawing import TEXT, new_axes
from app.reports.labels import shortened, width
from app.reports.painting import left_margin, right_margin, set_x
from app.reports.palette import INK
from app.reports.scale import Floats, Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def places_of(rows: int) -> Floats:
    """Where the names stand, from the top."""
    return np.arange(rows, dtype=float)


def named_axes(
    figure: "Figure",
    names: Sequence[str],
    scale: Scale,
    *,
    label: str = "",
    said: Sequence[str] = (),
) -> "Axes":
    """Axes with the names down the left side and values across; `said` is written at the right."""
    labels = [shortened(name, _LONGEST) for name in names]
    beside = max((width(text, TEXT) + _SIDE for text in said), default=0.0)
    right = max(beside, right_margin(scale.labels))
    axes = new_axes(
        figure, left_margin(labels) + _EDGE, _TOP, right, _TICKS + (_LABEL if label else 0.0)
    )
    set_x(axes, scale)
    axes.set_ylim(max(len(names), _FEWEST_ROWS) - 0.5, -0.5)
    axes.set_yticks(places_of(len(names)), labels)
    axes.grid(visible=False, axis="y")
    for row, text in enumerate(said):
        axes.annotate(
            text, (1.0, row), (beside, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", ha="right", va="center_baseline", color=INK, fontsize=TEXT,
        )  # fmt: skip
    return axes


def left_out_note(count: int) -> str:
    """What a caption says when there are more names than a drawing has room for."""
    if count <= MOST_NAMES:
        return ""
    return f" The first {MOST_NAMES} of {count:,} are drawn; the table has all."
