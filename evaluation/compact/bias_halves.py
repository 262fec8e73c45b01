"""Splitting compact rows into those that a bias is fitted on and the rest."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats
from evaluation.compact.compact_rows import CompactRows


@dataclass(frozen=True, slots=True, eq=False)
class BiasHalves:
    """Every row in four: its positives and negatives, drawn for the bias and not.

    Attributes
    ----------
    probabilities, outcomes, weights : (4 r,), as `calibrated_losses` takes them; outcomes are 0
        or 1, and weights may be 0.
    bias_rows : (4 r,) True where the bias is fitted.
    """

    probabilities: Floats
    outcomes: Floats
    weights: Floats
    bias_rows: NDArray[np.bool_]

    @classmethod
    def draw(cls, rows: CompactRows, share: float, rng: np.random.Generator) -> Self:
        """Each sample is drawn for the bias by chance, `share` of them; weights are whole.

        Samples of one row part as they would if they stood apart. Those with fractional outcomes
        keep the mean of their row.
        """
        drawn, clicks = _drawn(rows.positives, rows.weights, share, rng)
        parts = (clicks, drawn - clicks, rows.positives - clicks)
        weights = (*parts, rows.weights - sum(parts))
        size = len(rows)
        return cls(
            np.tile(rows.scores, 4),
            np.repeat((1.0, 0.0, 1.0, 0.0), size),
            np.maximum(np.concatenate(weights), 0.0),
            np.repeat((True, True, False, False), size),
        )

    @property
    def bias_has_both_classes(self) -> bool:
        """Whether the shift that fits the drawn samples is finite."""
        drawn, clicks = self.weights[self.bias_rows], self.outcomes[self.bias_rows] == 1.0
        return bool(drawn[clicks].any() and drawn[~clicks].any())


def _drawn(
    positives: Floats, weights: Floats, share: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Weight and positives of each row that are drawn."""
    if np.equal(positives, np.floor(positives)).all():
        clicks = rng.binomial(positives.astype(np.int64), share).astype(np.float64)
        return clicks + rng.binomial((weights - positives).astype(np.int64), share), clicks
    drawn = rng.binomial(weights.astype(np.int64), share).astype(np.float64)
    return drawn, positives * (drawn / weights)
