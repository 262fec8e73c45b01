"""What a contender's predictions add up to: bounded sums in place of rows."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import xlogy

from calibrators.grid import Grid
from calibrators.samples import Floats, Integers

LOWEST: Final = 1e-6
"""Probabilities are judged as at least this, and at most 1 less this: 0 would cost infinity."""

CELLS: Final = Grid(octaves=24, bits=5)
"""Cells of predicted probability, 3 % wide at most; bins of equal frequency cut inside them."""

_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Impressions to judge, (n,) each: campaign, score, outcome, weight, truth where it is known,
    and the block of each row."""

    rows: Integers
    scores: Floats
    outcomes: Floats
    weights: Floats
    truth: Floats | None
    blocks: Integers


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """Weights, predictions, outcomes and truth of each (campaign, cell), (k,) each, by key."""

    keys: Integers
    weights: Floats
    predicted: Floats
    observed: Floats
    truth: Floats

    @property
    def rows(self) -> Integers:
        """The campaign of each cell."""
        return self.keys // CELLS.size


@dataclass(slots=True)
class Ledger:
    """Sums of one contender: losses and excess losses of each block, (blocks,), and of each hour,
    (hours,); and cells of predictions.

    Excess is the Kullback-Leibler divergence of the prediction from the truth: what the log loss
    has above that of the truth, without the noise of outcomes. It stays 0 where nobody knows.
    """

    blocks: int
    hours: int
    losses: Floats = field(init=False)
    excess: Floats = field(init=False)
    hour_losses: Floats = field(init=False)
    hour_excess: Floats = field(init=False)
    _held: list[tuple[Integers, Floats]] = field(default_factory=list)
    _waiting: int = 0

    def __post_init__(self) -> None:
        self.losses, self.excess = np.zeros(self.blocks), np.zeros(self.blocks)
        self.hour_losses, self.hour_excess = np.zeros(self.hours), np.zeros(self.hours)

    def add(self, judged: Judged, probabilities: Floats, hour: int) -> None:
        """Take in predictions, (n,), made in one of the judged hours."""
        p = np.clip(probabilities, LOWEST, 1.0 - LOWEST)
        losses = judged.weights * log_losses(p, judged.outcomes)
        self.losses += np.bincount(judged.blocks, losses, self.blocks)
        self.hour_losses[hour] += losses.sum()
        if judged.truth is not None:
            excess = judged.weights * excess_losses(p, judged.truth)
            self.excess += np.bincount(judged.blocks, excess, self.blocks)
            self.hour_excess[hour] += excess.sum()
        self._add_cells(judged, p)

    def cells(self) -> CellSums:
        """The cells of all predictions so far, by campaign and probability."""
        self._merge()
        keys, sums = self._held[0] if self._held else (np.empty(0, np.int64), np.empty((4, 0)))
        return CellSums(keys, *sums)

    def _add_cells(self, judged: Judged, p: Floats) -> None:
        truth = judged.outcomes if judged.truth is None else judged.truth
        keys = judged.rows * CELLS.size + CELLS.cells_of(p)
        columns = np.stack((np.ones(len(p)), p, judged.outcomes, truth)) * judged.weights
        self._held.append(_summed(keys, columns))
        self._waiting += len(self._held[-1][0])
        if self._waiting > 2 * len(self._held[0][0]):
            self._merge()

    def _merge(self) -> None:
        if len(self._held) > 1:
            keys, columns = zip(*self._held, strict=True)
            self._held = [_summed(np.concatenate(keys), np.hstack(columns))]
        self._waiting = 0


def log_losses(p: Floats, outcomes: Floats) -> Floats:
    """Log loss of each prediction inside (0, 1), (n,)."""
    losses: Floats = -(outcomes * np.log(p) + (1.0 - outcomes) * np.log1p(-p))
    return losses


def excess_losses(p: Floats, truth: Floats) -> Floats:
    """Expected log loss of each prediction inside (0, 1) above the truth's own, (n,)."""
    entropy = xlogy(truth, truth) + xlogy(1.0 - truth, 1.0 - truth)
    # Rounding may leave less than nothing where the prediction is the truth.
    return np.maximum(entropy + log_losses(p, truth), 0.0)


def _summed(keys: Integers, columns: Floats) -> tuple[Integers, Floats]:
    distinct, places = np.unique(keys, return_inverse=True)
    sums = np.stack([np.bincount(places, column, len(distinct)) for column in columns])
    return distinct, sums.reshape(_COLUMNS, len(distinct)).astype(np.float64)
