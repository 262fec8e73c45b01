"""Rows of a log in memory, sorted once for all groupings, and what csAUC needs of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, sum_at
from evaluation.streaming.rows import (
    ALL_BITS,
    LEFT_OUT,
    CellRows,
    LogBatch,
    SliceCodes,
    inside_cells,
    opens_slice,
    score_cells,
    slice_order,
)

_FIRST, _STEP = 28, 3
"""Digits dropped at first, and further ones each time that is not enough."""


class PositivesByRevenue:
    """Positives sorted by slice, revenue score and bid, of shape (r,) each.

    slices : code of the slice of each row, at least 0.
    revenues : the rank basis, probability times bid.
    bids : what the click pays.
    weights : number of positives of each row.
    dropped : binary digits of revenues and bids that no longer tell rows apart.
    """

    def __init__(
        self, slices: SliceCodes, revenues: Floats, bids: Floats, weights: Floats, dropped: int = 0
    ) -> None:
        """The rows of positives in any order, (n,) each."""
        order = np.lexsort((bids, score_cells(revenues, dropped), slices))
        slices, revenues = slices[order], revenues[order]
        bids, weights = bids[order], weights[order]
        opens = opens_slice(slices)
        for column in (revenues, bids):
            cells = score_cells(column, dropped)
            opens |= cells[1:] != cells[:-1]
        starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(bids)), bool), opens)))
        total = np.add.reduceat(weights, starts) if len(starts) else weights
        self.slices, self.weights, self.dropped = slices[starts], total, dropped
        self.revenues = _means(revenues, weights, starts, total, dropped)
        self.bids = _means(bids, weights, starts, total, dropped)

    def __len__(self) -> int:
        return len(self.bids)

    def merged(self, other: "PositivesByRevenue") -> "PositivesByRevenue":
        """The rows of both, with the more digits dropped of either."""
        return PositivesByRevenue(
            np.concatenate((self.slices, other.slices)),
            np.concatenate((self.revenues, other.revenues)),
            np.concatenate((self.bids, other.bids)),
            np.concatenate((self.weights, other.weights)),
            max(self.dropped, other.dropped),
        )

    def within(self, budget: int) -> "PositivesByRevenue":
        """These rows, with more digits dropped while there are more than `budget` of them."""
        rows = self
        while len(rows) > budget and rows.dropped < ALL_BITS:
            digits = min(ALL_BITS, max(rows.dropped + _STEP, _FIRST))
            rows = PositivesByRevenue(rows.slices, rows.revenues, rows.bids, rows.weights, digits)
        return rows


def _means(
    values: Floats, weights: Floats, starts: Integers, total: Floats, dropped: int
) -> Floats:
    if not len(starts):
        return values
    means = np.add.reduceat(values * weights, starts) / total
    return inside_cells(means, score_cells(values[starts], dropped), dropped)


@dataclass(frozen=True, slots=True, eq=False)
class RevenueRows:
    """Samples with 0 or 1 as outcome, sorted by slice and rank basis, of shape (r,) each.

    slices : code of the slice of each row, at least 0.
    revenues : the rank basis, probability times bid.
    bids : what the click pays; those of negatives do not matter.
    positive : the class of each row.
    weights : number of samples of each row.
    dropped : binary digits of revenues (and of bids) that no longer tell rows apart; 0 is exact.
    """

    slices: SliceCodes
    revenues: Floats
    bids: Floats
    positive: NDArray[np.bool_]
    weights: Floats
    dropped: int = 0

    def squeezed(self) -> "RevenueRows":
        """These rows with the negatives between two positives as one; csAUC stays the same.

        It asks of a negative only which positives rank above it. With P positives there are at
        most 3 P rows and one for each slice.
        """
        if not len(self.slices):
            return self
        starts, clicked = self._stretches(), np.flatnonzero(self.positive)
        negatives = self.weights.copy()
        negatives[clicked] = 0.0
        negatives = np.add.reduceat(negatives, starts)
        starts, negatives = starts[negatives > 0.0], negatives[negatives > 0.0]
        places = np.concatenate((starts, clicked))
        order = np.argsort(places, kind="stable")
        rows, positive = places[order], order >= len(starts)
        return replace(
            self,
            slices=self.slices[rows],
            revenues=self.revenues[rows],
            bids=self.bids[rows],
            positive=positive,
            weights=np.concatenate((negatives, self.weights[clicked]))[order],
        )

    def errors(self, n_slices: int) -> Floats:
        """By how much the csAUC of each slice may be wrong at most, (n_slices,); before squeezing.

        The share of the money of pairs whose cells are the same; 0 while rows are exact, nan
        without pairs of a positive that pays and a negative.
        """
        if not self.dropped:
            return np.zeros(n_slices)
        paid = np.where(self.positive, self.bids * self.weights, 0.0)
        cells = self._cells()
        rivals = sum_at(cells, self.weights, len(cells))[cells] - 1.0
        unsure = sum_at(self.slices, paid * rivals, n_slices)
        others = sum_at(self.slices, np.where(self.positive, 0.0, self.weights), n_slices)
        whole = sum_at(self.slices, paid, n_slices) * others
        errors: Floats = np.divide(unsure, whole, out=np.full(n_slices, np.nan), where=whole > 0.0)
        return errors

    def _cells(self) -> Integers:
        """Number of the cell of each row, counted over all slices."""
        cells = score_cells(self.revenues, self.dropped)
        opens = (cells[1:] != cells[:-1]) | opens_slice(self.slices)
        return np.concatenate((np.zeros(min(1, len(cells)), np.int64), np.cumsum(opens)))

    def _stretches(self) -> Integers:
        """Where each stretch begins: rows of one revenue with a positive, or all between such."""
        new_slice = np.concatenate((np.ones(1, bool), opens_slice(self.slices)))
        opens = new_slice.copy()
        opens[1:] |= self.revenues[1:] != self.revenues[:-1]
        runs = np.append(np.flatnonzero(opens), len(opens))
        # Few rows are positive, so what is between them is not looked at again.
        clicked = np.searchsorted(runs, np.flatnonzero(self.positive), side="right")
        begins = np.concatenate((runs[clicked - 1], runs[clicked], np.flatnonzero(new_slice)))
        begins.sort()
        first = np.concatenate((np.ones(1, bool), begins[1:] != begins[:-1]))
        return begins[first & (begins < len(opens))]


Column = NDArray[Any]
_SCORES, _OUTCOMES, _BIDS, _WEIGHTS = "scores", "outcomes", "bids", "weights"
_FEW_SLICES = np.iinfo(np.int16).max


class RowsInMemory:
    """Columns that grow by batches, and are sorted together."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Column]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, batch: LogBatch) -> None:
        """Keep the rows of one more batch; all batches have the same columns and groupings."""
        classes = batch.classes
        columns: dict[str, Column] = {
            _SCORES: batch.scores,
            _OUTCOMES: batch.outcomes if classes is None else classes,
        }
        if batch.bids is not None:
            columns[_BIDS] = batch.bids
        if batch.weights is not None:
            columns[_WEIGHTS] = batch.weights
        for grouping, slices in batch.slices.items():
            if slices is not None:
                columns[_name(grouping)] = _short(slices)
        for name, column in columns.items():
            self._pieces.setdefault(name, []).append(column)
        self._length += len(batch)

    def sort_by_score(self) -> None:
        """Put the rows in order of their scores."""
        order = np.argsort(self.scores)
        for name in self._pieces:
            # One after the other, so that no more than one column is there twice.
            self._pieces[name] = [self._column(name)[order]]

    def cells(self, grouping: str, dropped: int) -> CellRows:
        """The cells of one grouping, with so many digits dropped; of rows sorted by score."""
        rows, slices = slice_order(self.slices(grouping))
        weights = self.weights(rows, len(slices))
        positives = self.outcomes[rows] * weights
        return CellRows.of_sorted(slices, self.scores[rows], positives, weights, dropped)

    def by_revenue(self) -> "RankedRows":
        """The rows sorted by probability times bid; for outcomes of 0 and 1 with bids."""
        return RankedRows(self)

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

    def weights(self, rows: Integers | slice, n: int) -> Floats:
        """The weights of some n rows, (n,)."""
        return self._column(_WEIGHTS)[rows] if _WEIGHTS in self._pieces else np.ones(n)

    def slices(self, grouping: str) -> SliceCodes:
        """Slices of the rows, (n,)."""
        name = _name(grouping)
        return self._column(name) if name in self._pieces else np.zeros(self._length, np.int8)

    def _column(self, name: str) -> Column:
        pieces = self._pieces[name]
        if len(pieces) > 1:
            self._pieces[name] = [np.concatenate(pieces)]
        return self._pieces[name][0]


class RankedRows:
    """Rows in order of revenue: which they are, their revenues and classes, (n,) each."""

    def __init__(self, rows: RowsInMemory) -> None:
        revenues = rows.scores * rows.bids
        self.rows, self.order = rows, np.argsort(revenues)
        self.revenues, self.positive = revenues[self.order], rows.outcomes[self.order]

    def exact(self, grouping: str) -> RevenueRows:
        """The rows of one grouping as csAUC needs them."""
        rows, slices = slice_order(self.rows.slices(grouping)[self.order])
        positive = self.positive[rows]
        bids = np.zeros(len(positive))
        clicked = np.flatnonzero(positive)
        places = clicked if isinstance(rows, slice) else rows[clicked]
        bids[clicked] = self.rows.bids[self.order[places]]
        weights = self.rows.weights(self.order[rows], len(positive))
        return RevenueRows(slices, self.revenues[rows], bids, positive, weights).squeezed()

    def negatives(self, grouping: str, dropped: int) -> CellRows:
        """The negatives of one grouping, with so many digits of the revenue dropped."""
        slices = self.rows.slices(grouping)[self.order]
        rows, slices = slice_order(np.where(self.positive, LEFT_OUT, slices))
        revenues = self.revenues[rows]
        weights = self.rows.weights(self.order[rows], len(revenues))
        return CellRows.of_sorted(slices, revenues, np.zeros(len(revenues)), weights, dropped)

    def paid(self, grouping: str, dropped: int) -> PositivesByRevenue:
        """The positives of one grouping, with so many digits of revenue and bid dropped."""
        clicked = np.flatnonzero(self.positive)
        held = self.order[clicked]
        slices = self.rows.slices(grouping)[held]
        kept = slices != LEFT_OUT
        revenues, bids = self.revenues[clicked[kept]], self.rows.bids[held[kept]]
        weights = self.rows.weights(held[kept], len(bids))
        return PositivesByRevenue(slices[kept], revenues, bids, weights, dropped)


def _name(grouping: str) -> str:
    return f"slices by {grouping}"


def _short(slices: SliceCodes) -> SliceCodes:
    return slices.astype(np.int16) if slices.max(initial=0) <= _FEW_SLICES else slices
