"""csAUC in every draw of blocks, on buckets of score and of bid."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from scipy.sparse import csr_array

from calibrators.samples import Floats, Integers
from evaluation.bias_split import Mask
from evaluation.blocks import Blocks
from evaluation.sums import sum_at

_BID_BUCKETS: Final = 32
_SCORE_BUCKETS: Final = 1000
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, eq=False)
class BlockCsAuc:
    """csAUC, tied pairs paying the mean of both, in every draw.

    Positives whose bids share a bucket are taken to bid the bucket's mean, rows whose scores
    share a bucket to tie: what a draw changes is kept, not the value to the last digit.

    Attributes
    ----------
    values : (levels,) mean bid of the positives of each bucket of bids, ascending.
    positives : sparse (levels * cells, blocks) counts of positives, level after level.
    negatives : sparse (cells, blocks) counts of the others.
    """

    values: Floats
    positives: Any
    negatives: Any

    @classmethod
    def of(cls, scores: Floats, positive: Mask, bids: Floats, blocks: Blocks) -> Self:
        """Of n rows: scores are probability times bid, positive says which were clicked."""
        cells = _buckets(scores, _SCORE_BUCKETS)
        levels = _buckets(bids[positive], _BID_BUCKETS)
        size, count = int(cells.max(initial=0)) + 1, int(levels.max(initial=-1)) + 1
        values = sum_at(levels, bids[positive], count) / np.bincount(levels, minlength=count)
        rows = levels * size + cells[positive]
        return cls(
            values,
            _counts(rows, blocks.codes[positive], (count * size, blocks.count)),
            _counts(cells[~positive], blocks.codes[~positive], (size, blocks.count)),
        )

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        starts = range(0, len(multiplicities), _AT_ONCE)
        return np.concatenate([self._of(multiplicities[at : at + _AT_ONCE]) for at in starts])

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
        with np.errstate(divide="ignore", invalid="ignore"):
            return won / best


def _counts(rows: Integers, blocks: Integers, shape: tuple[int, int]) -> Any:
    return csr_array((np.ones(len(rows)), (rows, blocks)), shape=shape)


def _buckets(values: Floats, most: int) -> Integers:
    """The bucket of each value, (n,): each distinct one, or as many of equal frequency."""
    distinct = np.unique(values)
    if len(distinct) > most:
        distinct = np.unique(np.quantile(values, np.arange(most) / most, method="inverted_cdf"))
    return np.searchsorted(distinct, values, side="right") - 1
