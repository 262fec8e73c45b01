"""No calibration: the score is the probability."""

from typing import ClassVar

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.tally import Tally


class Identity(Calibrator):
    """The baseline that every calibrator is measured against.

    Source: "No calibration" of Table 1 in Deng et al., Calibrating User Response Predictions in
    Online Advertising.
    """

    name: ClassVar[str] = "identity"

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The identity, whatever the data."""
        return CalibrationMap.identity()
