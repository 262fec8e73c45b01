"""The bins of a target by hour: what a refit learns from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from calibrators.bins_table import BinsTable
from calibrators.span_sums import sums_of_block

HourTables = Mapping[int, BinsTable]
"""Bins of some campaigns by hour, counted since 1970."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Bins by hour up to a moment, in blocks of campaigns.

    Attributes
    ----------
    as_of : the moment in hours since 1970; nothing that came later is in the bins.
    blocks : the tables of one block after the other, none with a campaign of another's, so that
        only one of them needs to be in memory at a time. Gone through any number of times.
    """

    as_of: float
    blocks: Iterable[HourTables]

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
