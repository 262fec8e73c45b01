"""A log of any length, reduced batch by batch to what its metrics need, in bounded memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.streaming.in_memory import PositivesByRevenue, RankedRows, RevenueRows, RowsInMemory
from evaluation.streaming.rows import CellRows, LogBatch, SliceSums, Sums, sorting, terms


@dataclass(frozen=True, slots=True, eq=False)
class RevenueTable:
    """Positives with their bids, which stay apart while they fit, and cells of negatives."""

    paid: PositivesByRevenue
    negatives: CellRows

    @classmethod
    def of(cls, ranked: RankedRows, grouping: str, budget: int, before: Self | None) -> Self:
        """The table of rows in memory, and of those before them, with at most `budget` rows on
        either side."""
        if before is None:
            paid, negatives = ranked.paid(grouping, 0), ranked.negatives(grouping, 0)
        else:
            paid = before.paid.merged(ranked.paid(grouping, before.paid.dropped))
            more = ranked.negatives(grouping, before.negatives.dropped)
            negatives = before.negatives.merged(more)
        return cls(paid.within(budget), negatives.within(budget))

    def rows(self) -> RevenueRows:
        """Both sides as one, sorted; a cell of negatives stands at its mean revenue."""
        paid, negatives = self.paid, self.negatives
        slices = np.concatenate((paid.slices, negatives.slices))
        revenues = np.concatenate((paid.revenues, negatives.scores))
        order = sorting(slices, revenues)
        return RevenueRows(
            slices[order],
            revenues[order],
            np.concatenate((paid.bids, np.zeros(len(negatives))))[order],
            order < len(paid),
            np.concatenate((paid.weights, negatives.weights))[order],
            max(paid.dropped, negatives.dropped),
        )


@dataclass(frozen=True, slots=True)
class RowLimits:
    """How much of a log stays in memory.

    rows : rows that stay as they came; a log of no more is measured exactly.
    later_rows : rows at a time once there were more, beside the tables.
    table_rows : rows of each table of each grouping.
    """

    rows: int = 12_000_000
    later_rows: int = 4_000_000
    table_rows: int = 2_000_000


class StreamedLog:
    """A log after some of its batches, in bounded memory.

    Rows stay as they came until there are `limits.rows` of them. Then they go into a table for each
    grouping, where samples of one score stand together; a table that would have more than
    `limits.table_rows` rows drops the last binary digits of its scores, as few as do. The sums of
    the slices are exact at any length.

    `groupings` are the names of the ways in which rows are grouped into slices, `ranked_groupings`
    those whose csAUC is wanted, where the log has bids.
    """

    def __init__(
        self,
        groupings: Sequence[str],
        ranked_groupings: Sequence[str] = (),
        limits: RowLimits | None = None,
    ) -> None:
        self._limits = limits or RowLimits()
        self._held = RowsInMemory()
        self._sums = {grouping: SliceSums() for grouping in groupings}
        self._ranked_groupings = ranked_groupings
        self._tables: dict[str, CellRows] = {}
        self._revenues: dict[str, RevenueTable] = {}
        self._length = 0
        self.has_bids = True
        """Whether every batch had bids."""
        self.has_classes = True
        """Whether every outcome was 0 or 1."""

    def __len__(self) -> int:
        return self._length

    def add(self, batch: LogBatch) -> None:
        """Take in one more batch of at least one row."""
        self._length += len(batch)
        self.has_bids &= batch.bids is not None
        self.has_classes = self.has_classes and batch.classes is not None
        rows = terms(batch)
        for grouping, sums in self._sums.items():
            sums.add(rows, batch.slices[grouping])
        most = self._limits.later_rows if self._tables else self._limits.rows
        if len(self._held) and len(self._held) + len(batch) > most:
            self._fold()
        self._held.add(batch)

    def sums(self, grouping: str, n_slices: int) -> Sums:
        """Sums over the samples of each slice of a grouping."""
        return self._sums[grouping].of(n_slices)

    @property
    def groupings(self) -> Sequence[str]:
        """All groupings."""
        return tuple(self._sums)

    @property
    def ranked_groupings(self) -> Sequence[str]:
        """The groupings with a csAUC: none without bids, or with outcomes other than 0 and 1."""
        return self._ranked_groupings if self.has_bids and self.has_classes else ()

    def cells(self) -> Callable[[str], CellRows]:
        """Sort the rows, at least one, for a function that gives the cells of a grouping."""
        self._held.sort_by_score()
        return self._table

    def revenue_rows(self) -> Callable[[str], RevenueRows]:
        """Sort the rows by revenue, for a function that gives those of a ranked grouping."""
        ranked = self._held.by_revenue()

        def rows(grouping: str) -> RevenueRows:
            if grouping in self._revenues:
                return self._revenue_table(grouping, ranked).rows()
            return ranked.exact(grouping)

        return rows

    def _fold(self) -> None:
        self._held.sort_by_score()
        budget = self._limits.table_rows
        self._tables = {grouping: self._table(grouping).within(budget) for grouping in self._sums}
        if self.ranked_groupings:
            ranked = self._held.by_revenue()
            self._revenues = {
                grouping: self._revenue_table(grouping, ranked)
                for grouping in self.ranked_groupings
            }
        self._held = RowsInMemory()

    def _table(self, grouping: str) -> CellRows:
        if grouping not in self._tables:
            return self._held.cells(grouping, 0)
        known = self._tables[grouping]
        cells = known.merged(self._held.cells(grouping, known.dropped))
        return cells.within(self._limits.table_rows)

    def _revenue_table(self, grouping: str, ranked: RankedRows) -> RevenueTable:
        before = self._revenues.get(grouping)
        return RevenueTable.of(ranked, grouping, self._limits.table_rows, before)


OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class Groupings:
    """The groupings of a log and their numbers of slices.

    sizes : the number of slices of each grouping; `OVERALL`, with one slice, is always there.
    campaigns : the grouping that GC-N averages over, or None.
    groups : the grouping that GAUC and gcsAUC average over, or None.
    mainline : the grouping whose only slice is the mainline, or None.
    """

    sizes: Mapping[str, int]
    campaigns: str | None = None
    groups: str | None = None
    mainline: str | None = None
