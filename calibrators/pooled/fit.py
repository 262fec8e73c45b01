"""The shape: a hierarchical penalised logistic spline over all campaigns, by joint Newton steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from calibrators.bins.grid import GRID
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.families import Deviations, Families, find_families
from calibrators.pooled.hierarchy import (
    Eliminated,
    Moments,
    Precisions,
    Priors,
    Tree,
    collect,
    shortened,
    trust_in,
)
from calibrators.pooled.spline import Coordinates
from calibrators.pooled.steps import NO_STEPS, CellEvidence, CoarseSums, Steps, middles
from calibrators.samples import Floats

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
_LEAP = 3
"""Every so many rounds the priors go where the last two lead."""

_SETTLED, _NEAR, _CONVERGED = 1e-3, 0.5, 1e-9


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
    `Cells` has it.
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

    def __post_init__(self) -> None:
        self._add_steps()

    def find_steps(self) -> bool:
        """Look for steps in the target's curve, at the mode; whether there were or are any."""
        known = self.steps
        if self.coordinates.knots.scores:
            return False
        target = self.coordinates.basis @ self.tree.target
        sums = np.sum(
            [block.by_coarse_cell(self.curves(block), target) for block in self.blocks], axis=0
        )
        directions = self.coordinates.directions(middles())
        curve = middles() + directions @ self.tree.target + known.at(middles())
        precision = self.tree.prior_precision(self.priors.target)
        cells = CellEvidence.split(self.grid, CoarseSums(*sums), curve, directions, precision)
        self.steps = cells.steps(known)
        self._add_steps()
        return bool(len(known.cells) or len(self.steps.cells))

    def _add_steps(self) -> None:
        some = len(self.steps.cells)
        added = self.steps.in_coarse_cells(self.grid[0]) if some else None
        for block in self.blocks:
            block.add_steps(added)

    def find_families(self) -> bool:
        """Look for families of campaigns, at the mode, and make them the groups of the tree;
        whether there were or are any."""
        were = self.tree.groups
        blocks = self.blocks
        parts = [self._deviations(block) for block in blocks]
        seen = Deviations(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        before = np.concatenate([block.groups for block in blocks])
        found, memberships, rows = find_families(seen, before)
        some = len(found.shares) if len(found.shares) > 1 else 0
        curves = [self.tree.parents[block.groups] + block.values for block in blocks]
        self.tree = self.tree.with_groups(found.means[:some])
        bounds = np.cumsum([len(block) for block in blocks])[:-1]
        columns = zip(
            blocks, curves, np.split(rows, bounds), np.split(memberships, bounds), strict=True
        )
        for block, curve, own, likely in columns:
            block.groups, block.memberships = own, likely if some else None
            block.values = curve - self.tree.parents[own]
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

    def curves(self, block: CampaignBlock) -> Floats:
        """The log odds ratio of each campaign at the knots, (c, k), at the mode."""
        return self._curves(block, self.tree.parents)

    def eliminated(self, block: CampaignBlock) -> Eliminated:
        """The campaigns solved for given their parents."""
        return self._eliminated(block, self.tree.parents)

    def _curves(self, block: CampaignBlock, parents: Floats) -> Floats:
        curves: Floats = (parents[block.groups] + block.values) @ self.coordinates.basis.T
        return curves

    def _eliminated(self, block: CampaignBlock, parents: Floats) -> Eliminated:
        gradients, information = block.linearised(self._curves(block, parents))
        steepness = self.coordinates.steepness
        prior = Precisions.of(self.priors.campaign, block.offsets, steepness, block.trust)
        return Eliminated.of(gradients, information, prior, block.values)

    def _step(self, update: bool) -> float:
        """One Newton step of everything; the largest move of a curve at a knot."""
        self.rounds += 1
        solutions = Solutions(partial(self._eliminated, parents=self.tree.parents), self.room)
        sums = self.tree.gather()
        for block in self.blocks:
            collect(sums, block.groups, *solutions.first(block).left_for_parents(block.values))
        steps, of_groups, covariance = self.tree.stepped(*sums, self.priors)
        moved = self._reach(steps)
        of_campaigns = Moments.none(len(self.coordinates.basis))
        for block in self.blocks:
            solved = solutions.taken(block)
            own = shortened(solved.moved(steps[block.groups]), self.coordinates.basis)
            block.values = block.values + own
            moved = max(moved, self._reach(own))
            if update:
                of_campaigns += self._moments(block, solved)
        if update:
            target = Moments.of(self.tree.target[None], covariance[None], np.zeros(1), np.ones(1))
            steepness = self.coordinates.steepness
            self.priors = self.priors.updated(of_campaigns, of_groups, target, steepness)
        return moved

    def _moments(self, block: CampaignBlock, solved: Eliminated) -> Moments:
        """Of campaigns that have just moved, which decide how far each is trusted."""
        covariances = solved.own_covariances(self.tree.covariances_of(block.groups))
        block.trust = trust_in(block.values, block.offsets, self.priors.campaign)
        return Moments.of(block.values, covariances, block.offsets, block.trust)

    def _reach(self, steps: Floats) -> float:
        return float(np.abs(steps @ self.coordinates.basis.T).max(initial=0.0))
