"""Steps of the target's curve: what a spline of knots .35 apart cannot hold.

Where scores are tied, or the truth is a staircase, a curve jumps from one score to the next. A step
is such a jump: log-odds that are added to every score behind it. It is believed when the evidence
for it, against the spline as it is, exceeds what the choice of its place costs, and its place is a
border of the grid of scores; without one, nothing is changed.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import NamedTuple, Self

import numpy as np

from calibrators.bins.grid import GRID
from calibrators.pooled.cells import CELLS, coarse_cells, log_odds
from calibrators.samples import Floats, Integers, sum_at
from calibrators.scipy_functions import expit

_VARIANCE = 0.25
"""Of a step's height before it is seen, in log-odds."""

_PRIOR_ODDS = 3.0
"""Nats by which no step is likelier than one, before its place is chosen."""

MOST = 12
"""Steps of a curve: a map has 64 knots, and each step takes two."""

_LEAST = 1e-12
"""No variance by chance is less: rounding may leave none."""

_RAMP = 0.004
"""Log-odds before a step's place from which a map rises: a part of the grid's narrowest cell."""


class Steps(NamedTuple):
    """The cells of the grid that steps begin with, ascending, and their heights in log-odds, (s,)
    each."""

    cells: Integers
    heights: Floats

    @property
    def borders(self) -> Floats:
        """The log-odds at which they begin, (s,)."""
        return log_odds(GRID.edges(self.cells)[0])

    def at(self, scores: Floats) -> Floats:
        """Their sum at scores of these log-odds, (n,)."""
        passed = (scores[:, None] - self.borders) / _RAMP + 1
        return np.asarray(np.clip(passed, 0.0, 1.0) @ self.heights)

    def knots(self) -> Floats:
        """Log-odds between which they rise, (2 s,), ascending."""
        return np.sort(np.concatenate((self.borders - _RAMP, self.borders)))

    def in_coarse_cells(self, samples: Floats) -> Floats:
        """Their mean in each coarse cell, (CELLS,), by the samples of the grid's cells."""
        rise = np.zeros(GRID.size)
        np.add.at(rise, self.cells, self.heights)
        coarse, weights = coarse_cells(), samples + np.finfo(float).tiny
        total = sum_at(coarse, weights * np.cumsum(rise), CELLS)
        held = sum_at(coarse, weights, CELLS)
        return np.divide(total, held, out=np.zeros(CELLS), where=held > 0)


NO_STEPS = Steps(np.empty(0, np.int64), np.empty(0))
"""Of a curve without steps."""


@lru_cache
def middles() -> Floats:
    """The log-odds of the middle of each cell of the grid."""
    lower, upper = GRID.edges(np.arange(GRID.size))
    return log_odds((lower + upper) / 2)


class CoarseSums(NamedTuple):
    """Of all campaigns in each coarse cell: positives, those that the curves expect, what these
    tell about the log-odds, and the expected ones times the squared distance of the campaign's
    curve from the target's, (CELLS,) each."""

    observed: Floats
    expected: Floats
    information: Floats
    distances: Floats

    @property
    def spread(self) -> Floats:
        """Mean square distance of campaigns' curves from the target's, (CELLS,)."""
        known = self.expected > 0
        return np.divide(self.distances, self.expected, np.zeros(CELLS), where=known)


@dataclass(frozen=True, slots=True, eq=False)
class CellEvidence:
    """What neighbouring cells of scores say of a curve at its mode.

    cells : their places in the grid, ascending, (m,).
    residuals, information : of the likelihood about the log-odds in each, (m,).
    directions : the spline's coordinates in each, (m, k).
    precision : of the coordinates' prior, (k, k).
    mixed : variance of the residuals, beside chance, because a cell holds other campaigns than
        those around it, (m,).
    """

    cells: Integers
    residuals: Floats
    information: Floats
    directions: Floats
    precision: Floats
    mixed: Floats

    @classmethod
    def split(
        cls, grid: Floats, coarse: CoarseSums, curve: Floats, directions: Floats, precision: Floats
    ) -> Self:
        """The sums of coarse cells, split among the cells of the grid that hold samples.

        grid : samples, positives and `mix_sums` of the cells of the grid, (4, m); curve: the
        target's, steps included, there, in log-odds, (m,), which says how probable positives are
        in the one against the other; directions, (m, k), precision, (k, k).

        A cell that holds other campaigns than its neighbours has their levels: that is no step.
        """
        samples, positives, squares, coarse_squares = grid
        cells = np.flatnonzero(samples > 0)
        rows = coarse_cells()[cells]
        likely = samples[cells] * expit(curve[cells])
        seen = positives[cells]

        def shared(amounts: Floats, parts: Floats) -> Floats:
            whole = sum_at(rows, parts, CELLS)
            share = np.divide(amounts, whole, out=np.zeros(CELLS), where=whole > 0)
            return np.asarray(share[rows] * parts)

        residuals = shared(coarse.observed, seen) - shared(coarse.expected, likely)
        information = shared(coarse.information, likely)
        whole = sum_at(rows, samples[cells], CELLS)[rows]
        # Sum of the squares of what each campaign's share of the cell has more than of all around.
        other = squares[cells] / samples[cells] ** 2 - coarse_squares[cells] / whole**2
        mixed = information**2 * coarse.spread[rows] * np.maximum(other, 0.0)
        return cls(cells, residuals, information, directions[cells], precision, mixed)

    def steps(self, known: Steps) -> Steps:
        """The steps that the cells speak for, the known ones among them, at new heights.

        One by one the step is added that raises the marginal likelihood most, all heights and the
        curve being normal (Tipping and Faul, AISTATS 2003), by more than the cost of its place;
        those whose evidence (Savage and Dickey's ratio) is below half of that go.
        """
        if not len(self.cells):
            return NO_STEPS
        cost = log(len(self.cells)) + _PRIOR_ODDS
        fit = _StepFit(self, known)
        while len(fit.steps.cells) < MOST and (cell := fit.best(cost)) is not None:
            fit = fit.with_cell(cell)
        return fit.kept(cost / 2)


class _StepFit:
    """Coordinates of the curve and heights of steps, solved together."""

    def __init__(self, evidence: CellEvidence, steps: Steps) -> None:
        self._evidence, self.steps = evidence, steps
        size = evidence.directions.shape[1]
        behind = (evidence.cells[:, None] >= steps.cells).astype(np.float64)
        columns: Floats = np.hstack((evidence.directions, behind))
        self._columns = columns
        self._weighted: Floats = evidence.information[:, None] * columns
        precision = columns.T @ self._weighted
        precision[:size, :size] += evidence.precision
        precision[size:, size:] += np.eye(len(steps.cells)) / _VARIANCE
        self._covariance = np.linalg.inv(precision)
        gradient = np.zeros(len(precision))
        gradient[size:] = behind.T @ evidence.residuals - steps.heights / _VARIANCE
        moved = self._covariance @ gradient
        self._left = evidence.residuals - self._weighted @ moved
        self._heights: Floats = steps.heights + moved[size:]
        self._variances: Floats = np.diag(self._covariance)[size:]

    def best(self, cost: float) -> int | None:
        """The cell of the step that explains most, if that is more than the cost in nats."""
        information = self._evidence.information
        sums = _behind(np.column_stack((self._left, information, self._weighted)))
        gradients, crossed = sums[:, 0], sums[:, 2:]
        free = sums[:, 1] - np.einsum("ij,ij->i", crossed @ self._covariance, crossed)
        free = np.maximum(free, 0.0)
        squares, losses = gradients**2 / (free + 1 / _VARIANCE), np.log1p(free * _VARIANCE)
        gains = squares - losses
        # Rounding must not have a step a second time.
        gains[np.isin(self._evidence.cells, self.steps.cells)] = gains[0] = 0.0
        likely = np.flatnonzero(gains > 2 * cost)
        own = (np.arange(len(gains)) >= likely[:, None]).astype(np.float64)
        own -= crossed[likely] @ self._covariance @ self._columns.T
        gains[likely] = squares[likely] / self._noise(own, free[likely]) - losses[likely]
        best = int(np.argmax(gains))
        return int(self._evidence.cells[best]) if gains[best] > 2 * cost else None

    def _noise(self, sums: Floats, chance: Floats) -> Floats:
        """How many times that of chance, (n,), the variance of sums of residuals is, (n, m)."""
        return np.asarray(1 + sums**2 @ self._evidence.mixed / np.maximum(chance, _LEAST))

    def with_cell(self, cell: int) -> "_StepFit":
        """With one more step, whose height was 0 so far."""
        at = int(np.searchsorted(self.steps.cells, cell))
        cells, heights = self.steps
        return _StepFit(
            self._evidence, Steps(np.insert(cells, at, cell), np.insert(heights, at, 0.0))
        )

    def kept(self, cost: float) -> Steps:
        """The steps that are worth it."""
        variances = self._variances
        own = self._covariance[self._evidence.directions.shape[1] :] @ self._columns.T
        evidence = np.log(variances / _VARIANCE)
        evidence += self._heights**2 / variances / self._noise(own, variances)
        worth = evidence > 2 * cost
        return Steps(self.steps.cells[worth], self._heights[worth])


def _behind(columns: Floats) -> Floats:
    """Of each row, the sums of it and of all rows behind."""
    return np.asarray(np.cumsum(columns[::-1], axis=0)[::-1])
