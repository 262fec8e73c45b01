"""Smoothed isotonic regression of many campaigns at once."""

from dataclasses import dataclass

import numpy as np

from calibrators.bins_table import BinsTable
from calibrators.calibration_map import CalibrationMap
from calibrators.campaign_bins import CampaignBins
from calibrators.campaign_pools import pool_each
from calibrators.map_columns import MapColumns
from calibrators.samples import Floats, Integers
from calibrators.score_bins import Anchor


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
        return _pooled(CampaignBins.of_table(table, self.bin_size))

    def finish(self, pools: CampaignBins, prior: CalibrationMap | None) -> MapColumns:
        """The maps of pools that were begun."""
        if not len(pools):
            return MapColumns.of_maps([])
        if prior is not None:
            leaning = pools.bins.leaning_on(prior, self.prior_strength)
            pools = _pooled(CampaignBins(leaning, pools.offsets))
        pools = _apart(pools, pools.bins.anchors(self.anchor))
        values = _never_falling(pools.bins.values, pools.offsets)
        return with_proportional_tails(pools.bins.anchors(self.anchor), values, pools.offsets)


def _pooled(pools: CampaignBins) -> CampaignBins:
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
