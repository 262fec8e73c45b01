"""Revenue rows: what csAUC of every slice needs, and no more."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.compact.score_cells import score_cells
from evaluation.compact.slice_order import SliceCodes, opens_slice, slice_totals


@dataclass(frozen=True, slots=True, eq=False)
class RevenueRows:
    """Samples with 0 or 1 as outcome, sorted by slice and rank basis, of shape (r,) each.

    Attributes
    ----------
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
        rivals = slice_totals(cells, self.weights, len(cells))[cells] - 1.0
        unsure = slice_totals(self.slices, paid * rivals, n_slices)
        others = slice_totals(self.slices, np.where(self.positive, 0.0, self.weights), n_slices)
        whole = slice_totals(self.slices, paid, n_slices) * others
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
