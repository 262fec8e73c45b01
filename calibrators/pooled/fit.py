"""The shape: a hierarchical penalised logistic spline over all campaigns, by joint Newton steps;
and the steps of the target's curve, which a spline of knots .35 apart cannot hold.

Where scores are tied, or the truth is a staircase, a curve jumps from one score to the next. A step
is such a jump: log-odds that are added to every score behind it. It is believed when the evidence
for it, against the spline as it is, exceeds what the choice of its place costs, and its place is a
border of the grid of scores; without one, nothing is changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log
from typing import NamedTuple, Self

import numpy as np

from calibrators.bins.bins import GRID
from calibrators.peers import ALONE, Peers
from calibrators.pooled.cells import CELLS, CampaignBlock, coarse_cells, log_odds, middles
from calibrators.pooled.families import Deviations, Families, find_families
from calibrators.pooled.hierarchy import (
    Eliminated,
    Moments,
    Precisions,
    Priors,
    Tree,
    shortened,
    trust_in,
)
from calibrators.pooled.spline import Coordinates
from calibrators.samples import Floats, Integers, by_block, expit, scratch_of, sum_at

_LEAST = 1e-12
"""No variance by chance is less: rounding may leave none."""

_STEP_VARIANCE = 0.25
"""Of a step's height before it is seen, in log-odds."""

_STEP_PRIOR_ODDS = 3.0
"""Nats by which no step is likelier than one, before its place is chosen."""

_HIGHEST = 5.0
"""Log-odds that no step of a score reaches: ten standard deviations."""

MOST_STEPS = 12
"""Steps of a curve: a map has 64 knots, and each step takes two."""

_RAMP = 1e-4
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
        those whose evidence (Savage and Dickey's ratio) is below half of that go. Where one comes
        out higher than any can be, the curve is not near enough to a straight line for heights to
        be solved for: the known ones stay.
        """
        if not len(self.cells):
            return NO_STEPS
        cost = log(len(self.cells)) + _STEP_PRIOR_ODDS
        fit = _StepFit(self, known)
        while len(fit.steps.cells) < MOST_STEPS and (cell := fit.best(cost)) is not None:
            fit = fit.with_cell(cell)
        found = fit.kept(cost / 2)
        return found if np.abs(found.heights).max(initial=0.0) < _HIGHEST else known


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
        precision[size:, size:] += np.eye(len(steps.cells)) / _STEP_VARIANCE
        self._covariance = np.linalg.inv(precision)
        gradient = np.zeros(len(precision))
        gradient[size:] = behind.T @ evidence.residuals - steps.heights / _STEP_VARIANCE
        moved = self._covariance @ gradient
        self._left = evidence.residuals - self._weighted @ moved
        self._heights: Floats = steps.heights + moved[size:]
        self._variances: Floats = np.diag(self._covariance)[size:]

    def best(self, cost: float) -> int | None:
        """The cell of the step that explains most, if that is more than the cost in nats."""
        information = self._evidence.information
        columns = np.column_stack((self._left, information, self._weighted))
        # Of each row, the sums of it and of all rows behind.
        sums = np.cumsum(columns[::-1], axis=0)[::-1]
        gradients, crossed = sums[:, 0], sums[:, 2:]
        free = sums[:, 1] - np.einsum("ij,ij->i", crossed @ self._covariance, crossed)
        free = np.maximum(free, 0.0)
        squares = gradients**2 / (free + 1 / _STEP_VARIANCE)
        losses = np.log1p(free * _STEP_VARIANCE)
        gains = squares - losses
        # Rounding must not have a step a second time.
        gains[np.isin(self._evidence.cells, self.steps.cells)] = gains[0] = 0.0
        likely = np.flatnonzero(gains > 2 * cost)
        own: Floats = (np.arange(len(gains)) >= likely[:, None]).astype(np.float64)
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
        evidence = np.log(variances / _STEP_VARIANCE)
        evidence += self._heights**2 / variances / self._noise(own, variances)
        worth = evidence > 2 * cost
        return Steps(self.steps.cells[worth], self._heights[worth])


ROOM = 256 << 20
"""Bytes of solutions that are kept: all of 100,000 campaigns with 16 knots."""


class Solutions:
    """Solves every block once and keeps as many of the solutions as there is room for; the others
    are solved again when they are needed again, to the same bits."""

    def __init__(self, solve: Callable[[CampaignBlock], Eliminated], room: int) -> None:
        """`solve` must find the same until a block's solution has been taken."""
        self._solve, self._room = solve, room
        self._kept: dict[CampaignBlock, Eliminated] = {}

    def first(self, block: CampaignBlock) -> Eliminated:
        """The block's solution."""
        solved = self._solve(block)
        if solved.size <= self._room:
            self._room -= solved.size
            self._kept[block] = solved
        return solved

    def taken(self, block: CampaignBlock) -> Eliminated:
        """The same once more; it is not kept any longer."""
        return self._kept.pop(block, None) or self._solve(block)


_ROUNDS, _STEPS = 60, 30
_LEAP = 2
"""Every so many rounds the priors go where the last two lead: the fewest that show where."""

_SETTLED, _NEAR = 1e-3, 0.5
_CONVERGED = 2e-4
"""A step leaves about the square of what it moves: 1e-8 log-odds."""


@dataclass(slots=True, eq=False)
class Shape:
    """Log-odds of a positive = score's log-odds + target's curve + group's + campaign's deviation.

    The curves are linear splines on common knots, the deviations normal with variances that all
    campaigns determine together. `fit` finds the mode of all curves by Newton steps on the whole
    arrowhead system (each campaign is eliminated into its group, each group into the target), and
    the variances by empirical Bayes with Laplace covariances in between. A step goes through the
    blocks twice: to sum up what they tell the tree, and to move them. What is solved in the first
    pass is kept for the second up to `room` bytes. The target's curve may have `steps` besides, as
    the samples and positives of all campaigns in the cells of the `grid`, (4, GRID.size), ask: as
    `Cells` has it. Of several `peers` each moves the campaigns of its own blocks; the tree, the
    priors and the steps are the same at all.
    """

    coordinates: Coordinates
    tree: Tree
    blocks: Sequence[CampaignBlock]
    priors: Priors
    room: int = ROOM
    rounds: int = 0
    grid: Floats = field(default_factory=lambda: np.zeros((4, GRID.size)))
    steps: Steps = NO_STEPS
    families: Families | None = None
    peers: Peers = ALONE

    def __post_init__(self) -> None:
        self._add_steps()

    def find_steps(self) -> bool:
        """Look for steps in the target's curve, at the mode; whether there were or are any."""
        known = self.steps
        if self.coordinates.knots.scores:
            return False
        target = self.coordinates.basis @ self.tree.target
        sums = self.peers.sum(
            block.by_coarse_cell(self.curves(block), target) for block in self.blocks
        )
        directions = self.coordinates.directions(middles())
        curve = middles() + directions @ self.tree.target + known.at(middles())
        precision = self.tree.prior_precision(self.priors.target)
        cells = CellEvidence.split(self.grid, CoarseSums(*sums), curve, directions, precision)
        self.steps = cells.steps(known)
        self._add_steps()
        return bool(len(known.cells) or len(self.steps.cells))

    def _add_steps(self) -> None:
        added = self.steps.in_coarse_cells(self.grid[0]) if len(self.steps.cells) else None
        for block in self.blocks:
            block.add_steps(added)

    def find_families(self) -> bool:
        """Look for families of campaigns, at the mode, and make them the groups of the tree;
        whether there were or are any."""
        were, blocks = self.tree.groups, self.blocks
        scratch = scratch_of(blocks)
        parts = scratch.kept(map(self._deviations, blocks))
        seen = Deviations(*map(scratch.joined, zip(*parts, strict=True)))
        del parts
        before = np.concatenate([block.groups for block in blocks])
        found, memberships, rows = find_families(seen, before, self.peers)
        some = len(found.shares) if len(found.shares) > 1 else 0
        parents, self.tree = self.tree.parents, self.tree.with_groups(found.means[:some])
        columns = by_block(blocks, rows), by_block(blocks, memberships)
        for block, own, likely in zip(blocks, *columns, strict=True):
            block.values = parents[block.groups] + block.values - self.tree.parents[own]
            block.groups, block.memberships = own, likely if some else None
        self.families = found if some else None
        return bool(some or len(were))

    def _deviations(self, block: CampaignBlock) -> Deviations:
        gradients, information = block.linearised(self.curves(block))
        modes = self.tree.parents[block.groups] + block.values - self.tree.target
        return Deviations.at_mode(gradients, information, modes)

    def fit(self) -> None:
        """Move to the mode, and the priors to their fixed point."""
        earlier = before = self.priors
        for turn in range(_ROUNDS):
            earlier, before = before, self.priors
            moved = self._step(update=True)
            if moved < _NEAR and self.priors.change(before) < _SETTLED:
                break
            if moved < _NEAR and turn % _LEAP == 0:
                self.priors = self.priors.ahead(before, earlier)
        self.settle()

    def settle(self) -> None:
        """Move to the mode under the priors as they are."""
        for _ in range(_STEPS):
            if self._step(update=False) < _CONVERGED:
                break

    def curves(self, block: CampaignBlock, parents: Floats | None = None) -> Floats:
        """The log odds ratio of each campaign at the knots, (c, k), at the mode or where it was."""
        above = self.tree.parents if parents is None else parents
        return np.asarray((above[block.groups] + block.values) @ self.coordinates.basis.T)

    def eliminated(self, block: CampaignBlock, parents: Floats | None = None) -> Eliminated:
        """The campaigns solved for given their parents, as they are or were."""
        gradients, information = block.linearised(self.curves(block, parents))
        steepness = self.coordinates.steepness
        prior = Precisions.of(self.priors.campaign, block.offsets, steepness, block.trust)
        return Eliminated.of(gradients, information, prior, block.values)

    def _step(self, update: bool) -> float:
        """One Newton step of everything; the largest move of a curve at a knot."""
        self.rounds += 1
        solutions = Solutions(partial(self.eliminated, parents=self.tree.parents), self.room)
        sums = self.tree.gather()
        contributions = (self._contribution(block, solutions) for block in self.blocks)
        for rows, *parts in self.peers.gather(contributions):
            for whole, part in zip(sums, parts, strict=True):
                whole[rows] += part
        steps, of_groups, covariance = self.tree.stepped(*sums, self.priors)
        found = (self._moved(block, solutions.taken(block), steps, update) for block in self.blocks)
        moved, of_campaigns = [self._reach(steps)], Moments.none(len(self.coordinates.basis))
        for reach, *moments in self.peers.gather(found):
            moved.append(float(reach[0]))
            of_campaigns += Moments(*moments)
        if update:
            target = Moments.of(self.tree.target[None], covariance[None], np.zeros(1), np.ones(1))
            steepness = self.coordinates.steepness
            self.priors = self.priors.updated(of_campaigns, of_groups, target, steepness)
        return max(moved)

    def _contribution(
        self, block: CampaignBlock, solutions: Solutions
    ) -> tuple[Integers, Floats, Floats]:
        left = solutions.first(block).left_for_parents(block.values)
        return self.tree.contribution(block.groups, *left)

    def _moved(
        self, block: CampaignBlock, solved: Eliminated, steps: Floats, update: bool
    ) -> tuple[Floats, Integers, Floats, Floats]:
        """Moves the campaigns; how far, and their moments, which nobody asks for without update."""
        own = shortened(solved.moved(steps[block.groups]), self.coordinates.basis)
        block.values = block.values + own
        none = Moments.none(len(self.coordinates.basis))
        moments = self._moments(block, solved) if update else none
        return np.array([self._reach(own)]), moments.nodes, moments.squares, moments.variances

    def _moments(self, block: CampaignBlock, solved: Eliminated) -> Moments:
        """Of campaigns that have just moved, which decide how far each is trusted."""
        covariances = solved.own_covariances(self.tree.covariances_of(block.groups))
        block.trust = trust_in(block.values, block.offsets, self.priors.campaign)
        return Moments.of(block.values, covariances, block.offsets, block.trust)

    def _reach(self, steps: Floats) -> float:
        return float(np.abs(steps @ self.coordinates.basis.T).max(initial=0.0))
