"""A log of any length, reduced batch by batch to what its metrics need, in bounded memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.streaming.in_memory import (
    PositivesByRevenue,
    RankedRows,
    RevenueRows,
    RowsInMemory,
)
from evaluation.streaming.rows import CellRows, LogBatch, SliceSums, Sums, sorting, terms


@dataclass(frozen=True, slots=True, eq=False)
class RevenueTable:
    """Positives with their bids, which stay apart while they fit, and cells of negatives."""

    paid: PositivesByRevenue
    negatives: CellRows

    @classmethod
    def of(cls, ranked: RankedRows, cut: str, budget: int) -> Self:
        """The table of held rows, with at most `budget` rows on either side."""
        return cls(ranked.paid(cut, 0).within(budget), ranked.negatives(cut, 0).within(budget))

    def with_rows(self, ranked: RankedRows, cut: str, budget: int) -> "RevenueTable":
        """This table and the rows held since."""
        paid = self.paid.merged(ranked.paid(cut, self.paid.dropped))
        negatives = self.negatives.merged(ranked.negatives(cut, self.negatives.dropped))
        return RevenueTable(paid.within(budget), negatives.within(budget))

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
    """How much of a log is held.

    Attributes
    ----------
    rows : rows that are held as they came; a log of no more is measured exactly.
    later_rows : rows that are held at a time once there were more, beside the tables.
    table_rows : rows of each table of each cut.
    """

    rows: int = 12_000_000
    later_rows: int = 4_000_000
    table_rows: int = 2_000_000


class StreamedLog:
    """What is known of a log after some of its batches, in bounded memory.

    Rows are held as they came until there are `limits.rows` of them. Then they are folded into a
    table for each cut, where samples of one score stand together; a table that would have more
    than `limits.table_rows` rows drops the last binary digits of its scores, as few as do. The sums
    of the slices are exact at any length.

    Parameters
    ----------
    cuts : names of the ways in which the log is cut into slices.
    ranked_cuts : those of them whose csAUC is wanted, where the log has bids.
    """

    def __init__(
        self, cuts: Sequence[str], ranked_cuts: Sequence[str] = (), limits: RowLimits | None = None
    ) -> None:
        self._limits = limits or RowLimits()
        self._held = RowsInMemory()
        self._sums = {cut: SliceSums() for cut in cuts}
        self._ranked_cuts = ranked_cuts
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
        for cut, sums in self._sums.items():
            sums.add(rows, batch.slices[cut])
        most = self._limits.later_rows if self._tables else self._limits.rows
        if len(self._held) and len(self._held) + len(batch) > most:
            self._fold()
        self._held.add(batch)

    def sums(self, cut: str, n_slices: int) -> Sums:
        """Sums over the samples of each slice of a cut."""
        return self._sums[cut].of(n_slices)

    @property
    def cuts(self) -> Sequence[str]:
        """All cuts."""
        return tuple(self._sums)

    @property
    def ranked_cuts(self) -> Sequence[str]:
        """The cuts that have a csAUC: none without bids, or with outcomes other than 0 and 1."""
        return self._ranked_cuts if self.has_bids and self.has_classes else ()

    def cells(self) -> Callable[[str], CellRows]:
        """Sort the rows, of which there is at least one; the result gives the cells of a cut."""
        self._held.sort_by_score()
        return self._table

    def revenue_rows(self) -> Callable[[str], RevenueRows]:
        """Sort the rows by revenue; what it gives tells those of a ranked cut."""
        ranked = self._held.by_revenue()

        def rows(cut: str) -> RevenueRows:
            if cut in self._revenues:
                return self._revenue_table(cut, ranked).rows()
            return ranked.exact(cut)

        return rows

    def _fold(self) -> None:
        self._held.sort_by_score()
        budget = self._limits.table_rows
        self._tables = {cut: self._table(cut).within(budget) for cut in self._sums}
        if self.ranked_cuts:
            ranked = self._held.by_revenue()
            self._revenues = {cut: self._revenue_table(cut, ranked) for cut in self.ranked_cuts}
        self._held = RowsInMemory()

    def _table(self, cut: str) -> CellRows:
        if cut not in self._tables:
            return self._held.cells(cut, 0)
        known = self._tables[cut]
        return known.merged(self._held.cells(cut, known.dropped)).within(self._limits.table_rows)

    def _revenue_table(self, cut: str, ranked: RankedRows) -> RevenueTable:
        budget = self._limits.table_rows
        if cut not in self._revenues:
            return RevenueTable.of(ranked, cut, budget)
        return self._revenues[cut].with_rows(ranked, cut, budget)


OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class Groupings:
    """The cuts of a log and their numbers of slices.

    Attributes
    ----------
    sizes : the number of slices of each cut; `OVERALL`, with one slice, is always there.
    campaigns : the cut that GC-N averages over, or None.
    groups : the cut that GAUC and gcsAUC average over, or None.
    mainline : the cut whose only slice is the mainline, or None.
    """

    sizes: Mapping[str, int]
    campaigns: str | None = None
    groups: str | None = None
    mainline: str | None = None
