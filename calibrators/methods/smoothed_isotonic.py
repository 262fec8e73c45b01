"""Smoothed Isotonic Regression: equal-frequency bins, pooled where they violate, interpolated."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID, Bins, WeightedSamples
from calibrators.bins.table import BinsTable
from calibrators.maps.calibration_map import CalibrationMap, MapColumns, Tails, knots_with_tails
from calibrators.methods.calibrator import BegunFits, Calibrator, Prior
from calibrators.methods.equal_frequency import (
    Anchor,
    CampaignBins,
    ScoreBins,
    bins_of_cells,
    equal_frequency_starts,
)
from calibrators.methods.isotonic import isotonic_regression
from calibrators.samples import Floats, Integers

PRIOR_STRENGTH: Final = 5.0
"""Pseudo-samples of the prior in each bin; the published algorithm has none."""

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
    prior_strength: float = PRIOR_STRENGTH

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

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The map of raw samples: bins end at the end of a run of equal scores."""
        starts = equal_frequency_starts(data.weights, self.bin_size)
        columns = (data.scores, data.scores, data.weights, data.weights * data.scores)
        return self.interpolate(ScoreBins(*columns, data.positives).pooled(starts), prior)

    def fit_bins(self, bins: Bins, prior: Prior = None) -> CalibrationMap:
        """The map of sufficient statistics: a cell that a cut falls into is split in proportion."""
        cells = bins.cells[bins.counts > 0]
        offsets = np.array([0, len(cells)])
        found = bins_of_cells(GRID, cells, bins.samples(), offsets, self.bin_size)
        return self.interpolate(found.bins, prior)

    def begin_table(self, table: BinsTable) -> BegunFits:
        """Of all campaigns in one go, `fit_bins` to the last bit; only the pools wait for the
        prior: few, however many cells they are of. Other tails than proportional go one by one."""
        if self.tails != "proportional":
            return Calibrator.begin_table(self, table)
        parts = [
            _pooled(CampaignBins.of_table(part, self.bin_size)) for part in table.slices(_CELLS)
        ]
        return partial(self._finished, CampaignBins.end_to_end(parts))

    def interpolate(self, bins: ScoreBins, prior: Prior) -> CalibrationMap:
        """Phases 2 and 3: pool the violators, draw the line through the anchors, add the tails."""
        pools = _pooled(CampaignBins(bins, np.array([0, len(bins.weights)])))
        anchors, values, _ = self._anchored(pools, prior)
        return knots_with_tails(anchors, values, self.tails)

    def _finished(self, pools: CampaignBins, prior: Prior) -> MapColumns:
        if not len(pools):
            return MapColumns.of_maps([])
        return with_proportional_tails(*self._anchored(pools, prior))

    def _anchored(self, pools: CampaignBins, prior: Prior) -> tuple[Floats, Floats, Integers]:
        """Anchors and values of pools, (k,), and where each campaign's begin, (c + 1,)."""
        if prior is not None:
            # After pooling: bins without positives stay one pool, not a staircase of pseudo-rates.
            leaning = pools.bins.leaning_on(prior, self.prior_strength)
            pools = _pooled(CampaignBins(leaning, pools.offsets))
        # Rounding can leave two anchors of one cell equal; a map needs them apart.
        pools = _apart(pools, pools.bins.anchors(self.anchor))
        values = _never_falling(pools.bins.values, pools.offsets)
        return pools.bins.anchors(self.anchor), values, pools.offsets


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


_EQUAL = 1 + 1e-9
"""Means this close are equal but for rounding, which must not decide whether two bins pool."""


def pool_adjacent_violators(weights: Floats, values: Floats) -> Integers:
    """Which bins form a pool: the first bin of each, shape (k,), ascending.

    Pools are the fewest whose weighted mean values strictly increase: weighted isotonic regression.
    Weights are above 0. O(number of bins).
    """
    _, starts = isotonic_regression(values, weights)
    pooled = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / pooled
    rises = strictly_increase(means)
    if rises.all():
        return starts
    equal = (np.flatnonzero(~rises) + 1).tolist()
    return starts[_pool_equals(pooled.tolist(), means.tolist(), equal)]


def strictly_increase(means: Floats) -> NDArray[np.bool_]:
    """Whether each mean but the first lies above the one before by more than rounding, (k - 1,)."""
    return means[1:] > means[:-1] * _EQUAL


def _pool_equals(weights: list[float], values: list[float], equal: list[int]) -> list[int]:
    """Isotonic regression leaves bins of equal means apart; this pools them too, with a stack.

    `equal` are the bins that do not lie above the one before, ascending; the others are only
    looked at behind a pool.
    """
    starts: list[int] = []
    pooled: list[tuple[float, float]] = []
    done = 0
    for place in equal:
        starts.extend(range(done, place))
        pooled.extend(zip(weights[done:place], values[done:place], strict=True))
        done = max(done, place)
        while done < len(values) and _pooled_with_top(weights[done], values[done], starts, pooled):
            done += 1
    starts.extend(range(done, len(values)))
    return starts


def _pooled_with_top(
    weight: float, value: float, starts: list[int], pooled: list[tuple[float, float]]
) -> bool:
    """Put the next bin into the pool before it, if it belongs there, and that where it belongs."""
    merged = False
    while pooled and value <= pooled[-1][1] * _EQUAL:
        top_weight, top_value = pooled.pop()
        value = (value * weight + top_value * top_weight) / (weight + top_weight)
        weight += top_weight
        first = starts.pop()
        merged = True
    if merged:
        starts.append(first)
        pooled.append((weight, value))
    return merged


def pool_each(weights: Floats, values: Floats, offsets: Integers) -> Integers:
    """`pool_adjacent_violators` of each campaign: the first bin of every pool, ascending.

    The bins of campaign i stand at offsets[i]:offsets[i + 1]; there is at least one. Most campaigns
    have few bins, and in order: these are seen at once, and only the others gone through.
    """
    starts = np.ones(len(values), bool)
    sizes = np.diff(offsets)
    for campaign in np.flatnonzero(_disordered(weights, values, offsets)).tolist():
        bins = slice(offsets[campaign], offsets[campaign + 1])
        starts[bins] = False
        # Two bins out of order are one pool.
        pools = np.zeros(1, np.int64)
        if sizes[campaign] > 2:
            pools = pool_adjacent_violators(weights[bins], values[bins])
        starts[bins.start + pools] = True
    return np.flatnonzero(starts)


def _disordered(weights: Floats, values: Floats, offsets: Integers) -> Integers:
    """How many bins of each campaign do not lie clearly above the one before."""
    rises = np.ones(len(values), bool)
    rises[1:] = (values[1:] > values[:-1]) & strictly_increase(weights * values / weights)
    rises[offsets[:-1]] = True
    return np.add.reduceat(~rises, offsets[:-1], dtype=np.int64)
