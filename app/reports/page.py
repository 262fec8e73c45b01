"""What a report says, and the one HTML file that it becomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from app.command_line.errors import FAILED, CommandError

_NEEDED: Final = ("jinja2", "matplotlib")


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; the first of a row names it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, a caption that says how to read it, and the same numbers as a table.

    `svg` is markup and trusted: `app.reports.charts` writes it. `keys` explain the series above
    the drawing: name, and number of its style.
    """

    title: str
    caption: str
    svg: str
    table: Table | None = None
    keys: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure; `good` says that it is fine, or that it is something to look at."""

    label: str
    value: str
    note: str = ""
    good: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, paragraphs (a blank line between two), and the charts and tables under them."""

    title: str
    text: str = ""
    parts: Sequence[Chart | Table] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A report from the top: the verdict in words, warnings, headline figures, sections."""

    title: str
    subtitle: str
    verdict: str
    tiles: Sequence[Tile]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()
    footer: str = ""


def how_made(command: str, at: datetime) -> str:
    """A footer: the command that made the report, and when."""
    return f"Made by: {command}\n{at:%Y-%m-%d %H:%M %Z}".rstrip()


def check_report(path: Path) -> None:
    """A `CommandError`, before any work is done, when no report can be written at `path`."""
    if path.suffix.lower() != ".html":
        raise CommandError(f"{path}: a report's name ends in .html")
    if path.is_dir():
        raise CommandError(f"{path}: is a folder")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")
    for module in _NEEDED:
        if find_spec(module) is None:
            raise CommandError(f"reports need {module}: pip install 'sirocco[pictures]'")


def write_page(page: Page, path: Path) -> None:
    """Write the report in one step: who reads `path` sees the old file or the whole new one.

    Raises
    ------
    CommandError
        When the file cannot be written.
    """
    from app.click_log.durable_file import write_durably
    from app.reports.markup import markup_of

    document = markup_of(page).encode("utf-8")
    try:
        write_durably(path.absolute(), document)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
