"""Beta calibration: the log-odds of a ratio of two beta densities."""

from typing import ClassVar

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.log_odds_curve import LogOddsCurve
from calibrators.log_odds_regression import fit_log_odds, log_odds_columns
from calibrators.tally import Tally


class Beta(Calibrator):
    """Beta calibration: logit q = a ln x - b ln(1 - x) + c, a and b at least 0.

    Source: Kull, Silva Filho and Flach, Beta Calibration, AISTATS 2017; the baseline Beta of Deng
    et al., section 5.1. As there, a slope that comes out negative is dropped and the rest fitted
    again; the identity is inside the family.

    >>> calibration_map = Beta().fit([0.2, 0.5, 0.8], [0.1, 0.5, 0.9])
    >>> calibration_map([0.2, 0.5, 0.8]).round(3)
    array([0.1, 0.5, 0.9])
    """

    name: ClassVar[str] = "beta"

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        columns = log_odds_columns(tally.scores)
        (a, b), c = fit_log_odds(columns, tally.weights, tally.positives)
        return LogOddsCurve(a, b, c).sampled()
