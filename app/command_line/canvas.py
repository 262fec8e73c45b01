"""What every picture is drawn on, and the file it is saved in."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.command_line.errors import FAILED, CommandError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
INK, FAINT = "#333333", "#b5b5b5"
COLOURS = ("#c0504d", "#1f6f8b", "#7a9a3a", "#8064a2")
CAPTION: Final[dict[str, Any]] = {"loc": "left", "fontsize": 10, "color": INK}
_PANEL_WIDTH, _PANEL_HEIGHT = 5.6, 5.4


def check_picture(path: Path) -> None:
    """A `CommandError`, before any work is done, when no picture can be saved at `path`."""
    if path.suffix.lower() not in FORMATS:
        raise CommandError(f"{path}: a picture's name ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")
    new_figure(1)


def new_figure(columns: int, rows: int = 1, height: float = _PANEL_HEIGHT) -> "Figure":
    """A figure of empty panels; `height` is that of one panel, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError(
            "pictures need matplotlib: pip install 'sirocco[pictures]', or give --no-picture"
        ) from error
    figure = Figure(figsize=(_PANEL_WIDTH * columns, height * rows), layout="constrained")
    for axes in np.ravel(figure.subplots(rows, columns)):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=9)
        axes.grid(color="#eeeeee", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure


def save(figure: "Figure", title: str, path: Path, dpi: int = 150) -> None:
    """Save the figure under its title, in the format that the name of the file tells."""
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=13, fontweight="bold")
    try:
        figure.savefig(path, dpi=dpi)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
