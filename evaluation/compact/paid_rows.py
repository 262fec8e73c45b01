"""Paid rows: the positives of every slice of a log with what they rank by and what they pay."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.compact.score_cells import ALL_BITS, inside_cells, score_cells
from evaluation.compact.slice_order import SliceCodes, opens_slice

_FIRST, _STEP = 28, 3
"""Digits dropped at first, and further ones each time that is not enough."""


@dataclass(frozen=True, slots=True, eq=False)
class PaidRows:
    """Positives sorted by slice, revenue score and bid, of shape (r,) each.

    Attributes
    ----------
    slices : code of the slice of each row, at least 0.
    revenues : the rank basis, probability times bid.
    bids : what the click pays.
    weights : number of positives of each row.
    dropped : binary digits of revenues and bids that no longer tell rows apart.
    """

    slices: SliceCodes
    revenues: Floats
    bids: Floats
    weights: Floats
    dropped: int = 0

    @classmethod
    def of(
        cls,
        slices: SliceCodes,
        revenues: Floats,
        bids: Floats,
        weights: Floats,
        dropped: int = 0,
    ) -> Self:
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
        return cls(
            slices[starts],
            _means(revenues, weights, starts, total, dropped),
            _means(bids, weights, starts, total, dropped),
            total,
            dropped,
        )

    def __len__(self) -> int:
        return len(self.bids)

    def merged(self, other: "PaidRows") -> "PaidRows":
        """The rows of both, with the more digits dropped of either."""
        return PaidRows.of(
            np.concatenate((self.slices, other.slices)),
            np.concatenate((self.revenues, other.revenues)),
            np.concatenate((self.bids, other.bids)),
            np.concatenate((self.weights, other.weights)),
            max(self.dropped, other.dropped),
        )

    def within(self, budget: int) -> "PaidRows":
        """These rows, with more digits dropped while there are more than `budget` of them."""
        rows = self
        while len(rows) > budget and rows.dropped < ALL_BITS:
            digits = min(ALL_BITS, max(rows.dropped + _STEP, _FIRST))
            rows = PaidRows.of(rows.slices, rows.revenues, rows.bids, rows.weights, digits)
        return rows


def _means(
    values: Floats, weights: Floats, starts: Integers, total: Floats, dropped: int
) -> Floats:
    if not len(starts):
        return values
    means = np.add.reduceat(values * weights, starts) / total
    return inside_cells(means, score_cells(values[starts], dropped), dropped)
