"""What csAUC needs of a log that is too long to be held."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.compact.compact_rows import CompactRows
from evaluation.compact.held_rows import RankedRows
from evaluation.compact.paid_rows import PaidRows
from evaluation.compact.revenue_rows import RevenueRows
from evaluation.compact.slice_order import sorting


@dataclass(frozen=True, slots=True, eq=False)
class RevenueTable:
    """Positives with their bids, which stay apart while they fit, and cells of negatives."""

    paid: PaidRows
    negatives: CompactRows

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
