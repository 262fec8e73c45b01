"""Smoothed Isotonic Regression: equal-frequency bins, pooled where they violate, interpolated."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from calibrators.bins import Bins
from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.calibrator import BegunFits, Calibrator
from calibrators.campaign_bins import CampaignBins
from calibrators.campaign_maps import CampaignMaps
from calibrators.equal_frequency import bin_count, bin_starts, equal_cuts
from calibrators.grid import GRID, Grid
from calibrators.map_columns import MapColumns
from calibrators.pooling import pool_adjacent_violators
from calibrators.samples import Floats, Integers
from calibrators.score_bins import Anchor, ScoreBins
from calibrators.tails import Tails, knots_with_tails
from calibrators.tally import Tally, check_some

_CELLS = 1 << 16
"""Cells that are fitted from at once: what is worked out for each stays in the cache."""


@dataclass(frozen=True, slots=True)
class SmoothedIsotonic(Calibrator):
    """Smoothed Isotonic Regression (SIR).

    Source: Deng et al., Calibrating User Response Predictions in Online Advertising, Algorithm 1:
    K = floor(N / n) bins of equal frequency; adjacent bins are pooled until their means strictly
    increase; the map is linear between the bins' anchors.

    Where the paper is silent: no remainder is dropped (bin sizes differ by at most one); a cut
    inside a run of equal scores moves to the run's end; with fewer than 2n samples one bin is left
    and the map is one ratio; a pooled bin is anchored at its mean score ("midpoint" is the paper's
    (l + u) / 2, which flattens the top of skewed scores); beyond the outermost anchors the map
    continues in proportion to the score.

    Parameters: bin_size, samples in a bin (n, at least 1); anchor; tails (see `Tails`);
    prior_strength, the pseudo-samples k with which a prior map p joins each pooled bin,
    (positives + k p(mean score)) / (count + k), pooled once more where that breaks the order: with
    a prior no bin is 0, so no ad is muted.

    >>> calibration_map = SmoothedIsotonic(bin_size=2).fit([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1])
    >>> calibration_map([0.15, 0.25, 0.35])
    array([0.  , 0.25, 0.5 ])
    """

    name: ClassVar[str] = "sir"
    leans: ClassVar[bool] = True

    bin_size: float = 1000
    anchor: Anchor = "mean"
    tails: Tails = "proportional"
    prior_strength: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.bin_size < np.inf:
            raise ValueError(f"bin_size = {self.bin_size}: must be at least 1 and finite")
        if not 0 <= self.prior_strength < np.inf:
            raise ValueError(f"prior_strength = {self.prior_strength}: must be finite, at least 0")
        for name, value, known in (
            ("anchor", self.anchor, ("mean", "midpoint")),
            ("tails", self.tails, ("proportional", "clip", "unit", "extend")),
        ):
            if value not in known:
                raise ValueError(f"{name} = {value!r}: must be one of {', '.join(known)}")

    def fit_tally(self, tally: Tally, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The map of raw samples: bins end at the end of a run of equal scores."""
        return self.interpolate(_bins_of_runs(tally, self.bin_size), prior)

    def fit_bins(self, bins: Bins, prior: CalibrationMap | None = None) -> CalibrationMap:
        """The map of sufficient statistics: a cell that a cut falls into is split in proportion."""
        held = bins.counts > 0
        check_some(float(held.any()))
        cells = bins.cells if held.all() else bins.cells[held]
        return self.interpolate(bins_of_cells(GRID, cells, *bins.samples(), self.bin_size), prior)

    def fit_table(self, table: BinsTable, prior: CalibrationMap | None = None) -> MapColumns:
        """Maps of all campaigns in one go; other tails than proportional ones one by one."""
        if self.tails != "proportional":
            return Calibrator.fit_table(self, table, prior)
        return self.begin_table(table)(prior)

    def begin_table(self, table: BinsTable) -> BegunFits:
        """Only the pools wait for the prior: few, however many cells they are of."""
        if self.tails != "proportional":
            return Calibrator.begin_table(self, table)
        maps = CampaignMaps(self.bin_size, self.anchor, self.prior_strength)
        parts = [maps.begin(part) for part in table.slices(_CELLS)]
        return partial(maps.finish, CampaignBins.end_to_end(parts))

    def interpolate(self, bins: ScoreBins, prior: CalibrationMap | None) -> CalibrationMap:
        """Phases 2 and 3: pool the violators, draw the line through the anchors, add the tails."""
        pools = _pooled(bins)
        if prior is not None:
            # After pooling: bins without positives stay one pool, not a staircase of pseudo-rates.
            pools = _pooled(pools.leaning_on(prior, self.prior_strength))
        anchors = pools.anchors(self.anchor)
        # Rounding can leave two anchors of one cell equal; a map needs them apart.
        apart = np.concatenate(([0], np.flatnonzero(anchors[1:] > anchors[:-1]) + 1))
        pools = pools if len(apart) == len(anchors) else pools.pooled(apart)
        # Nor may the rounding of a pool's mean undo the order that pooling made.
        return knots_with_tails(
            pools.anchors(self.anchor), np.maximum.accumulate(pools.values), self.tails
        )


def _pooled(bins: ScoreBins) -> ScoreBins:
    return bins.pooled(pool_adjacent_violators(bins.weights, bins.values))


def _bins_of_runs(tally: Tally, bin_size: float) -> ScoreBins:
    reached = np.cumsum(tally.weights)
    starts = bin_starts(reached, bin_count(float(reached[-1]), bin_size, len(reached)))
    scores, weights = tally.scores, tally.weights
    return ScoreBins(scores, scores, weights, weights * scores, tally.positives).pooled(starts)


def bins_of_cells(
    grid: Grid, cells: Integers, means: Floats, outcomes: Floats, weights: Floats, bin_size: float
) -> ScoreBins:
    """Equal-frequency bins of exactly equal weight from the cells of a grid, (m,) each.

    A cell that a cut falls into is split in proportion; its scores are taken as spread evenly
    around their mean, inside the cell. Raises ValueError when there is no cell.
    """
    check_some(len(cells))
    lower, upper = grid.edges(cells)
    means = np.minimum(np.maximum(means, lower), upper)
    spread = np.minimum(means - lower, upper - means)
    reached = np.add.accumulate(weights)
    total = float(reached[-1])
    cuts = equal_cuts(total, bin_count(total, bin_size, len(cells)))[1:-1]
    cell = reached.searchsorted(cuts)
    # Of the cut cells. Taking costs a third of indexing, for so few.
    weight, mean, width = weights.take(cell), means.take(cell), spread.take(cell)
    left = (reached.take(cell) - cuts) / weight
    edges = mean + width * (1 - 2 * left)
    starts = means - spread
    following = np.where(left > 0, edges, starts.take(cell + 1, mode="clip"))
    above = weight * left * (mean + width * (1 - left))
    return ScoreBins(
        np.concatenate((starts[:1], following)),
        np.concatenate((edges, [means[-1] + spread[-1]])),
        _steps(cuts, total),
        _between(weights * means, cell, above),
        _between(weights * outcomes, cell, weight * left * outcomes.take(cell)),
    )


def _between(sums: Floats, cell: Integers, above: Floats) -> Floats:
    """Sums between the cuts, where `above` is the part of the cut cell that lies above its cut."""
    reached = np.add.accumulate(sums)
    return np.maximum(_steps(reached.take(cell) - above, reached[-1]), 0.0)


def _steps(reached: Floats, total: float) -> Floats:
    """Differences of 0, the values reached and the total."""
    ends = np.empty(len(reached) + 2)
    ends[0], ends[1:-1], ends[-1] = 0.0, reached, total
    return ends[1:] - ends[:-1]
