"""The bins of a target by hour, and their sums over spans of hours: what a refit learns from."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from calibrators.bins.packed_table import PackedTable, fit_in_place, new_rows, sums_packed
from calibrators.bins.table import BinsTable

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


HourTables = Mapping[int, BinsTable]
"""Bins of some campaigns by hour, counted since 1970."""


class TablesByField(Protocol):
    """Bins by values of fields, of pairs of them, and of campaigns, as
    `calibrators.fields.sums.FieldTables` has them."""

    @property
    def fields(self) -> Mapping[str, BinsTable]:
        """By field."""

    @property
    def pairs(self) -> Mapping[str, BinsTable]:
        """By pair of fields."""

    @property
    def campaigns(self) -> Mapping[str, BinsTable]:
        """By field, of campaigns."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Bins by hour up to a moment, in blocks of campaigns.

    as_of : the moment in hours since 1970; nothing that came later is in the bins.
    blocks : the tables of one block after the other, none with a campaign of another's, so that
        only one of them needs to be in memory at a time. Gone through any number of times.
    fields : the tables by field of all campaigns in an hour; None where no field is declared.
    """

    as_of: float
    blocks: Iterable[HourTables]
    fields: Callable[[int], TablesByField] | None = None

    @property
    def newest(self) -> int:
        """The newest hour that has begun: when as_of is a whole hour, the one just closed."""
        return ceil(self.as_of) - 1

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """The blocks with no other hours than these."""
        for block in self.blocks:
            yield {hour: table for hour, table in block.items() if first <= hour < behind}

    def windows(self, first: int, behind: int) -> Iterator[BinsTable]:
        """The sum over these hours, block after block."""
        for block in self.between(first, behind):
            yield BinsTable.merge(block.values())

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """The sums over several spans of hours, block after block; what the spans share is summed
        once."""
        if len(spans) == 1:
            yield from ((table,) for table in self.windows(spans[0].start, spans[0].stop))
            return
        first, behind = min(span.start for span in spans), max(span.stop for span in spans)
        for block in self.between(first, behind):
            yield sums_of_block(block, spans)
