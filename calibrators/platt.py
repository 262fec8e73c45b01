"""Platt scaling: a straight line in log-odds, fitted to smoothed targets."""

from typing import ClassVar

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.log_odds_curve import LogOddsCurve
from calibrators.log_odds_regression import fit_log_odds, log_odds_columns
from calibrators.samples import Floats
from calibrators.tally import Tally


class Platt(Calibrator):
    """Platt scaling of the score's log-odds: logit q = a logit x + c, a at least 0.

    Source: Platt, Probabilistic Outputs for Support Vector Machines, 1999. The outcomes 1 and 0
    become (P + 1) / (P + 2) and 1 / (N + 2), with P and N the weights of positives and negatives,
    so that no finite number of samples makes the map certain.

    >>> calibration_map = Platt().fit([0.2, 0.4], [0.25, 0.5], [4000, 4000])
    >>> calibration_map([0.2, 0.3, 0.4]).round(3)
    array([0.25 , 0.379, 0.5  ])
    """

    name: ClassVar[str] = "platt"

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        low, high = log_odds_columns(tally.scores)
        (slope,), level = fit_log_odds((low + high,), tally.weights, smoothed_positives(tally))
        return LogOddsCurve(slope, slope, level).sampled()


def smoothed_positives(tally: Tally) -> Floats:
    """Positives of each distinct score once the outcomes are Platt's targets, shape (m,)."""
    positives = np.minimum(tally.positives, tally.weights)
    negatives = tally.weights - positives
    total = float(positives.sum())
    high, low = (total + 1) / (total + 2), 1 / (float(negatives.sum()) + 2)
    return positives * high + negatives * low
