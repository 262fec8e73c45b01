"""What every calibrator can do, how much is enough to fit one, and the identity."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from numpy.typing import ArrayLike

from calibrators.bins.bins import Bins, WeightedSamples
from calibrators.bins.table import BinsTable
from calibrators.maps.calibration_map import CalibrationMap, MapColumns

Prior = CalibrationMap | None
"""The map of the level above, for calibrators that lean on one."""

BegunFits = Callable[[Prior], MapColumns]
"""From the prior to the maps of campaigns whose bins were seen before it was known."""


class Calibrator(ABC):
    """Fits calibration maps; holds its settings only, so one serves any number of campaigns.

    Equal input gives the equal map, in any order of samples; a weight of k equals k repetitions;
    outcomes may be fractional (expected conversions).
    """

    name: ClassVar[str]
    monotone: ClassVar[bool] = True
    """Whether its maps keep the order of scores; only such calibrators may serve."""
    leans: ClassVar[bool] = False
    """Whether its maps depend on the prior."""

    def fit(
        self, scores: ArrayLike, outcomes: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> CalibrationMap:
        """The map of raw samples, (n,) each: scores and outcomes in [0, 1], weights at least 0.

        Raises ValueError on other values, on unequal lengths, and when no weight is above 0.
        """
        return self.fit_weighted(WeightedSamples.from_samples(scores, outcomes, sample_weight))

    def fit_bins(self, bins: Bins, prior: Prior = None) -> CalibrationMap:
        """The map of sufficient statistics; ValueError when they are empty.

        `prior` is the parent's map, for calibrators that can lean on one; the others ignore it.
        """
        return self.fit_weighted(WeightedSamples.from_bins(bins), prior)

    def begin_table(self, table: BinsTable) -> BegunFits:
        """`fit_bins` of each campaign of a table, in its order, as far as it can be done before the
        prior is known: only what the rest needs is kept of the table."""
        if self.leans:
            packed = table.to_bytes()
            return lambda prior: self._maps(BinsTable.from_bytes(packed), prior)
        maps = self._maps(table, None)
        return lambda _: maps

    def _maps(self, table: BinsTable, prior: Prior) -> MapColumns:
        return MapColumns.of_maps([self.fit_bins(bins, prior) for _, bins in table])

    @abstractmethod
    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The map of distinct scores with weights and positives."""


class Identity(Calibrator):
    """The baseline that every calibrator is measured against.

    Source: "No calibration" of Table 1 in Deng et al., Calibrating User Response Predictions in
    Online Advertising.
    """

    name: ClassVar[str] = "identity"

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The identity, whatever the data."""
        return CalibrationMap.identity()
