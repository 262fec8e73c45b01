"""What `sirocco evaluate --fields` prints: errors by field, and the worst segments."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import print_line, print_table
from app.results.fields import (
    FIELD_HEADINGS,
    SEGMENT_HEADINGS,
    field_row,
    mean_line,
    segment_row,
)
from app.results.formatting import shortened
from evaluation.fields import FieldMetrics

_LONGEST_NAME = 44


def show_fields(found: FieldMetrics, top: int) -> None:
    """Print the errors of each field, and the worst segments, at most `top` of them."""
    rows = [field_row(field, found) for field in found.errors]
    print_table(
        _table(FIELD_HEADINGS, rows), "\nBy field: how far off the totals of its values are"
    )
    print_line(mean_line(found), "dim")
    mce = found.multicalibration
    segments = map(segment_row, mce.worst[:top])
    title = f"\nWorst of {mce.segments:,} segments of fields and pairs, by cumulative error"
    print_table(_table(SEGMENT_HEADINGS, segments), title)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for place, heading in enumerate(headings):
        # A blank more, so that numbers stand apart.
        table.add_column(
            f" {heading}" if place else heading, justify="right" if place else "left", no_wrap=True
        )
    for row in rows:
        table.add_row(*(Text(shortened(cell, _LONGEST_NAME)) for cell in row))
    return table
