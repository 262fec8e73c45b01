"""Sums of bins over spans of hours: what the spans share is summed once."""

from collections.abc import Iterator, Mapping, Sequence

from calibrators.bins_table import BinsTable
from calibrators.packed_table import PackedTable
from calibrators.table_sum import fit_in_place, new_rows, sums_packed

_BLOCK = 256
"""Campaigns that are summed at once."""


def sums_of_block(block: Mapping[int, BinsTable], spans: Sequence[range]) -> tuple[BinsTable, ...]:
    """The sum of a block's tables over each of the spans."""
    in_all = {hour for hour in block if all(hour in span for span in spans)}
    shared = BinsTable.merge(block[hour] for hour in in_all)
    own = ([hour for hour in block if hour in span and hour not in in_all] for span in spans)
    return tuple(BinsTable.merge((shared, *(block[hour] for hour in hours))) for hours in own)


def sums_of_packed(
    tables: Mapping[int, PackedTable], spans: Sequence[range]
) -> Iterator[tuple[BinsTable, ...]] | None:
    """The same of packed tables, which are not unpacked first, in blocks of campaigns; None where
    they are too sparse for that to pay, or a sum could overflow."""
    hours = sorted(hour for hour, table in tables.items() if table.campaigns)
    listed = [tables[hour] for hour in hours]
    names, rows = new_rows(listed)
    if not fit_in_place(listed, names):
        return None
    choices = [{place for place, hour in enumerate(hours) if hour in span} for span in spans]
    firsts = range(0, len(names), _BLOCK)
    blocks = (range(first, min(first + _BLOCK, len(names))) for first in firsts)
    return (
        tuple(
            BinsTable.of_all(names[block.start : block.stop], *columns)
            for columns in sums_packed(listed, rows, block, choices)
        )
        for block in blocks
    )
