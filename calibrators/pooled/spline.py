"""The knots that all campaigns share, and the linear spline on them as level, slope and waves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from calibrators.samples import Floats, Integers

_NARROW = 1.4
"""Log-odds, 16 coarse cells or four steps from knot to knot: what most scores lie in is stretched
to this at least. Ordinary scores lie in twice as much."""

_LARGEST = 32.0
"""The factor with which neighbouring cells of the bins are coarse cells of their own."""

_REACH, _PLACES = 2.5 * _NARROW, 8
"""How far on each side of its middle a stretched range goes, and places in that for the middle."""

_CLOSER = 1 / 8
"""Of the way from the others to scores far away from them, across which there are none."""


Numbers = float | Floats


class Stretch(NamedTuple):
    """Log-odds of scores with those in a narrow range `factor` times as far from its middle, where
    cells, knots and priors have the resolution of ordinary scores; those beyond its `reach` are
    moved along. The middle lies on a lattice, the factor is a power of two: both seldom change.
    What lies below `low` or above `high`, across a gap, has come nearer to it first, then what lies
    on both sides of `gap`, a middle: of the distance, `side` on each, the share `kept` is left."""

    middle: Numbers = 0.0
    reach: Numbers = 0.0
    factor: Numbers = 1.0
    low: Numbers = -np.inf
    high: Numbers = np.inf
    gap: Numbers = 0.0
    side: Numbers = 0.0
    kept: Numbers = 1.0

    @classmethod
    def of(cls, low: float, high: float) -> Self:
        """Where most scores lie between these log-odds; none where they are one score."""
        factor = 1.0
        while 0.0 < (high - low) * factor < _NARROW and factor < _LARGEST:
            factor *= 2
        reach = _REACH / factor
        place = round((low + high) / 2 / reach * _PLACES)
        return cls(place * reach / _PLACES, reach, factor) if factor > 1 else cls()

    @classmethod
    def exactly(cls, low: float, start: float, stop: float, high: float, width: float) -> Self:
        """That with which they are as wide as ordinary scores, where these are not one score; of a
        gap between them, from start to stop, an eighth of their width without it is left, and a
        quarter on each side, where there still are some."""
        gap = stop - start
        inner = gap - width / 2 if gap else 0.0
        kept = width / 8 / inner if gap else 1.0
        factor = min(2 * _NARROW / (width + gap - (1 - kept) * inner), _LARGEST)
        parts = (low + high) / 2, _REACH / factor, factor
        return cls(*parts, gap=(start + stop) / 2, side=inner / 2, kept=kept)

    def __call__(self, log_odds: Floats) -> Floats:
        """Stretched, (n,); without a stretch the same to the bit."""
        closer = log_odds - (1 - _CLOSER) * (log_odds - np.clip(log_odds, self.low, self.high))
        joined = _scaled(closer, self.gap, self.side, self.kept)
        return _scaled(joined, self.middle, self.reach, self.factor)

    def back(self, stretched: Floats) -> Floats:
        """As they were, (n,)."""
        joined = _scaled(stretched, self.middle, self.reach * self.factor, 1 / self.factor)
        closer = _scaled(joined, self.gap, self.side * self.kept, 1 / self.kept)
        beyond = closer - np.clip(closer, self.low, self.high)
        return np.asarray(closer + (1 / _CLOSER - 1) * beyond)


def _scaled(values: Floats, middle: Numbers, reach: Numbers, factor: Numbers) -> Floats:
    """Values within reach of the middle times the factor away from it, the others moved along."""
    return np.asarray(values + (factor - 1) * np.clip(values - middle, -reach, reach))


AS_IS = Stretch()


class Stretches(NamedTuple):
    """The stretch of all campaigns and of what is of nobody, and those of campaigns that have still
    narrower scores in a place of their own, by name: instead of it."""

    shared: Stretch = AS_IS
    own: Mapping[str | None, Stretch] = MappingProxyType({})

    def at(self, campaigns: Sequence[str | None], rows: Integers) -> Stretch:
        """That of log-odds of the campaigns at these rows, (n,); None is no campaign."""
        if not self.own:
            return self.shared
        each = np.array([self.own.get(name, self.shared) for name in campaigns])
        return Stretch(*each[rows].T)


AS_THEY_ARE = Stretches()


_SPACING = 0.35
_FEWEST, _MOST = 4, 22


@dataclass(frozen=True)
class Knots:
    """Log-odds (first, first + 1, ... first + count - 1) * spacing, or the few scores themselves.

    They lie on a lattice, so that they seldom change from refit to refit; where a model gives few
    distinct scores, these are the knots: `scores`, their log-odds, ascending, at least 4 of them.
    All log-odds are stretched.
    """

    first: int
    count: int
    spacing: float
    scores: tuple[float, ...] = ()
    stretch: Stretch = AS_IS

    @classmethod
    def between(cls, low: float, high: float) -> Self:
        """Knots that span these log-odds, as close as the most that there may be allow."""
        spacing = _SPACING
        while np.ceil(high / spacing) - np.floor(low / spacing) + 1 > _MOST:
            spacing *= 2
        first, last = int(np.floor(low / spacing)), int(np.ceil(high / spacing))
        missing = max(0, _FEWEST - (last - first + 1))
        return cls(first - missing // 2, max(last - first + 1, _FEWEST), spacing)

    @classmethod
    def at(cls, log_odds: Floats) -> Self:
        """Knots at these log-odds, ascending; None of them is anywhere else."""
        return cls(0, len(log_odds), _SPACING, tuple(log_odds.tolist()))

    @cached_property
    def positions(self) -> Floats:
        """Their log-odds, (k,)."""
        if self.scores:
            return np.array(self.scores)
        return self.spacing * (self.first + np.arange(self.count, dtype=np.float64))

    def places(self, log_odds: Floats) -> tuple[Integers, Floats]:
        """The knot before each value, (m,), and the weight of the one behind it; beyond the
        outermost knots a spline is constant."""
        at = np.clip(log_odds / self.spacing - self.first, 0.0, self.count - 1.0)
        if self.scores:
            at = np.interp(log_odds, self.positions, np.arange(float(self.count)))
        before = np.minimum(at.astype(np.int64), self.count - 2)
        return before, at - before

    def moved(self, curves: Floats, onto: "Knots") -> Floats:
        """Curves given by their values at these knots, (n, k), at the knots of another set."""
        if self == onto:
            return curves
        before, after = self.places(onto.positions)
        return np.asarray(curves[:, before] * (1 - after) + curves[:, before + 1] * after)


_ROWS = 32
"""Rows that are multiplied at once: so few that BLAS sees no work for a second thread, which would
cost more CPU than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """curve = basis @ (level, slope, amplitudes of waves).

    The columns of the waves are orthogonal to level and slope under the traffic of all campaigns
    together, so the level of a curve is its mean where the traffic is, at `centre`. Their second
    differences are the sines s_j(i) = sqrt(2 / (k - 1)) sin(pi i j / (k - 1)), j = 1 .. k - 2: the
    eigenvectors of second differences that are independent (a random walk of order 2) as well as
    of those of independent first differences (a random walk of order 1). So any sum of the two
    walks has independent amplitudes, of variance bend + step * `steepness`.

    Source: P-splines (Eilers and Marx, Statistical Science 11, 1996) as a mixed model (Currie and
    Durban, Statistical Modelling 2, 2002).

    basis : (k, k).
    centre : log-odds.
    steepness : 2 - 2 cos(pi j / (k - 1)), (k - 2,).
    pairs : outer products of the rows of the basis, one for each knot and then one for each two
        neighbours, (2 k - 1, k * k): what turns a tridiagonal matrix on the knots into one here.
    """

    knots: Knots
    basis: Floats
    centre: float
    steepness: Floats
    pairs: Floats

    @classmethod
    def of(cls, knots: Knots, mass: Floats) -> Self:
        """From how much traffic lies at each knot, (k,)."""
        weights = mass / max(mass.sum(), np.finfo(float).tiny) + 1e-3 / len(mass)
        weights = weights / weights.sum()
        positions = knots.positions
        centre = float(weights @ positions)
        lines = np.stack((np.ones_like(positions), positions - centre), axis=1)
        hinges = _hinges(knots)
        fitted = np.linalg.solve(lines.T * weights @ lines, lines.T * weights @ hinges)
        angles = np.pi * np.arange(1, len(mass) - 1) / (len(mass) - 1)
        sines = np.sqrt(2 / (len(mass) - 1)) * np.sin(np.outer(angles, np.arange(1, len(mass) - 1)))
        basis = np.hstack((lines, (hinges - lines @ fitted) @ sines))
        steep = 2 - 2 * np.cos(angles)
        return cls(knots, basis, centre, steep**2 if knots.scores else steep, _pairs(basis))

    def matrices(self, diagonal: Floats, beside: Floats) -> Floats:
        """Tridiagonal matrices on the knots, (n, k) and (n, k - 1), in these coordinates."""
        size = len(self.basis)
        flat = _product(np.hstack((diagonal, beside)), self.pairs)
        return flat.reshape(-1, size, size)

    def variances(self, covariances: Floats) -> tuple[Floats, Floats]:
        """Of curves with these covariances, (n, k, k): the variance at each knot, (n, k), and
        the covariance of each two neighbours, (n, k - 1)."""
        size = len(self.basis)
        found = _product(covariances.reshape(-1, size * size), self.pairs.T)
        return found[:, :size], found[:, size:] / 2

    def directions(self, log_odds: Floats) -> Floats:
        """A curve's value at each of these scores, (n,), by its coordinates, (n, k)."""
        before, after = self.knots.places(log_odds)
        share = after[:, None]
        return np.asarray(self.basis[before] * (1 - share) + self.basis[before + 1] * share)

    def of_curves(self, curves: Floats) -> Floats:
        """The coordinates of curves given by their values at the knots, (n, k)."""
        return np.linalg.solve(self.basis, curves.T).T.astype(np.float64, copy=False)


def _hinges(knots: Knots) -> Floats:
    """Functions whose second differences are 1 at one knot and 0 elsewhere, (k, k - 2)."""
    places = np.arange(float(knots.count)) if knots.scores else knots.positions
    hinges = np.maximum(places[:, None] - places[1:-1], 0.0)
    return np.asarray(hinges / (1.0 if knots.scores else knots.spacing))


def _product(rows: Floats, columns: Floats) -> Floats:
    """rows @ columns."""
    found = np.empty((len(rows), columns.shape[1]))
    whole = len(rows) // _ROWS * _ROWS
    parts = rows[:whole].reshape(-1, _ROWS, rows.shape[1])
    np.matmul(parts, columns, out=found[:whole].reshape(-1, _ROWS, columns.shape[1]))
    np.matmul(rows[whole:], columns, out=found[whole:])
    return found


def _pairs(basis: Floats) -> Floats:
    own = basis[:, :, None] * basis[:, None, :]
    beside = basis[:-1, :, None] * basis[1:, None, :]
    both = np.concatenate((own, beside + beside.transpose(0, 2, 1)))
    return both.reshape(len(both), -1)
