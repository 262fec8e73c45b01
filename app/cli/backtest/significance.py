"""Which calibrators differ beyond chance: as tables, as words and as JSON."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import results
from app.results.formatting import decimals_for, interval_text, value_text
from app.results.significance import HEADINGS, WORDS, compared_with
from evaluation.comparison.significance import Significance

_STYLES: Final = {1: "green", 0: "", -1: "red"}


def show_significance(found: Significance, reference: str) -> None:
    """Print the differences of all that were compared with `reference`."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    names = compared_with(found, reference)
    places = {metric: _decimals(found, names, reference, metric) for metric in HEADINGS}
    for name in names:
        cells = (_cell(found, (name, reference), metric, places[metric]) for metric in HEADINGS)
        table.add_row(name, *cells)
    console = results()
    console.print(Text(f"\nDifference from {reference}", style="bold"), soft_wrap=True)
    console.print(table)


def _decimals(found: Significance, names: Sequence[str], reference: str, metric: str) -> int:
    """Decimals for a whole column, so that its numbers align."""
    places = [decimals_for(found.differences[name, reference][metric]) for name in names]
    return int(median(places))


def _cell(found: Significance, pair: tuple[str, str], metric: str, decimals: int) -> Text:
    difference, better = found.differences[pair][metric], found.better(pair, metric)
    value = f"{WORDS[better]} {value_text(difference, decimals)}".lstrip()
    interval = interval_text(difference, decimals)
    return Text.assemble((value, _STYLES[better]), "\n", (interval, "dim"), justify="right")
