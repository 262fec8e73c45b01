"""Isotonic regression: the monotone map closest to the outcomes, sample by sample."""

from typing import ClassVar

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.samples import Floats, Integers
from calibrators.scipy_functions import isotonic_regression
from calibrators.tails import knots_with_tails
from calibrators.tally import Tally


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

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """Scores that share a value with both neighbours are no knots: prediction needs none."""
        rates = np.minimum(tally.positives / tally.weights, 1.0)
        fitted, _ = isotonic_regression(rates, tally.weights)
        # The rounding of a pool's mean may not leave [0, 1], nor undo the order.
        values = np.maximum.accumulate(np.clip(fitted, 0.0, 1.0))
        kept = _corners(values)
        return knots_with_tails(tally.scores[kept], values[kept], "clip")


def _corners(values: Floats) -> Integers:
    """Where the value differs from the one before or after; the first if all are equal."""
    changes = np.diff(values) != 0
    corners = np.append(changes, False) | np.append(False, changes)
    return np.flatnonzero(corners) if changes.any() else np.array([0])
