"""The hierarchy above the campaigns: the target, groups of campaigns where there are any, and the
normal priors of all deviations with their empirical-Bayes variances.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from calibrators.pooled.spline import Coordinates
from calibrators.samples import Floats, Integers

_SMALLEST, _LARGEST = 1e-8, 1e4
_FARTHEST = 10.0
"""No variance changes by more than this factor in one round."""

_STILL, _SLOWEST = 1e-9, 0.98
_AHEAD = 2 * np.log(_FARTHEST)
"""No leap in log variance is longer: rounds would go back as far, and then leap again, for ever."""

_NEGLIGIBLE = 0.01
"""Standard deviations far below this need no exact value."""

_ORDINARY = 2.5
"""Standard deviations beyond which a level is not taken for a draw from the prior."""

_UNTOLD = 1e-3
"""A variance of which the data say less than this share of one node says stays as it is."""


@dataclass(frozen=True, slots=True)
class Variances:
    """Of a node's level (at the centre of its own traffic) and slope, and of the second (bend) and
    first (step) differences between knots that its waves are made of; in log-odds."""

    level: float = 0.1
    slope: float = 0.03
    bend: float = 0.001
    step: float = 0.001

    @property
    def values(self) -> Floats:
        """Level, slope, bend, step, (4,)."""
        return np.array([self.level, self.slope, self.bend, self.step])

    def of_waves(self, steepness: Floats) -> Floats:
        """Of the waves' amplitudes, (k - 2,)."""
        return np.asarray(self.bend + self.step * steepness)

    def updated(self, moments: "Moments", steepness: Floats) -> "Variances":
        """One round of the fixed-point iteration that maximises the marginal likelihood.

        With d the prior variances that a component v enters by its shares a, S the sums of the
        squared modes and V those of the posterior variances over n nodes:
        v' = v sum(a S / d^2) / sum(a (n d - V) / d^2). Its fixed points are those of EM with
        Laplace covariances, in fewer rounds.

        Source: Fellner (Technometrics 28, 1986); Wood and Fasiolo (Biometrics 73, 2017).
        """
        old = self.values
        prior = np.concatenate((old[:2], self.of_waves(steepness)))
        shares = np.zeros((4, len(prior)))
        shares[0, 0] = shares[1, 1] = 1.0
        shares[2, 2:], shares[3, 2:] = 1.0, steepness
        seen = shares @ (moments.squares / prior**2)
        free = shares @ (np.maximum(moments.nodes * prior - moments.variances, 0.0) / prior**2)
        guard = _UNTOLD / old
        factors = np.clip((seen + guard) / (free + guard), 1 / _FARTHEST, _FARTHEST)
        return Variances(*np.clip(old * factors, _SMALLEST, _LARGEST).tolist())

    def ahead(self, before: "Variances", earlier: "Variances") -> "Variances":
        """Where rounds that led from `earlier` over `before` to these go, if each step in log
        variance is the same share of the last (Aitken's delta-squared process)."""
        last, first = np.log(self.values / before.values), np.log(before.values / earlier.values)
        # How far a step that was cut short would have gone, nobody knows.
        longest = np.maximum(np.abs(first), np.abs(last))
        told = (np.abs(first) > _STILL) & (longest < 0.99 * np.log(_FARTHEST))
        share = np.divide(last, first, np.zeros(len(last)), where=told).clip(0.0, _SLOWEST)
        further = np.exp(np.clip(last * share / (1 - share), -_AHEAD, _AHEAD))
        return Variances(*np.clip(self.values * further, _SMALLEST, _LARGEST).tolist())

    def change(self, other: "Variances") -> float:
        """The largest relative change of a standard deviation, above what does not matter."""
        old, new = np.sqrt(self.values), np.sqrt(other.values)
        return float(np.max(np.abs(new - old) / (new + _NEGLIGIBLE)))


def own_levels(values: Floats, offsets: Floats) -> Floats:
    """Levels, (n,), of nodes with these coordinates, (n, k), where their own traffic is."""
    return values[:, 0] + offsets * values[:, 1]


def trust_in(values: Floats, offsets: Floats, variances: Variances) -> Floats:
    """See `Precisions`: of nodes with these coordinates, (n, k)."""
    farthest = _ORDINARY * np.sqrt(variances.level)
    return np.asarray(farthest / np.maximum(np.abs(own_levels(values, offsets)), farthest))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Over nodes: how many, (1,), and of each coordinate, (k,), the sum of the squared modes, and
    that of the posterior variances. They add over blocks."""

    nodes: Integers
    squares: Floats
    variances: Floats

    @classmethod
    def none(cls, size: int) -> Self:
        """Of no node."""
        return cls(np.zeros(1, np.int64), np.zeros(size), np.zeros(size))

    @classmethod
    def of(cls, values: Floats, covariances: Floats, offsets: Floats, trust: Floats) -> Self:
        """Of nodes with these coordinates, (n, k), and posterior covariances, (n, k, k), whose
        own traffic lies `offsets`, (n,), from the centre: there their level is taken. `trust`
        as in `Precisions`, (n,): no level counts for more than the farthest that is ordinary."""
        squares = np.sum(values**2, axis=0)
        variances = np.einsum("nii->i", covariances)
        squares[0] = np.sum((trust * own_levels(values, offsets)) ** 2)
        variances[0] += np.sum(
            2 * offsets * covariances[:, 0, 1] + offsets**2 * covariances[:, 1, 1]
        )
        return cls(np.array([len(values)]), squares, variances)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.nodes + other.nodes, self.squares + other.squares, self.variances + other.variances
        )


@dataclass(frozen=True, slots=True, eq=False)
class Precisions:
    """Prior precision matrices of nodes: a diagonal, (n, k), and the entry between level and
    slope, (n,).

    A node's level has `trust` / variance: 1 but for the few that lie too far out to be normal.
    Those keep more of their own level, and pull their parent and the variance no further than the
    farthest ordinary one.

    Source: Huber, Robust Statistics, 1981, by iteratively reweighted least squares.
    """

    diagonal: Floats
    beside: Floats

    @classmethod
    def of(cls, variances: Variances, offsets: Floats, steepness: Floats, trust: Floats) -> Self:
        """Of nodes whose own traffic lies `offsets`, (n,), from the centre."""
        levels = trust / variances.level
        waves = 1 / variances.of_waves(steepness)
        diagonal = np.tile(np.concatenate(([0.0, 0.0], waves)), (len(offsets), 1))
        diagonal[:, 0] = levels
        diagonal[:, 1] = 1 / variances.slope + offsets**2 * levels
        return cls(diagonal, offsets * levels)

    def plus(self, matrices: Floats) -> Floats:
        """The sum with other matrices, (n, k, k)."""
        return self.added_to(matrices.copy())

    def added_to(self, total: Floats) -> Floats:
        """The same, in their place."""
        np.einsum("nii->ni", total)[...] += self.diagonal
        total[:, 0, 1] += self.beside
        total[:, 1, 0] += self.beside
        return total

    def times(self, others: Floats) -> Floats:
        """The products with column vectors, (n, k, j)."""
        product: Floats = self.diagonal[:, :, None] * others
        product[:, 0] += self.beside[:, None] * others[:, 1]
        product[:, 1] += self.beside[:, None] * others[:, 0]
        return product


@dataclass(frozen=True, slots=True, eq=False)
class Eliminated:
    """Nodes solved for given their parents: one block of an arrowhead system.

    Each node adds its own deviation x to its parent's curve. With the gradient r and the
    information H of its data, and prior precision Q, the Newton system of parent and child is
    [. H; H, H + Q]; its Schur complement is what remains for the parent.

    covariances : P = (H + Q)^-1, (n, k, k).
    steps : P (r - Q x), the node's step were its parent's 0, (n, k).
    prior : Q.
    """

    covariances: Floats
    steps: Floats
    prior: Precisions

    @classmethod
    def of(cls, gradients: Floats, information: Floats, prior: Precisions, values: Floats) -> Self:
        """From the data's gradients, (n, k), and information, (n, k, k), at these values."""
        inverse = np.linalg.inv(prior.plus(information))
        covariances: Floats = inverse + inverse.transpose(0, 2, 1)
        covariances /= 2
        steps = np.einsum("nij,nj->ni", covariances, gradients - _product(prior, values))
        return cls(covariances, steps, prior)

    @property
    def size(self) -> int:
        """Bytes."""
        prior = self.prior.diagonal.nbytes + self.prior.beside.nbytes
        return self.covariances.nbytes + self.steps.nbytes + prior

    @property
    def shrunk(self) -> Floats:
        """P Q, (n, k, k)."""
        return np.asarray(self.prior.times(self.covariances).transpose(0, 2, 1))

    def left_for_parents(self, values: Floats) -> tuple[Floats, Floats]:
        """What is left for the parents: with the values it was made from, (n, k), the gradients
        Q (x + step), (n, k), and the information Q - Q P Q = H - H P H, (n, k, k)."""
        left = self.prior.times(self.shrunk)
        left = self.prior.added_to(np.negative(left, out=left))
        return _product(self.prior, values + self.steps), left

    def moved(self, parents: Floats) -> Floats:
        """The steps given those of the parents, (n, k)."""
        released = _product(self.prior, parents)
        moved: Floats = self.steps - parents + np.einsum("nij,nj->ni", self.covariances, released)
        return moved

    def own_covariances(self, parents: Floats) -> Floats:
        """Of the deviations, given the covariances of the parents' curves, (n or 1, k, k)."""
        released = self.prior.times(self.covariances)
        np.subtract(np.eye(released.shape[1]), released, out=released)
        spread: Floats = (released.transpose(0, 2, 1) @ parents) @ released
        spread += self.covariances
        return spread

    def curve_covariances(self, parents: Floats) -> Floats:
        """Of parent and deviation together, given the covariances of the parents' curves."""
        shrunk = self.shrunk
        spread: Floats = (shrunk @ parents) @ shrunk.transpose(0, 2, 1)
        return self.covariances + spread


def _product(prior: Precisions, values: Floats) -> Floats:
    return prior.times(values[:, :, None])[:, :, 0]


_WEAK_LEVEL, _WEAK_SLOPE = 1.0, 0.25
"""Variances of the target's own level and slope: worth a positive or two. They keep the equations
solvable where there are no data."""

_LONGEST = 2.0
"""Log-odds by which a curve moves at most in one Newton step: further out the quadratic
approximation of a binomial likelihood does not hold (Bach, EJS 4, 2010)."""


_START = Variances()
_START_OF_TARGET = replace(_START, level=_WEAK_LEVEL, slope=_WEAK_SLOPE)


class Priors(NamedTuple):
    """Variances of the campaigns' deviations, of the groups', and of the target's curve."""

    campaign: Variances = _START
    group: Variances = _START
    target: Variances = _START_OF_TARGET

    def change(self, other: "Priors") -> float:
        """The largest relative change of a standard deviation."""
        return max(own.change(others) for own, others in zip(self, other, strict=True))

    def ahead(self, before: "Priors", earlier: "Priors") -> "Priors":
        """Where these rounds lead, see `Variances.ahead`."""
        return Priors(*map(Variances.ahead, self, before, earlier))

    def updated(
        self, campaign: Moments, group: Moments, target: Moments, steepness: Floats
    ) -> "Priors":
        """One round towards the most likely variances."""
        own = self.target.updated(target, steepness)
        return Priors(
            self.campaign.updated(campaign, steepness),
            self.group.updated(group, steepness) if group.nodes else _START,
            replace(own, level=_WEAK_LEVEL, slope=_WEAK_SLOPE),
        )


class Tree:
    """Coordinates of the target's curve, (k,), and of the groups' deviations from it, (g, k).

    The last row of whatever stands for parents is the target alone: that of campaigns without a
    group, whose group is -1.
    """

    def __init__(self, coordinates: Coordinates, target: Floats, groups: Floats) -> None:
        self._coordinates = coordinates
        self._basis, self._steepness = coordinates.basis, coordinates.steepness
        self.target, self.groups = target, groups
        self.covariances: Floats = self.gather()[1]

    def with_groups(self, means: Floats) -> "Tree":
        """The same target, and so many groups as there are means of their first coordinates,
        (g, d): those that there are already stay where they are."""
        groups = np.zeros((len(means), len(self._basis)))
        groups[:, : means.shape[1]] = means
        kept = min(len(groups), len(self.groups)) if len(groups) == len(self.groups) else 0
        groups[:kept] = self.groups[:kept]
        return Tree(self._coordinates, self.target, groups)

    @property
    def parents(self) -> Floats:
        """Coordinates of the parents' curves, (g + 1, k)."""
        return self.target + np.vstack((self.groups, np.zeros_like(self.target)))

    def covariances_of(self, groups: Integers) -> Floats:
        """Of the curves of parents, (n, k, k), or (1, k, k) where all have the same."""
        return self.covariances if len(self.covariances) == 1 else self.covariances[groups]

    def prior_precision(self, target: Variances) -> Floats:
        """Of the target's coordinates, (k, k)."""
        one, size = np.ones(1), len(self._basis)
        prior = Precisions.of(target, one - 1, self._steepness, one)
        return np.asarray(prior.plus(np.zeros((1, size, size)))[0])

    def gather(self) -> tuple[Floats, Floats]:
        """Zeros for what campaigns tell to be added to."""
        size = len(self._basis)
        rows = len(self.groups) + 1
        return np.zeros((rows, size)), np.zeros((rows, size, size))

    def contribution(
        self, groups: Integers, gradients: Floats, information: Floats
    ) -> tuple[Integers, Floats, Floats]:
        """What campaigns of these groups, (n,), tell, (n, k) and (n, k, k), summed up by the rows
        of the tree that they belong to: those rows, (r,), and the sums, (r, k) and (r, k, k)."""
        if not len(self.groups) and len(groups):
            own = (gradients.sum(axis=0)[None], information.sum(axis=0)[None])
            return np.zeros(1, np.int64), *own
        order = np.argsort(groups, kind="stable")
        held, starts = np.unique(groups[order], return_index=True)
        if not len(groups):
            return held, gradients, information
        slopes = np.add.reduceat(gradients[order], starts)
        return held, slopes, np.add.reduceat(information[order], starts)

    def stepped(
        self, gradients: Floats, information: Floats, priors: Priors
    ) -> tuple[Floats, Moments, Floats]:
        """Moves by a Newton step.

        From what the campaigns tell, (g + 1, k) and (g + 1, k, k): the step of each parent's
        curve, (g + 1, k), the groups' moments, and the target's covariance, (k, k).
        """
        zeros = np.zeros(len(self.groups))
        of_groups = Eliminated.of(
            gradients[:-1],
            information[:-1],
            Precisions.of(priors.group, zeros, self._steepness, zeros + 1),
            self.groups,
        )
        left, remaining = of_groups.left_for_parents(self.groups)
        top = Eliminated.of(
            (gradients[-1] + left.sum(axis=0))[None],
            (information[-1] + remaining.sum(axis=0))[None],
            Precisions.of(priors.target, np.zeros(1), self._steepness, np.ones(1)),
            self.target[None],
        )
        step = shortened(top.steps, self._basis)[0]
        steps = shortened(of_groups.moved(np.tile(step, (len(zeros), 1))), self._basis)
        self.target, self.groups = self.target + step, self.groups + steps
        moments = Moments.of(
            self.groups, of_groups.own_covariances(top.covariances), zeros, zeros + 1
        )
        curves = of_groups.curve_covariances(top.covariances)
        self.covariances = np.concatenate((curves, top.covariances))
        return np.vstack((steps + step, step)), moments, top.covariances[0]


def shortened(steps: Floats, basis: Floats) -> Floats:
    """Steps, (n, k), that move no curve by more than the longest."""
    reach = np.abs(steps @ basis.T).max(axis=1, initial=0.0)
    return np.asarray(steps * np.minimum(1.0, _LONGEST / np.maximum(reach, _LONGEST))[:, None])
