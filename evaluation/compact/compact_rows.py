"""Compact rows: the samples of every slice of a log, those of one score taken together."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats
from evaluation.compact.score_cells import (
    MANTISSA_BITS,
    inside_cells,
    least_dropped,
    score_cells,
)
from evaluation.compact.slice_order import SliceCodes, merging, opens_slice, slice_totals


@dataclass(frozen=True, slots=True, eq=False)
class CompactRows:
    """Samples sorted by slice and score, of shape (r,) each.

    Every metric of this package takes weighted rows with fractional outcomes, so these rows stand
    for the samples without loss as long as no digit of a score is dropped. With `dropped` digits,
    samples whose scores share a cell stand together at their mean score.

    Attributes
    ----------
    slices : code of the slice of each row, at least 0.
    scores : finite, at least 0.
    positives : sum of the outcomes of each row.
    weights : number of samples of each row, or their weight.
    dropped : binary digits of the scores that no longer tell rows apart; 0 is exact.
    """

    slices: SliceCodes
    scores: Floats
    positives: Floats
    weights: Floats
    dropped: int = 0

    @classmethod
    def of_sorted(
        cls,
        slices: SliceCodes,
        scores: Floats,
        positives: Floats,
        weights: Floats,
        dropped: int = 0,
    ) -> Self:
        """The rows of samples, (n,) each, that are sorted by slice and score."""
        cells = score_cells(scores, dropped)
        opens = (cells[1:] != cells[:-1]) | opens_slice(slices)
        if opens.all():
            return cls(slices, scores, positives, weights, dropped)
        starts = np.flatnonzero(np.concatenate((np.ones(1, bool), opens)))
        total = np.add.reduceat(weights, starts)
        means = np.add.reduceat(scores * weights, starts)
        means /= total
        return cls(
            slices[starts],
            inside_cells(means, cells[starts], dropped),
            np.add.reduceat(positives, starts),
            total,
            dropped,
        )

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def cells_per_octave(self) -> float | None:
        """Cells from a score to its double; None while rows are exact."""
        return 2.0 ** (MANTISSA_BITS - self.dropped) if self.dropped else None

    @property
    def outcomes(self) -> Floats:
        """Mean outcome of each row, (r,)."""
        return np.minimum(self.positives / self.weights, 1.0)

    def within(self, budget: int) -> "CompactRows":
        """These rows, with as few more digits dropped as leave at most `budget` of them.

        The result does not depend on what was merged when: dropping digits first from parts of
        the samples leads to the same cells.
        """
        if len(self) <= budget:
            return self
        digits = least_dropped(self.scores, opens_slice(self.slices), budget, self.dropped)
        return self.coarser(digits)

    def coarser(self, dropped: int) -> "CompactRows":
        """These rows with at least so many digits dropped."""
        if dropped <= self.dropped:
            return self
        return CompactRows.of_sorted(
            self.slices, self.scores, self.positives, self.weights, dropped
        )

    def merged(self, other: "CompactRows") -> "CompactRows":
        """The rows of both, with the more digits dropped of either."""
        dropped = max(self.dropped, other.dropped)
        ours, theirs = self.coarser(dropped), other.coarser(dropped)
        slices = np.concatenate((ours.slices, theirs.slices))
        scores = np.concatenate((ours.scores, theirs.scores))
        order = merging(slices, score_cells(scores, dropped))
        return CompactRows.of_sorted(
            slices[order],
            scores[order],
            np.concatenate((ours.positives, theirs.positives))[order],
            np.concatenate((ours.weights, theirs.weights))[order],
            dropped,
        )

    def auc_errors(self, n_slices: int) -> Floats:
        """By how much the AUC of each slice may be wrong at most, (n_slices,).

        Half the share of its positive-negative pairs that share a cell; 0 while rows are exact.
        """
        errors = np.zeros(n_slices)
        if self.dropped:
            negatives = self.weights - self.positives
            tied = slice_totals(self.slices, self.positives * negatives, n_slices)
            pairs = slice_totals(self.slices, self.positives, n_slices)
            pairs *= slice_totals(self.slices, negatives, n_slices)
            np.divide(tied, 2.0 * pairs, out=errors, where=pairs > 0.0)
        return errors
