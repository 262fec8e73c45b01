"""AUC and the calibrated log loss in every draw of blocks."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from calibrators.samples import Floats
from evaluation.block_cells import BlockCells
from evaluation.log_loss import EPSILON

_STEPS = 60
_CLOSE = 1e-12


@dataclass(frozen=True, eq=False)
class BlockAuc:
    """`auc` in every draw."""

    cells: BlockCells

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        matrix = self.cells.pooled
        parts = _split(multiplicities, matrix.at_once)
        return np.concatenate([self._of(part) for part in parts])

    def _of(self, multiplicities: Floats) -> Floats:
        matrix = self.cells.pooled
        times = multiplicities.T
        positives: Floats = matrix.positives @ times
        negatives: Floats = matrix.weights @ times - positives
        below = np.cumsum(negatives, axis=0) - 0.5 * negatives
        with np.errstate(divide="ignore", invalid="ignore"):
            won: Floats = (below * positives).sum(axis=0) / positives.sum(axis=0)
            won /= negatives.sum(axis=0)
        return won


@dataclass(frozen=True, eq=False)
class BlockCalibratedLogLoss:
    """`calibrated_log_loss` in every draw: the shift that the drawn bias rows ask for, judged on
    the other rows drawn.

    A draw whose bias rows are of one class has no finite shift: nan.
    """

    bias: BlockCells
    rest: BlockCells

    def __call__(self, multiplicities: Floats) -> Floats:
        """See `Resampled`."""
        at_once = min(self.bias.pooled.at_once, self.rest.pooled.at_once)
        return np.concatenate([self._of(part) for part in _split(multiplicities, at_once)])

    def _of(self, multiplicities: Floats) -> Floats:
        times = multiplicities.T
        bias, rest = self.bias.pooled, self.rest.pooled
        shift = log_odds_shifts(
            _log_odds(self.bias), bias.weights @ times, (bias.positives @ times).sum(axis=0)
        )
        weights: Floats = rest.weights @ times
        shifted = _log_odds(self.rest)[:, np.newaxis] - shift
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = weights * np.logaddexp(0.0, shifted) - (rest.positives @ times) * shifted
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
