"""Smoothed Isotonic Regression: equal-frequency bins, pooled where they violate, interpolated.

Smoothed isotonic regression of many campaigns at once.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from calibrators.bins.bins import Bins
from calibrators.bins.grid import GRID, Grid
from calibrators.bins.table import BinsTable
from calibrators.bins.weighted_samples import WeightedSamples, check_some
from calibrators.maps.calibration_map import CalibrationMap, MapColumns, Tails, knots_with_tails
from calibrators.methods.calibrator import BegunFits, Calibrator
from calibrators.methods.equal_frequency import (
    Anchor,
    CampaignBins,
    ScoreBins,
    bin_count,
    bin_starts,
    equal_cuts,
)
from calibrators.methods.pooling import pool_adjacent_violators, pool_each
from calibrators.samples import Floats, Integers


@dataclass(frozen=True, slots=True)
class CampaignMaps:
    """`SmoothedIsotonic.fit_bins` of each campaign of a table, to the last bit, with tails in
    proportion; the parameters are its own.

    Steps that look at one bin at a time take all campaigns in one go, whatever their number.
    """

    bin_size: float
    anchor: Anchor
    prior_strength: float

    def fit(self, table: BinsTable, prior: CalibrationMap | None) -> MapColumns:
        """The maps in the order of the table's campaigns; ValueError where one has no samples."""
        return self.finish(self.begin(table), prior)

    def begin(self, table: BinsTable) -> CampaignBins:
        """What comes before the prior: bins of equal frequency, the violators pooled."""
        return _pool_campaigns(CampaignBins.of_table(table, self.bin_size))

    def finish(self, pools: CampaignBins, prior: CalibrationMap | None) -> MapColumns:
        """The maps of pools that were begun."""
        if not len(pools):
            return MapColumns.of_maps([])
        if prior is not None:
            leaning = pools.bins.leaning_on(prior, self.prior_strength)
            pools = _pool_campaigns(CampaignBins(leaning, pools.offsets))
        pools = _apart(pools, pools.bins.anchors(self.anchor))
        values = _never_falling(pools.bins.values, pools.offsets)
        return with_proportional_tails(pools.bins.anchors(self.anchor), values, pools.offsets)


def _pool_campaigns(pools: CampaignBins) -> CampaignBins:
    starts = pool_each(pools.bins.weights, pools.bins.values, pools.offsets)
    return pools.pooled(starts)


def _apart(pools: CampaignBins, anchors: Floats) -> CampaignBins:
    """Pools of one campaign whose anchors rounding has made equal, put together."""
    apart = np.ones(len(anchors), bool)
    apart[1:] = anchors[1:] > anchors[:-1]
    apart[pools.offsets[:-1]] = True
    return pools if apart.all() else pools.pooled(np.flatnonzero(apart))


def _never_falling(values: Floats, offsets: Integers) -> Floats:
    """The largest value so far in each campaign; rounding alone makes one fall."""
    inside = np.ones(len(values), bool)
    inside[offsets[:-1]] = False
    values = values.copy()
    while (falls := np.flatnonzero(inside[1:] & (values[1:] < values[:-1]))).size:
        values[falls + 1] = values[falls]
    return values


def with_proportional_tails(anchors: Floats, values: Floats, offsets: Integers) -> MapColumns:
    """`knots_with_tails` of each campaign's anchors, (k,), "proportional" beyond the outermost."""
    first, last = offsets[:-1], offsets[1:] - 1
    has_low, has_high = anchors[first] > 0.0, anchors[last] < 1.0
    reached, crossing = _high_tails(anchors[last], values[last])
    bends = has_high & (crossing < 1.0)
    lengths = np.diff(offsets) + has_low + bends + has_high
    ends = np.cumsum(lengths)
    places = np.repeat(ends - lengths + has_low - first, np.diff(offsets)) + np.arange(len(anchors))
    # Knots of the low tail are (0, 0), as the arrays begin.
    knots, heights = np.zeros((2, int(lengths.sum())))
    # Adding 0.0 turns -0.0 into 0.0, as `CalibrationMap` does.
    knots[places], heights[places] = anchors + 0.0, values + 0.0
    at_bend, at_end = ends[bends] - 2, ends[has_high] - 1
    knots[at_bend], heights[at_bend] = crossing[bends], 1.0
    knots[at_end], heights[at_end] = 1.0, reached[has_high]
    return MapColumns(lengths, knots, heights)


def _high_tails(anchors: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Value at score 1, at most 1, and where the tail reaches 1 (1.0: nowhere before)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reached = np.where(anchors == 0.0, values, values / anchors)
        crossing = anchors + (1.0 - values) / (reached - values) * (1.0 - anchors)
    crossing = np.where(crossing == anchors, np.nextafter(anchors, 1.0), crossing)
    return np.minimum(reached, 1.0), np.where(reached > 1.0, crossing, 1.0)


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

    def fit_tally(
        self, tally: WeightedSamples, prior: CalibrationMap | None = None
    ) -> CalibrationMap:
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


def _bins_of_runs(tally: WeightedSamples, bin_size: float) -> ScoreBins:
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
