"""AUC and the calibrated log loss in every draw of blocks."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit

from calibrators.samples import Floats
from evaluation.block_cells import BlockCells, CellMatrix
from evaluation.log_loss import EPSILON

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
        parts = _split(multiplicities, self.matrix.at_once)
        return np.concatenate([self._of(part) for part in parts])

    def _of(self, multiplicities: Floats) -> Floats:
        times = multiplicities.T
        positives: Floats = self.matrix.positives @ times
        negatives: Floats = self.matrix.weights @ times - positives
        below = np.cumsum(negatives, axis=0) - 0.5 * negatives
        with np.errstate(divide="ignore", invalid="ignore"):
            won: Floats = (below * positives).sum(axis=0) / positives.sum(axis=0)
            won /= negatives.sum(axis=0)
        return won


@dataclass(frozen=True, slots=True, eq=False)
class BlockCalibratedLogLoss:
    """`calibrated_log_loss` in every draw: the shift that the drawn bias rows ask for, judged on
    the other rows drawn.

    A draw whose bias rows are of one class has no finite shift: nan.

    Attributes
    ----------
    bias, rest : the cells of the rows that the shift is fitted on, and of the others.
    bias_odds, rest_odds : log-odds of the cells, (k,).
    """

    bias: CellMatrix
    rest: CellMatrix
    bias_odds: Floats
    rest_odds: Floats

    @classmethod
    def of(cls, bias: BlockCells, rest: BlockCells) -> Self:
        """Of the bias rows and of the rest."""
        odds = (_log_odds(cells) for cells in (bias, rest))
        return cls(bias.pooled(), rest.pooled(), *odds)

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        at_once = min(self.bias.at_once, self.rest.at_once)
        return np.concatenate([self._of(part) for part in _split(multiplicities, at_once)])

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


def _log_odds(cells: BlockCells) -> Floats:
    return logit(np.clip(cells.probabilities, EPSILON, 1.0 - EPSILON))


def _split(multiplicities: Floats, at_once: int) -> list[Floats]:
    return [multiplicities[at : at + at_once] for at in range(0, len(multiplicities), at_once)]
