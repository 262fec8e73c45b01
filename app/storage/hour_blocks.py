"""Tables of one shard by hour, unpacked a block of campaigns at a time."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

import numpy as np

from calibrators.bins_table import BinsTable
from calibrators.campaign_order import even_spans
from calibrators.history import HourTables
from calibrators.packed_table import PackedTable

CAMPAIGNS = 1024
"""Campaigns of a block at most: bounds the memory of a refit, however many there are."""


def hour_blocks(
    tables: Mapping[int, PackedTable], campaigns: int = CAMPAIGNS
) -> Iterator[HourTables]:
    """The same tables in blocks, none with a campaign of another's; an hour in which none of a
    block's campaigns has bins is left out."""
    # Many hours share their campaigns, which are gone through once.
    distinct = {id(table.campaigns): table.campaigns for table in tables.values()}
    names = sorted(set().union(*distinct.values()))
    for first, behind in even_spans(names, campaigns):
        found = ((hour, _between(table, first, behind)) for hour, table in tables.items())
        yield {hour: table for hour, table in found if len(table)}


def _between(table: PackedTable, first: str, behind: str | None) -> BinsTable:
    """The campaigns of first <= name < behind."""
    names = table.campaigns
    start = bisect_left(names, first)
    stop = len(names) if behind is None else bisect_left(names, behind)
    offsets = table.offsets[start : stop + 1]
    span = slice(offsets[0], offsets[-1])
    sums = np.array([column.values(span) for column in table.sums])
    return BinsTable(names[start:stop], offsets - offsets[0], table.cells.values(span), sums)
