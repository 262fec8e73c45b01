"""Weighted samples with equal scores put together: what most calibrators really look at."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.bins.bins import Bins
from calibrators.samples import Floats, Samples, check_samples


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSamples:
    """Distinct scores ascending, their weights (> 0) and their positives (weight x outcome), (m,).

    The order of samples and the ties among them cannot matter any more.
    """

    scores: Floats
    weights: Floats
    positives: Floats

    @classmethod
    def from_samples(
        cls, scores: ArrayLike, outcomes: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Of raw samples, (n,) each; ValueError as `check_samples` and `check_some`."""
        samples = check_samples(scores, outcomes, sample_weight)
        check_some(float(samples.weights.sum()))
        if _are_plain(samples):
            return cls._of_plain(samples.scores + 0.0, samples.outcomes > 0)
        # Sorted by all three, so that float sums do not depend on the order of the samples.
        order = np.lexsort((samples.outcomes, samples.weights, samples.scores))
        held = order[samples.weights[order] > 0]
        distinct, place = np.unique(samples.scores[held] + 0.0, return_inverse=True)
        weighted = samples.weights[held] * samples.outcomes[held]
        return cls(
            distinct,
            np.bincount(place, samples.weights[held]).astype(np.float64),
            np.bincount(place, weighted).astype(np.float64),
        )

    @classmethod
    def _of_plain(cls, scores: Floats, positive: NDArray[np.bool_]) -> Self:
        """Of samples that are counted: sorting them costs a third of sorting their places."""
        ordered = np.sort(scores)
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        distinct = ordered[starts]
        # What is sought in order is found without a jump.
        places = np.searchsorted(distinct, np.sort(scores[positive]))
        return cls(
            distinct,
            np.diff(starts, append=len(ordered)).astype(np.float64),
            np.bincount(places, minlength=len(distinct)).astype(np.float64),
        )

    @classmethod
    def from_bins(cls, bins: Bins) -> Self:
        """Of bins: each cell stands at its mean score."""
        scores, outcomes, weights = bins.samples()
        check_some(float(weights.sum()))
        return cls(scores, weights, outcomes * weights)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def total_positives(self) -> float:
        """Sum of the positives."""
        return float(self.positives.sum())


def _are_plain(samples: Samples) -> bool:
    """Whether all outcomes are 0 or 1 and all weights 1: then sums are counts, in any order."""
    outcomes = samples.outcomes
    return bool((samples.weights == 1.0).all() and ((outcomes == 0.0) | (outcomes == 1.0)).all())


def check_some(weight: float) -> None:
    """Raises ValueError when there is nothing to fit from."""
    if not weight > 0:
        raise ValueError("nothing to fit from: no samples with a weight above 0")
