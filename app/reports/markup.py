"""A report as HTML, every text of it escaped."""

import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from app.reports.alignment import numeric_columns
from app.reports.labels import clean
from app.reports.layout import layout
from app.reports.page import Page
from app.reports.series_style import series_style

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

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
