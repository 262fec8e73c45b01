"""Rows of a log held in memory as they came, and sorted once for all cuts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.compact.compact_rows import CompactRows
from evaluation.compact.log_batch import LogBatch
from evaluation.compact.paid_rows import PaidRows
from evaluation.compact.revenue_rows import RevenueRows
from evaluation.compact.slice_order import LEFT_OUT, SliceCodes, slice_order

Column = NDArray[Any]
_SCORES, _OUTCOMES, _BIDS = "scores", "outcomes", "bids"
_FEW_SLICES = np.iinfo(np.int16).max


class HeldRows:
    """Columns that grow by batches; all are sorted together, in place of the order they came in."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Column]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, batch: LogBatch) -> None:
        """Hold the rows of one more batch; all batches have the same columns and cuts."""
        classes = batch.classes
        columns: dict[str, Column] = {
            _SCORES: batch.scores,
            _OUTCOMES: batch.outcomes if classes is None else classes,
        }
        if batch.bids is not None:
            columns[_BIDS] = batch.bids
        for cut, slices in batch.slices.items():
            if slices is not None:
                columns[_name(cut)] = _short(slices)
        for name, column in columns.items():
            self._pieces.setdefault(name, []).append(column)
        self._length += len(batch)

    def by_score(self) -> "ScoredRows":
        """The rows sorted by score, as they stay."""
        order = np.argsort(self.scores)
        for name in self._pieces:
            # One after the other, so that no more than one column is there twice.
            self._pieces[name] = [self._column(name)[order]]
        return ScoredRows(self)

    def by_revenue(self) -> "RankedRows":
        """The rows sorted by probability times bid; for outcomes of 0 and 1 with bids."""
        revenues = self.scores * self.bids
        order = np.argsort(revenues)
        return RankedRows(self, order, revenues[order], self.outcomes[order])

    @property
    def scores(self) -> Floats:
        """Scores, (n,)."""
        return self._column(_SCORES)

    @property
    def outcomes(self) -> Column:
        """Outcomes, (n,): truth values where all are 0 or 1, else numbers."""
        return self._column(_OUTCOMES)

    @property
    def bids(self) -> Floats:
        """Bids, (n,)."""
        return self._column(_BIDS)

    def slices(self, cut: str) -> SliceCodes:
        """Slices of the rows, (n,)."""
        name = _name(cut)
        return self._column(name) if name in self._pieces else np.zeros(self._length, np.int8)

    def _column(self, name: str) -> Column:
        pieces = self._pieces[name]
        if len(pieces) > 1:
            self._pieces[name] = [np.concatenate(pieces)]
        return self._pieces[name][0]


class ScoredRows:
    """Held rows, sorted by score."""

    def __init__(self, held: HeldRows) -> None:
        self._held = held

    def compact(self, cut: str, dropped: int) -> CompactRows:
        """The rows of one cut, with so many digits dropped."""
        rows, slices = slice_order(self._held.slices(cut))
        positives = self._held.outcomes[rows].astype(np.float64)
        scores, ones = self._held.scores[rows], np.ones(len(positives))
        return CompactRows.of_sorted(slices, scores, positives, ones, dropped)


class RankedRows:
    """Held rows in order of revenue: which they are, their revenues and classes, (n,) each."""

    def __init__(
        self, held: HeldRows, order: Integers, revenues: Floats, positive: NDArray[np.bool_]
    ) -> None:
        self._held, self._order = held, order
        self._revenues, self._positive = revenues, positive

    def exact(self, cut: str) -> RevenueRows:
        """The rows of one cut as csAUC needs them."""
        rows, slices = slice_order(self._held.slices(cut)[self._order])
        positive = self._positive[rows]
        bids = np.zeros(len(positive))
        clicked = np.flatnonzero(positive)
        places = clicked if isinstance(rows, slice) else rows[clicked]
        bids[clicked] = self._held.bids[self._order[places]]
        ones = np.ones(len(positive))
        return RevenueRows(slices, self._revenues[rows], bids, positive, ones).squeezed()

    def negatives(self, cut: str, dropped: int) -> CompactRows:
        """The negatives of one cut, with so many digits of the revenue dropped."""
        slices = self._held.slices(cut)[self._order]
        rows, slices = slice_order(np.where(self._positive, LEFT_OUT, slices))
        revenues = self._revenues[rows]
        zeros, ones = np.zeros(len(revenues)), np.ones(len(revenues))
        return CompactRows.of_sorted(slices, revenues, zeros, ones, dropped)

    def paid(self, cut: str, dropped: int) -> PaidRows:
        """The positives of one cut, with so many digits of revenue and bid dropped."""
        clicked = np.flatnonzero(self._positive)
        held = self._order[clicked]
        slices = self._held.slices(cut)[held]
        kept = slices != LEFT_OUT
        revenues, bids = self._revenues[clicked[kept]], self._held.bids[held[kept]]
        return PaidRows.of(slices[kept], revenues, bids, np.ones(len(bids)), dropped)


def _name(cut: str) -> str:
    return f"slices by {cut}"


def _short(slices: SliceCodes) -> SliceCodes:
    return slices.astype(np.int16) if slices.max(initial=0) <= _FEW_SLICES else slices
