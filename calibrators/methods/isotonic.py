"""Isotonic regression and histogram binning."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrators.bins.bins import WeightedSamples
from calibrators.maps.calibration_map import (
    CalibrationMap,
    borders_between,
    knots_with_tails,
    step_map,
)
from calibrators.methods.calibrator import Calibrator, Prior
from calibrators.methods.equal_frequency import equal_frequency_starts
from calibrators.samples import Floats, Integers


class Isotonic(Calibrator):
    """Isotonic regression on distinct scores, linear between them, flat beyond the outermost.

    Source: Zadrozny and Elkan, Transforming Classifier Scores into Accurate Multiclass Probability
    Estimates, KDD 2002; the baseline IR of Deng et al., section 5.1. Minimises
    sum_i w_i (y_i - f(x_i))^2 over non-decreasing f. Its ends spike: the lowest scores often get
    0, the highest 1.

    >>> Isotonic().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])([0.0, 0.15, 0.25, 1.0])
    array([0.  , 0.25, 0.5 , 1.  ])
    """

    name: ClassVar[str] = "isotonic"

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """Scores that share a value with both neighbours are no knots: prediction needs none."""
        rates = np.minimum(data.positives / data.weights, 1.0)
        fitted, _ = isotonic_regression(rates, data.weights)
        # The rounding of a pool's mean may not leave [0, 1], nor undo the order.
        values = np.maximum.accumulate(np.clip(fitted, 0.0, 1.0))
        kept = _corners(values)
        return knots_with_tails(data.scores[kept], values[kept], "clip")


def isotonic_regression(values: Floats, weights: Floats) -> tuple[Floats, Integers]:
    """Weighted isotonic regression: the fitted values, and where each pool starts."""
    from scipy import optimize  # as `calibrators.samples.expit` does

    found = optimize.isotonic_regression(values, weights=weights)
    return found.x, found.blocks[:-1].astype(np.int64)


def _corners(values: Floats) -> Integers:
    """Where the value differs from the one before or after; the first if all are equal."""
    changes = np.diff(values) != 0
    corners = np.append(changes, False) | np.append(False, changes)
    return np.flatnonzero(corners) if changes.any() else np.array([0])


@dataclass(frozen=True, slots=True)
class Histogram(Calibrator):
    """Equal-frequency histogram binning: a score gets the mean outcome of its bin.

    Source: Zadrozny and Elkan, Obtaining Calibrated Probability Estimates from Decision Trees and
    Naive Bayesian Classifiers, ICML 2001. Bins as in Algorithm 1, Phase 1, of Deng et al.; a border
    lies halfway between the scores on its sides. Not monotone, and all scores of a bin become
    equal: a yardstick, not for serving.

    Parameters: bin_size, samples in a bin (n, at least 1).

    >>> calibration_map = Histogram(bin_size=2).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 0])
    >>> calibration_map([0.0, 0.25, 0.26, 1.0])
    array([0.5, 0.5, 0. , 0. ])
    """

    name: ClassVar[str] = "histogram"
    monotone: ClassVar[bool] = False

    bin_size: float = 1000

    def __post_init__(self) -> None:
        if not 1 <= self.bin_size < np.inf:
            raise ValueError(f"bin_size = {self.bin_size}: must be at least 1 and finite")

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """A step for each bin; bins end at the end of a run of equal scores."""
        starts = equal_frequency_starts(data.weights, self.bin_size)
        weights, positives = (
            np.add.reduceat(column, starts) for column in (data.weights, data.positives)
        )
        borders = borders_between(data.scores)[starts[1:] - 1]
        return step_map(borders, np.minimum(positives / weights, 1.0))
