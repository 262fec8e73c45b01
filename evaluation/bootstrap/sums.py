"""Metrics that sums over blocks decide: exact in every draw, and as fast as a matrix product."""

from collections.abc import Callable, Mapping
from typing import Final, Self

import numpy as np
from scipy.special import xlogy

from calibrators.samples import Floats, sum_at
from evaluation.bootstrap.blocks import Blocks, Resampled
from evaluation.metrics.group_sums import GroupSums
from evaluation.metrics.loss import sample_losses
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.sums import quotients


class BlockSums(GroupSums):
    """Sums over the rows of every block; a draw of blocks is their sum by how often each came."""

    __slots__ = ()

    @classmethod
    def of(cls, predictions: Predictions, blocks: Blocks) -> Self:
        """The sums of n rows."""
        weights, p = predictions.weights, predictions.probabilities
        rows = (
            weights,
            predictions.positives,
            predictions.expected,
            sample_losses(p, predictions.positives, weights),
            weights * (predictions.outcomes - p) ** 2,
        )
        return cls(*(sum_at(blocks.codes, row, blocks.count) for row in rows))

    @property
    def columns(self) -> tuple[Floats, ...]:
        """All sums, in the order of the attributes."""
        return self.weights, self.positives, self.expected, self.log_losses, self.squares

    def drawn(self, multiplicities: Floats) -> "BlockSums":
        """The sums of every draw, (d,) each, from how often each block was drawn, (d, blocks)."""
        return BlockSums(*(multiplicities @ column for column in self.columns))

    def metric(self, name: str) -> Resampled:
        """The metric of this name; ValueError unless it is one of `METRICS`."""
        if name not in METRICS:
            raise ValueError(f"metric = {name!r}: must be auc, {', '.join(METRICS)} or a function")
        of_sums = METRICS[name]
        return lambda multiplicities: of_sums(self.drawn(multiplicities))


def _rig(sums: BlockSums) -> Floats:
    rate = quotients(sums.positives, sums.weights)
    # Not `click_entropy`, from which it differs in the last digit: recorded results hold to it.
    entropy = -(xlogy(rate, rate) + xlogy(1.0 - rate, 1.0 - rate))
    return sums.rig(entropy.astype(np.float64, copy=False))


METRICS: Final[Mapping[str, Callable[[BlockSums], Floats]]] = {
    "cal_1": lambda sums: sums.cal_1,
    "log_loss": lambda sums: sums.log_loss,
    "mse": lambda sums: sums.mse,
    "pcoc": lambda sums: sums.pcoc,
    "rig": _rig,
}
"""Metrics by name."""
