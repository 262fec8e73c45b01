"""Metrics that sums over blocks decide: exact in every draw, and as fast as a matrix product."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from scipy.special import xlogy

from calibrators.samples import Floats
from evaluation.bootstrap.blocks import Blocks, Resampled
from evaluation.metrics.loss import sample_losses
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.sums import sum_at


@dataclass(frozen=True, slots=True, eq=False)
class BlockSums:
    """Sums over the rows of every block, (blocks,) each.

    Attributes
    ----------
    weights : of the weights.
    positives : of weight times outcome.
    expected : of weight times probability.
    losses : of weight times log loss.
    squares : of weight times squared error.
    """

    weights: Floats
    positives: Floats
    expected: Floats
    losses: Floats
    squares: Floats

    @classmethod
    def of(cls, predictions: Predictions, blocks: Blocks) -> Self:
        """The sums of n rows."""
        weights, y = predictions.weights, predictions.outcomes
        rows = (
            weights,
            predictions.positives,
            predictions.expected,
            sample_losses(predictions.probabilities, predictions.positives, weights),
            weights * (y - predictions.probabilities) ** 2,
        )
        return cls(*(sum_at(blocks.codes, row, blocks.count) for row in rows))

    @property
    def columns(self) -> tuple[Floats, ...]:
        """All sums, in the order of the attributes."""
        return self.weights, self.positives, self.expected, self.losses, self.squares

    def drawn(self, multiplicities: Floats) -> "BlockSums":
        """The sums of every draw, (d,) each, from how often each block was drawn, (d, blocks)."""
        return BlockSums(*(multiplicities @ column for column in self.columns))

    def metric(self, name: str) -> Resampled:
        """The metric of this name; ValueError unless it is one of `METRICS`."""
        if name not in METRICS:
            raise ValueError(f"metric = {name!r}: must be auc, {', '.join(METRICS)} or a function")
        of_sums = METRICS[name]

        def resampled(multiplicities: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return of_sums(self.drawn(multiplicities))

        return resampled


def _log_loss(sums: BlockSums) -> Floats:
    return sums.losses / sums.weights


def _mse(sums: BlockSums) -> Floats:
    return sums.squares / sums.weights


def _pcoc(sums: BlockSums) -> Floats:
    return np.where(sums.positives > 0.0, sums.expected / sums.positives, np.nan)


def _cal_1(sums: BlockSums) -> Floats:
    ratio = _pcoc(sums)
    return np.maximum(ratio, 1.0 / ratio) - 1.0


def _rig(sums: BlockSums) -> Floats:
    rate = sums.positives / sums.weights
    entropy = -(xlogy(rate, rate) + xlogy(1.0 - rate, 1.0 - rate))
    return np.where(entropy > 0.0, 1.0 - _log_loss(sums) / entropy, np.nan)


METRICS: Final[Mapping[str, Callable[[BlockSums], Floats]]] = {
    "cal_1": _cal_1,
    "log_loss": _log_loss,
    "mse": _mse,
    "pcoc": _pcoc,
    "rig": _rig,
}
"""Metrics by name; `cal_1` is max(PCOC, 1 / PCOC) - 1, the distance of PCOC from 1."""
