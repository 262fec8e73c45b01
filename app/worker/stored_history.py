"""The history of a target as the store has it, read once for its refit and for its report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.storage.bins_store import HourBlocks
from app.worker.raw_window import RawScores, RawWindow
from calibrators import BinsTable
from calibrators.history import History, HourTables
from calibrators.span_sums import sums_of_block


@dataclass(frozen=True, slots=True)
class ReadBlocks:
    """Blocks of bins by hour, read anew each time; where all of the report's window goes by, the
    window is judged on the way."""

    stored: HourBlocks
    window: RawWindow

    def __iter__(self) -> Iterator[HourTables]:
        if not self.window.is_awaited:
            yield from self.stored
            return
        found = self.window.begin()
        # Mapped, so that no block's tables are held while the next block's are read.
        yield from map(_Judged(found, self.window.hours), self.stored)
        self.window.found = found

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """Those of first <= hour < behind; no others are read."""
        return iter(self.stored.between(first, behind))

    def sums(self, spans: Sequence[range]) -> Iterator[tuple[BinsTable, ...]]:
        """The sums over spans of hours, all of a block at once."""
        first, behind = min(span.start for span in spans), max(span.stop for span in spans)
        sums = self.stored.between(first, behind).sums(spans)
        if not self.window.is_awaited or self.window.hours not in spans:
            yield from sums
            return
        found, place = self.window.begin(), spans.index(self.window.hours)
        for tables in sums:
            found.add(tables[place])
            yield tables
        self.window.found = found


@dataclass(frozen=True, slots=True)
class _Judged:
    found: RawScores
    hours: range

    def __call__(self, block: HourTables) -> HourTables:
        (table,) = sums_of_block(block, (self.hours,))
        self.found.add(table)
        return block


@dataclass(frozen=True, slots=True, eq=False)
class StoredHistory(History):
    """See `History`: of hours that are not asked for nothing is read."""

    blocks: ReadBlocks

    def between(self, first: int, behind: int) -> Iterator[HourTables]:
        """See `History`."""
        return self.blocks.between(first, behind)

    def sums(self, *spans: range) -> Iterator[tuple[BinsTable, ...]]:
        """See `History`."""
        return self.blocks.sums(spans)
