"""Temperature scaling: one factor on the log-odds."""

from typing import ClassVar

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.log_odds_curve import LogOddsCurve
from calibrators.log_odds_regression import fit_log_odds, log_odds_columns
from calibrators.tally import Tally


class Temperature(Calibrator):
    """Temperature scaling: logit q = logit x / T, that is, a slope 1 / T of at least 0.

    Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017. It mends scores that
    are too sure or not sure enough; it cannot move a score of 1/2, nor a wrong level.

    >>> calibration_map = Temperature().fit([0.2, 0.8], [0.4, 0.6])
    >>> calibration_map([0.2, 0.5, 0.8]).round(3)
    array([0.4, 0.5, 0.6])
    """

    name: ClassVar[str] = "temperature"

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        low, high = log_odds_columns(tally.scores)
        (slope,), _ = fit_log_odds((low + high,), tally.weights, tally.positives, level=False)
        return LogOddsCurve(slope, slope, 0.0).sampled()
