"""Equal-frequency bins of weighted samples, of one campaign or of many at once."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import GRID, Grid, cell_means, check_some
from calibrators.bins.table import BinsTable
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.samples import Floats, Integers

MOST_BINS = 2**20
"""More bins than this only where there are more distinct scores."""

LAST_WHOLE = 2.0**53
"""From here on every float is whole, and counting single samples means nothing any more."""


def equal_frequency_starts(weights: Floats, bin_size: float) -> Integers:
    """`bin_starts` of bins of this size, from the weights of distinct scores, (m,)."""
    reached = np.cumsum(weights)
    bins = bin_counts(reached[-1:], bin_size, np.array([len(reached)]))
    return bin_starts(reached, int(bins.sum()))


def bin_starts(reached: Floats, bins: int) -> Integers:
    """First entry of each of at most `bins` bins, ascending from 0.

    `reached` are cumulative weights, shape (m,), one entry for each distinct score: a cut inside
    a run of equal scores moves to the run's end, and bins that this leaves empty vanish.
    """
    if not len(reached):
        return np.empty(0, np.int64)
    _, cuts = inner_cuts(reached[-1:], np.array([bins]))
    ends = np.searchsorted(reached, cuts)
    # The ends ascend already: only repetitions have to go.
    fresh = np.diff(ends, prepend=-1) > 0
    ends = ends[fresh & (ends < len(reached) - 1)]
    return np.concatenate(([0], ends + 1))


Anchor = Literal["mean", "midpoint"]


@dataclass(frozen=True, slots=True)
class ScoreBins:
    """Equal-frequency bins, (k,) each: score borders, sums of weight, score and outcome.

    Bins of many campaigns may stand end to end: every bin is worked out on its own.
    """

    lower: Floats
    upper: Floats
    weights: Floats
    score_sums: Floats
    positives: Floats

    @classmethod
    def end_to_end(cls, parts: Sequence["ScoreBins"]) -> "ScoreBins":
        """The bins of all parts, one part behind the other."""
        columns = ([getattr(part, column.name) for part in parts] for column in fields(ScoreBins))
        return cls(*(np.concatenate([np.empty(0), *column]) for column in columns))

    @property
    def values(self) -> Floats:
        """Mean outcome of each bin."""
        return np.minimum(self.positives / self.weights, 1.0)

    @property
    def mean_scores(self) -> Floats:
        """Mean score of each bin, inside its borders whatever the rounding."""
        return np.clip(self.score_sums / self.weights, self.lower, self.upper)

    def anchors(self, anchor: Anchor) -> Floats:
        """Where the line through each bin's value passes."""
        return (self.lower + self.upper) / 2 if anchor == "midpoint" else self.mean_scores

    def leaning_on(self, prior: CalibrationMap, strength: float) -> "ScoreBins":
        """Each bin joined by `strength` pseudo-samples at its mean score, with the prior's rate."""
        scores = self.mean_scores
        return ScoreBins(
            self.lower,
            self.upper,
            self.weights + strength,
            self.score_sums + strength * scores,
            self.positives + strength * prior(scores),
        )

    def pooled(self, starts: Integers) -> "ScoreBins":
        """Adjacent bins put together; `starts` are the first bins of the pools."""
        ends = np.append(starts[1:], len(self.lower)) - 1
        sums = (np.add.reduceat(c, starts) for c in (self.weights, self.score_sums, self.positives))
        return ScoreBins(self.lower[starts], self.upper[ends], *sums)


def bin_counts(totals: Floats, bin_size: float, distinct: Integers) -> Integers:
    """K = max(1, floor(N / n)) of each campaign, (c,), Algorithm 1 line 3 of Deng et al.

    Never more than its number of distinct scores or 2**20, whichever is more: weights of 1e12
    must not ask for more bins than memory holds.
    """
    most = np.maximum(MOST_BINS, distinct)
    return np.clip(totals // bin_size, 1, most).astype(np.int64)


def inner_cuts(totals: Floats, bins: Integers) -> tuple[Integers, Floats]:
    """Where the bins of each campaign end but the last, in cumulative weight, end to end: whose
    each cut is, and the cut.

    A whole total is cut after whole samples, cut k after sample (2kN + K) // (2K), so that sizes
    differ by at most one and no remainder is dropped; any other at exactly kN/K.
    """
    campaigns = np.repeat(np.arange(len(bins)), bins - 1)
    before = np.cumsum(bins - 1) - (bins - 1)
    edges = np.arange(len(campaigns)) - before[campaigns] + 1
    whole = (np.floor(totals) == totals) & (totals < LAST_WHOLE)
    exact = _whole_cuts(np.where(whole, totals, 0.0)[campaigns], bins[campaigns], edges)
    # The exponent apart, for a total near the largest float would overflow in the product.
    mantissas, exponents = np.frexp(totals[campaigns])
    others = np.ldexp(edges * mantissas / bins[campaigns], exponents)
    return campaigns, np.where(whole[campaigns], exact, others)


def _whole_cuts(totals: Floats, bins: Integers, edges: Integers) -> Floats:
    # The quotient apart from the remainder: 2kN itself would overflow.
    size, rest = np.divmod(totals.astype(np.int64), bins)
    cuts: Integers = edges * size + (2 * edges * rest + bins) // (2 * bins)
    return cuts.astype(np.float64)


def running_sums(values: Floats, offsets: Integers) -> Floats:
    """Running sums of columns, (k, m), that begin anew with each campaign.

    Campaign i stands at offsets[i]:offsets[i + 1]. One after the other: a sum over all of them
    would be rounded by those before.
    """
    sums = np.empty_like(values)
    for first, last in pairwise(offsets.tolist()):
        np.add.accumulate(values[:, first:last], axis=1, out=sums[:, first:last])
    return sums


def reaching(reached: Floats, offsets: Integers, campaigns: Integers, cuts: Floats) -> Integers:
    """For each cut the first place within its campaign whose running sum reaches it.

    By halving, all cuts at once; the last place of a campaign reaches all of its cuts.
    """
    low, high = offsets[campaigns], offsets[campaigns + 1] - 1
    while (low < high).any():
        middle = (low + high) >> 1
        short = reached[middle] < cuts
        low, high = np.where(short, middle + 1, low), np.where(short, high, middle)
    return low


@dataclass(frozen=True, slots=True)
class CampaignBins:
    """Bins of all campaigns end to end; those of campaign i stand at offsets[i]:offsets[i + 1]."""

    bins: ScoreBins
    offsets: Integers

    @classmethod
    def of_table(cls, table: BinsTable, bin_size: float) -> "CampaignBins":
        """`bins_of_cells` of each campaign of the table, to the last bit."""
        held = table.counts > 0
        offsets = np.concatenate(([0], np.cumsum(held)))[table.offsets]
        samples = cell_means(table.cells, table.sums)
        return bins_of_cells(GRID, table.cells[held], samples, offsets, bin_size)

    @classmethod
    def end_to_end(cls, parts: Sequence["CampaignBins"]) -> "CampaignBins":
        """The bins of all parts, one part behind the other."""
        counts = [np.diff(part.offsets) for part in parts]
        offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
        return cls(ScoreBins.end_to_end([part.bins for part in parts]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pooled(self, starts: Integers) -> "CampaignBins":
        """Adjacent bins put together; no pool reaches over two campaigns."""
        return CampaignBins(self.bins.pooled(starts), np.searchsorted(starts, self.offsets))


def bins_of_cells(
    grid: Grid,
    cells: Integers,
    samples: tuple[Floats, Floats, Floats],
    offsets: Integers,
    bin_size: float,
) -> CampaignBins:
    """Equal-frequency bins of exactly equal weight, from the cells of a grid, (m,), that hold
    samples, their mean scores, mean outcomes and weights, (m,) each, and where those of each
    campaign begin, (c + 1,).

    A cell that a cut falls into is split in proportion; its scores are taken as spread evenly
    around their mean, inside the cell. Raises ValueError on a campaign without a cell.
    """
    check_some(float(np.diff(offsets).min(initial=1)))
    lower, upper = grid.edges(cells)
    means, outcomes, weights = samples
    means = np.clip(means, lower, upper)
    spread = np.minimum(means - lower, upper - means)
    first, last = offsets[:-1], offsets[1:] - 1
    columns = np.stack((weights, weights * means, weights * outcomes))
    reached, score_sums, positives = running_sums(columns, offsets)
    counts = bin_counts(reached[last], bin_size, last - first + 1)
    campaigns, cuts = inner_cuts(reached[last], counts)
    cell = reaching(reached, offsets, campaigns, cuts)
    left = (reached[cell] - cuts) / weights[cell]
    edges = means[cell] + spread[cell] * (1 - 2 * left)
    next_cell = np.minimum(cell + 1, last[campaigns])
    following = np.where(left > 0, edges, (means - spread)[next_cell])
    above = weights[cell] * left * (means[cell] + spread[cell] * (1 - left))
    above_positives = weights[cell] * left * outcomes[cell]
    bin_offsets = np.concatenate(([0], np.cumsum(counts)))
    ends = _Ends(bin_offsets)
    bins = ScoreBins(
        ends.after((means - spread)[first], following),
        ends.before(edges, (means + spread)[last]),
        ends.steps(cuts, reached[last]),
        ends.sums(score_sums, cell, above, last),
        ends.sums(positives, cell, above_positives, last),
    )
    return CampaignBins(bins, bin_offsets)


class _Ends:
    """Columns of all bins, (k,), out of one entry for each cut and one for each campaign."""

    def __init__(self, offsets: Integers) -> None:
        self._is_first = np.zeros(offsets[-1], bool)
        self._is_first[offsets[:-1]] = True
        self._is_last = np.zeros(offsets[-1], bool)
        self._is_last[offsets[1:] - 1] = True

    def after(self, outermost: Floats, inner: Floats) -> Floats:
        """What stands at the lower end of each bin."""
        return _merged(self._is_first, outermost, inner)

    def before(self, inner: Floats, outermost: Floats) -> Floats:
        """What stands at the upper end of each bin."""
        return _merged(self._is_last, outermost, inner)

    def steps(self, reached: Floats, totals: Floats) -> Floats:
        """Differences of 0, the values reached and the total, campaign by campaign."""
        return self.before(reached, totals) - self.after(np.zeros(len(totals)), reached)

    def sums(self, reached: Floats, cell: Integers, above: Floats, last: Integers) -> Floats:
        """Sums between the cuts, where `above` is the part of the cut cell above its cut."""
        return np.maximum(self.steps(reached[cell] - above, reached[last]), 0.0)


def _merged(outer: NDArray[np.bool_], outermost: Floats, inner: Floats) -> Floats:
    merged = np.empty(len(outer))
    merged[outer], merged[~outer] = outermost, inner
    return merged
