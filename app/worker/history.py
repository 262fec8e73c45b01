"""The history of a target as the store has it, read once for its refit and for its report.

The history of a delayed target: relabelled clicks by hour, a window in memory at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from app.click_log import ClickLog
from app.settings import Settings
from app.storage.bins import HourBlocks
from app.worker.hours import SECONDS
from app.worker.model_cache import CachedModel
from app.worker.monitoring import RawScores, RawWindow
from app.worker.relabelling import RelabelledClicks, relabelled, spans
from calibrators import BinsTable
from calibrators.bins.history import History, HourTables, sums_of_block


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


@dataclass(frozen=True, slots=True, eq=False)
class LabelHistory:
    """What clicks count as with everything known as of a moment, hours before it.

    Hours are counted back from the end of the newest click's post-click window, so each is whole
    whatever the post-click window is.
    """

    log: ClickLog
    cached: CachedModel | None
    target: str
    as_of: float
    settings: Settings

    def of(self, hours: int) -> tuple[RelabelledClicks, History] | None:
        """The newest window, and so many hours by hour; None where `relabelled` gives None.

        Clicks older than a window have their own correction for drift.
        """
        newest, *older = spans(self.settings, self.as_of, max(hours, self.settings.window_hours))
        last = ceil(newest[1] / SECONDS) - 1
        tables: dict[int, BinsTable] = {}
        for span in reversed(older):
            found = self._relabelled(span)
            if found is not None:
                tables |= found.by_hour(last - round((newest[1] - span[1]) / SECONDS))
        recent = self._relabelled(newest)
        if recent is None:
            return None
        tables |= recent.by_hour(last)
        return recent, History(float(last + 1), [tables])

    def _relabelled(self, span: tuple[float, float]) -> RelabelledClicks | None:
        return relabelled(self.log, self.cached, self.target, self.as_of, self.settings, span)
