"""Tables of many campaigns by hour, a span of the campaigns after the other."""

from bisect import bisect_left
from collections.abc import Iterator

from calibrators.bins_table import BinsTable
from calibrators.campaign_order import even_spans
from calibrators.history import HourTables

MOST = 1024
"""Campaigns of a span: what a refit makes of one at a time, hour by hour, takes some 100 MB."""


def campaign_spans(tables: HourTables, most: int = MOST) -> Iterator[HourTables]:
    """The same tables, none with more campaigns than that, as views: those of ascending spans of
    names where a table has more, else as they are."""
    if all(len(table) <= most for table in tables.values()):
        yield tables
        return
    names = sorted({name for table in tables.values() for name in table.campaigns})
    for first, behind in even_spans(names, most):
        yield {hour: _between(table, first, behind) for hour, table in tables.items()}


def _between(table: BinsTable, first: str, behind: str | None) -> BinsTable:
    """The campaigns of first <= name < behind."""
    names = table.campaigns
    start = bisect_left(names, first)
    stop = len(names) if behind is None else bisect_left(names, behind)
    offsets = table.offsets[start : stop + 1]
    span = slice(offsets[0], offsets[-1])
    return BinsTable(
        names[start:stop], offsets - offsets[0], table.cells[span], table.sums[:, span]
    )
