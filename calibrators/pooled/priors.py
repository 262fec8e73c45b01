"""Normal priors of a deviation's coordinates, and their empirical-Bayes variances."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats

_SMALLEST, _LARGEST = 1e-8, 1e4
_FARTHEST = 10.0
"""No variance changes by more than this factor in one round."""

_STILL, _SLOWEST = 1e-9, 0.9

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
        waves: Floats = self.bend + self.step * steepness
        return waves

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
        share = np.zeros(len(last))
        np.divide(last, first, out=share, where=np.abs(first) > _STILL)
        share = np.clip(share, 0.0, _SLOWEST)
        further = np.exp(last * share / (1 - share))
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
    trust: Floats = farthest / np.maximum(np.abs(own_levels(values, offsets)), farthest)
    return trust


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Over nodes: how many, and of each coordinate, (k,), the sum of the squared modes and the sum
    of the posterior variances. They add over blocks."""

    nodes: int
    squares: Floats
    variances: Floats

    @classmethod
    def none(cls, size: int) -> Self:
        """Of no node."""
        return cls(0, np.zeros(size), np.zeros(size))

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
        return cls(len(values), squares, variances)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.nodes + other.nodes,
            self.squares + other.squares,
            self.variances + other.variances,
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
        total = matrices.copy()
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
