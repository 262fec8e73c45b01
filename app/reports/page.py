"""What a report says, and the one HTML file that it becomes, every text of it escaped."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from app.errors import FAILED, CommandError, typed_command
from app.reports.drawing import Value, series_style
from app.results.formatting import clean
from app.whole_files import check_new, whole_file
from calibrators.samples import Floats

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_NEEDED: Final = ("jinja2", "matplotlib")


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; the first of a row names it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""

    @classmethod
    def of(
        cls,
        heading: str,
        names: Sequence[str],
        columns: Mapping[str, Floats],
        form: Callable[[float], str],
    ) -> Self:
        """A row for each name, with its value in each of the columns, (k,)."""
        texts = (map(form, values.tolist()) for values in columns.values())
        return cls((heading, *columns), [*zip(names, *texts, strict=True)])


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, a caption that says how to read it, and the same numbers as a table.

    `svg` is markup and trusted: `app.reports.charts` writes it. `keys` explain the series above
    the drawing: name, and number of its style. `values` are shown below where they are pointed at.
    """

    title: str
    caption: str
    svg: str
    table: Table | None = None
    keys: Sequence[tuple[str, int]] = ()
    values: Sequence[Value] = ()


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


def check_report(path: Path | None) -> None:
    """A `CommandError`, before any work is done, when no report can be written at `path`."""
    if path is None:
        return
    if path.suffix.lower() != ".html":
        raise CommandError(f"{path}: a report's name ends in .html")
    check_new(path, "--report", force=True)
    for module in _NEEDED:
        if find_spec(module) is None:
            raise CommandError(f"reports need {module}: pip install 'sirocco[pictures]'")


def write_page(page: Page, path: Path) -> None:
    """Write the report in one step, under the command that makes it where it has no footer; a
    `CommandError` where it cannot be written."""
    footer = page.footer or how_made(typed_command(), datetime.now(UTC))
    with whole_file(path, FAILED) as unfinished:
        unfinished.write_text(markup_of(replace(page, footer=footer)), encoding="utf-8")


# A drawing so high has two others beside it.
_TALL: Final = 560.0
_HEIGHT: Final = re.compile(r'viewBox="0 0 \S+ ([\d.]+)"')

TABLE, CHART, TALL, ALONE = "wide", "", "tall", "alone"


def layout(parts: Sequence[Chart | Table]) -> list[str]:
    """How each part stands: `wide` over the whole width, `tall` beside two others, `alone` with
    its words beside it, or as usual."""
    found: list[str] = []
    for are_charts, run in groupby(parts, lambda part: isinstance(part, Chart)):
        held = list(run)
        found += _of_charts(held) if are_charts else [TABLE] * len(held)
    return found


def _of_charts(run: Sequence[Chart | Table]) -> list[str]:
    if len(run) == 1:
        return [ALONE]
    tall = [isinstance(chart, Chart) and _is_tall(chart.svg) for chart in run]
    classes = [TALL if is_tall else CHART for is_tall in tall]
    if (len(tall) + sum(tall)) % 2 == 0:
        return classes
    # One place is left over; a tall one at the end has one neighbour and no second.
    classes[-1] = CHART if tall[-1] else ALONE
    return classes


def _is_tall(svg: str) -> bool:
    found = _HEIGHT.search(svg)
    return found is not None and float(found[1]) > _TALL


_UNDEFINED: Final = frozenset(["", "-", "\u2013", "\u2014", "∞", "-∞"])
_SIGNS: Final = r"+\-\u2013\u2212\u00d7±<>≤≥"
# Numbers, intervals and the like; or one number and a short unit.
_NUMBERS: Final = re.compile(rf"(?=.*\d)[\d\s.,e%‰\[\]()∞{_SIGNS}]+( to [\d\s.,e%)\]∞{_SIGNS}]+)?")
_WITH_UNIT: Final = re.compile(rf"[{_SIGNS}]?\d[\d.,]*(e-?\d+)? ?[^\d\s]{{1,6}}")


def numeric_columns(table: Table) -> list[bool]:
    """One answer for each column."""
    return [_is_numeric([row[place] for row in table.rows]) for place in range(len(table.columns))]


def _is_numeric(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if cell not in _UNDEFINED]
    return any(cells) and all(_NUMBERS.fullmatch(c) or _WITH_UNIT.fullmatch(c) for c in known)


# A longer table is folded.
_LONGEST_TABLE: Final = 14
# More of them would make a file that a browser opens slowly.
_MOST_ROWS: Final = 1_000
# A longer name may break.
_LONGEST_CELL: Final = 22


def markup_of(page: Page) -> str:
    """The whole document; the same page gives the same text."""
    return _template().render(
        page=page,
        style=_trusted(_read("style.css")),
        version=version("sirocco"),
        longest_table=_LONGEST_TABLE,
        most_rows=_MOST_ROWS,
        longest_cell=_LONGEST_CELL,
        trusted=_trusted,
        layout=layout,
        numeric_columns=numeric_columns,
        paragraphs=_paragraphs,
        style_of=series_style,
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_clean)
    return environment.from_string(_read("page.html"))


def _clean(value: Any) -> Any:
    """Texts that come from logs; markup is our own."""
    return clean(value) if type(value) is str else value


def _read(name: str) -> str:
    return files("app.reports").joinpath(name).read_text(encoding="utf-8")


def _trusted(text: str) -> "Markup":
    from markupsafe import Markup

    return Markup(text)


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
