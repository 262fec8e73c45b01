"""Predictions with bids: what the metrics of revenue accept."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths, check_not_negative
from evaluation.predictions import Predictions


@dataclass(frozen=True, slots=True, eq=False)
class PricedPredictions:
    """Predictions of clicks that did or did not come, and the bid for each, shape (n,)."""

    predictions: Predictions
    bids: Floats

    @classmethod
    def check(
        cls, p: ArrayLike, y: ArrayLike, bids: ArrayLike, sample_weight: ArrayLike | None
    ) -> Self:
        """The samples as float64.

        As for `Predictions.check`, but outcomes are 0 or 1; bids are finite and not negative.
        Raises ValueError that names the first offending value.
        """
        predictions = Predictions.check(p, y, sample_weight)
        _check_classes(predictions.outcomes)
        checked = check_not_negative("bids", bids)
        check_equal_lengths(probabilities=predictions.probabilities, bids=checked)
        return cls(predictions, checked)

    @property
    def scores(self) -> Floats:
        """Probability times bid, what an auction ranks by, shape (n,)."""
        return self.predictions.probabilities * self.bids

    @property
    def revenue(self) -> Floats:
        """Bid of each positive, 0 of each negative, shape (n,)."""
        return self.predictions.outcomes * self.bids

    @property
    def weights(self) -> Floats:
        """Of the samples, shape (n,)."""
        return self.predictions.weights


def _check_classes(outcomes: Floats) -> None:
    whole = (outcomes == 0.0) | (outcomes == 1.0)
    if not whole.all():
        first = int(np.argmin(whole))
        raise ValueError(
            f"outcomes[{first}] = {outcomes[first]}: every value must be 0 or 1, a click or none"
        )
