"""Metrics that take cells of score, in every draw of blocks: AUC, csAUC, calibrated log loss, GC-N.

AUC and calibrated log loss take the cells of all rows, GC-N those of each campaign, csAUC buckets
of score and of bid. A draw is a matrix product, and the rows stay sorted: so these share the rules
of the metrics of samples (bin sizes, errors of bins, means) and not their kernels, which sort.
"""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from calibrators.samples import Floats, Integers, sum_at
from evaluation.bootstrap.blocks import CELL_SPAN, BlockCells, Blocks, CellMatrix, Resampled
from evaluation.metrics.cal_n import bin_sizes, cal_n_of_bins
from evaluation.metrics.calibration import log_odds
from evaluation.metrics.gc_n import POSITIVES_PER_BIN, CampaignErrors
from evaluation.metrics.predictions import Mask, quotients

_STEPS = 60
_CLOSE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class BlockAuc:
    """`auc` in every draw, from the cells of all rows."""

    matrix: CellMatrix

    @classmethod
    def of(cls, cells: BlockCells) -> Self:
        """Of the rows in these cells."""
        return cls(cells.pooled())

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        return _in_parts(self._of, multiplicities, self.matrix.at_once)

    def _of(self, multiplicities: Floats) -> Floats:
        times = multiplicities.T
        positives: Floats = self.matrix.positives @ times
        negatives: Floats = self.matrix.weights @ times - positives
        below = np.cumsum(negatives, axis=0) - 0.5 * negatives
        won = quotients((below * positives).sum(axis=0), positives.sum(axis=0))
        return quotients(won, negatives.sum(axis=0))


class BlockCalibratedLogLoss:
    """`calibrated_log_loss` in every draw: fitted on the bias rows drawn, measured on the others.

    A draw whose bias rows are of one class has no finite shift: nan.

    bias, rest : the cells of the rows that the shift is fitted on, and of the others.
    bias_odds, rest_odds : log-odds of the cells, (k,).
    """

    def __init__(self, bias: BlockCells, rest: BlockCells) -> None:
        """Of the bias rows and of the rest."""
        self.bias_odds, self.rest_odds = (log_odds(cells.probabilities) for cells in (bias, rest))
        self.bias, self.rest = bias.pooled(), rest.pooled()

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        at_once = min(self.bias.at_once, self.rest.at_once)
        return _in_parts(self._of, multiplicities, at_once)

    def _of(self, multiplicities: Floats) -> Floats:
        times = multiplicities.T
        positives = (self.bias.positives @ times).sum(axis=0)
        shift = log_odds_shifts(self.bias_odds, self.bias.weights @ times, positives)
        weights: Floats = self.rest.weights @ times
        shifted = self.rest_odds[:, np.newaxis] - shift
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = weights * np.logaddexp(0.0, shifted)
            losses -= (self.rest.positives @ times) * shifted
            mean: Floats = losses.sum(axis=0) / weights.sum(axis=0)
        return mean


def log_odds_shifts(log_odds: Floats, weights: Floats, positives: Floats) -> Floats:
    """The c with sum of weights * sigmoid(log_odds - c) = positives in each of d columns, (d,).

    log_odds are (k,), weights (k, d), positives (d,). Newton's steps, kept inside a bracket that
    halves whenever they leave it. nan where positives are none or all.
    """
    totals = weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        aim = logit(positives / totals)
    defined = np.isfinite(aim)
    low, high = log_odds.min(initial=0.0) - aim, log_odds.max(initial=0.0) - aim
    c = np.where(defined, 0.5 * (low + high), np.nan)
    for _ in range(_STEPS):
        q = expit(log_odds[:, np.newaxis] - c)
        q *= weights
        excess = q.sum(axis=0) - positives
        low, high = np.where(excess > 0.0, c, low), np.where(excess > 0.0, high, c)
        slope = (q * expit(c - log_odds[:, np.newaxis])).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = c + excess / slope
        moved = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        settled = ~(np.abs(moved - c) > _CLOSE * (1.0 + np.abs(c)))
        c = moved
        if settled.all():
            break
    return np.where(defined, c, np.nan)


def _in_parts(metric: Resampled, multiplicities: Floats, at_once: int) -> Floats:
    starts = range(0, len(multiplicities), at_once)
    return np.concatenate([metric(multiplicities[at : at + at_once]) for at in starts])


_BID_BUCKETS: Final = 32
_SCORE_BUCKETS: Final = 1000
_AT_ONCE = 16


class BlockCsAuc:
    """csAUC, tied pairs paying the mean of both, in every draw.

    Positives whose bids share a bucket are taken to bid the bucket's mean, rows whose scores
    share a bucket to tie: what a draw changes is kept, not the value to the last digit.

    values : (levels,) mean bid of the positives of each bucket of bids, ascending.
    positives : sparse (levels * cells, blocks) counts of positives, level after level.
    negatives : sparse (cells, blocks) counts of the others.
    """

    def __init__(self, scores: Floats, positive: Mask, bids: Floats, blocks: Blocks) -> None:
        """Of n rows: scores are probability times bid, positive says which were clicked."""
        cells = _buckets(scores, _SCORE_BUCKETS)
        levels = _buckets(bids[positive], _BID_BUCKETS)
        size, count = int(cells.max(initial=0)) + 1, int(levels.max(initial=-1)) + 1
        sums = sum_at(levels, bids[positive], count)
        self.values = sums / np.bincount(levels, minlength=count)
        rows = levels * size + cells[positive]
        self.positives = _counts(rows, blocks.codes[positive], (count * size, blocks.count))
        self.negatives = _counts(cells[~positive], blocks.codes[~positive], (size, blocks.count))

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        return _in_parts(self._of, multiplicities, _AT_ONCE)

    def _of(self, multiplicities: Floats) -> Floats:
        times = multiplicities.T
        below: Floats = self.negatives @ times
        by_level = (self.positives @ times).reshape(len(self.values), *below.shape)
        below_revenue = np.zeros_like(below)
        won, best = np.zeros(len(multiplicities)), np.zeros(len(multiplicities))
        for value, level in zip(self.values, by_level, strict=True):
            beaten = np.cumsum(below, axis=0) - 0.5 * below
            lost_to = np.cumsum(below_revenue[::-1], axis=0)[::-1] - 0.5 * below_revenue
            won += (level * (value * beaten + lost_to)).sum(axis=0)
            best += value * level.sum(axis=0) * below.sum(axis=0)
            below += level
            below_revenue += value * level
        return quotients(won, best)


def _counts(rows: Integers, blocks: Integers, shape: tuple[int, int]) -> Any:
    return csr_array((np.ones(len(rows)), (rows, blocks)), shape=shape)


def _buckets(values: Floats, most: int) -> Integers:
    """The bucket of each value, (n,): each distinct one, or as many of equal frequency."""
    distinct = np.unique(values)
    if len(distinct) > most:
        distinct = np.unique(np.quantile(values, np.arange(most) / most, method="inverted_cdf"))
    return np.searchsorted(distinct, values, side="right") - 1


@dataclass(frozen=True, eq=False)
class BlockGcN:
    """`gc_n`, by its defaults, in every draw.

    matrix : the cells of each campaign, one campaign after the other.
    bounds : (campaigns + 1,) the cells of campaign j are bounds[j]:bounds[j + 1].
    whole : (campaigns,) whether all weights of its rows are whole numbers.
    snapped : whether a cut goes to the nearer end of a cell lighter than half a bin. Where cells
        stand for several probabilities, dividing one would divide a positive that the samples
        give to one side, and a bin with a hundredth of a positive has an error of a hundred.
    n : bins of each campaign.
    """

    matrix: CellMatrix
    bounds: Integers
    whole: Mask
    snapped: bool
    n: int

    @classmethod
    def of(
        cls,
        cells: BlockCells,
        blocks: Blocks,
        campaigns: NDArray[np.integer],
        weights: Floats,
        n: int,
    ) -> Self:
        """Of n bins in each campaign.

        campaigns, (n_rows,), are whole numbers from 0 up, each block being of one of them;
        weights, (n_rows,), are the rows'.
        """
        owners = np.zeros(blocks.count, np.int64)
        owners[blocks.codes] = campaigns
        size = int(owners.max(initial=-1)) + 1
        broken = np.bincount(campaigns, weights != np.floor(weights), size)
        matrix = cells.within(owners)
        bounds = np.searchsorted(matrix.keys // CELL_SPAN, np.arange(size + 1))
        return cls(matrix, bounds, broken == 0.0, not cells.exact, n)

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        return _in_parts(self._of, multiplicities, self.matrix.at_once)

    def _of(self, multiplicities: Floats) -> Floats:
        columns = (_running(values) for values in self.matrix.drawn(multiplicities))
        return np.array([self._one(*draw) for draw in zip(*columns, strict=True)])

    def _one(self, weights: Floats, positives: Floats, expected: Floats) -> float:
        """GC-N of one draw, from running sums over the cells, (cells + 1,) each."""
        opens = weights[self.bounds[:-1]]
        totals = weights[self.bounds[1:]] - opens
        clicks = np.diff(positives[self.bounds])
        kept = np.flatnonzero(clicks >= POSITIVES_PER_BIN * self.n)
        if not len(kept):
            return float("nan")
        places, shares = self._cuts(weights, opens[kept], totals[kept], kept)
        actual = _between(positives, places, shares)
        values = cal_n_of_bins(_between(expected, places, shares), actual, "merge")
        return CampaignErrors(kept, values, totals[kept]).mean

    def _cuts(
        self, weights: Floats, opens: Floats, totals: Floats, kept: Integers
    ) -> tuple[Integers, Floats]:
        """The cell that each cut of the campaigns kept passes through, (kept, n + 1), and the
        share of it that is below; where `EqualFrequencyBins` cuts."""
        small, larger = bin_sizes(totals[:, np.newaxis], self.whole[kept, np.newaxis], self.n)
        k = np.arange(self.n + 1)
        at = opens[:, np.newaxis] + small * k + np.minimum(larger, k)
        first, behind = self.bounds[kept, np.newaxis], self.bounds[kept + 1, np.newaxis]
        places = np.searchsorted(weights, at, side="right") - 1
        places = np.clip(places, first, behind - 1)
        # The cuts at the ends are those ends, whatever rounding made of their sums.
        places[:, -1] = behind[:, 0] - 1
        held = weights[places + 1] - weights[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(held > 0.0, np.clip((at - weights[places]) / held, 0.0, 1.0), 0.0)
        if self.snapped:
            light = held <= 0.5 * totals[:, np.newaxis] / self.n
            shares = np.where(light, np.rint(shares), shares)
        shares[:, -1] = 1.0
        return places, shares


def _running(values: Floats) -> Floats:
    """Sums of what comes before each cell, and of all, draw by draw: (k, d) to (d, k + 1)."""
    sums = np.zeros((values.shape[1], values.shape[0] + 1))
    np.cumsum(np.ascontiguousarray(values.T), axis=1, out=sums[:, 1:])
    return sums


def _between(running: Floats, places: Integers, shares: Floats) -> Floats:
    """What lies between neighbouring cuts, (kept, n)."""
    reached = running[places] + shares * (running[places + 1] - running[places])
    return np.diff(reached, axis=1)
