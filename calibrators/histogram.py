"""Histogram binning: equal-frequency bins, each with its own mean outcome."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import Calibrator
from calibrators.equal_frequency import bin_count, bin_starts
from calibrators.steps import borders_between, step_map
from calibrators.tally import Tally


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

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """A step for each bin; bins end at the end of a run of equal scores."""
        reached = np.cumsum(tally.weights)
        bins = bin_count(float(reached[-1]), self.bin_size, len(reached))
        starts = bin_starts(reached, bins)
        weights, positives = (
            np.add.reduceat(column, starts) for column in (tally.weights, tally.positives)
        )
        borders = borders_between(tally.scores)[starts[1:] - 1]
        return step_map(borders, np.minimum(positives / weights, 1.0))
