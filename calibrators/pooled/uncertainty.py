"""How sure the served log-odds are: variances of curves and levels, and what was missing in them.

The posterior knows what its model knows. What truth does besides is learnt from the window's own
misses. Of curves (steps that no smooth curve follows) the least variance is added with which nine
of ten of them would have been inside their 90 % interval. Of levels, whose misses are few positives
each, it is the posterior mean of a variance that counts show (`learnt_variance`). A level that may
have jumped has no normal posterior but a mixture over when it did, whose 90 % interval counts
(`mixture_variance`).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np

from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.change_points import negative_binomial
from calibrators.pooled.fit import Shape
from calibrators.pooled.hierarchy import Variances
from calibrators.samples import Floats
from calibrators.scipy_functions import ndtr

_INSIDE, _SIGMAS = 0.9, 1.645
_EXTRA: Floats = np.concatenate(([0.0], np.geomspace(0.02, 0.8, 24))) ** 2
"""Variances of log-odds to choose from."""

_MATERIAL = 0.1
"""Log-odds: a miss speaks as far as chance does not hide one of this size."""

_LEARNT: Floats = np.concatenate(([0.0], np.geomspace(0.01, 0.6, 18)))
"""Standard deviations of log ratios to choose from."""

_USUAL = 0.05
"""The likeliest of them beforehand: their density goes with sd exp(-sd / usual)."""

_SPANS: Final = (1, 2, 4, 8, 16)
"""A jump began one of the newest hours or, alike, up to as many hours before it as to the next."""

_HALVINGS = 18
"""Of the range of an end: to some thousandths of a standard deviation."""


def missing_variance(misses: Floats, noise: Floats, variances: Floats) -> float:
    """The least variance that, added to these and to the noise, has nine of ten misses in log-odds
    inside 90 % intervals, (n,) each, as far as chance cannot tell: less one standard error. A miss
    weighs less the more noise it has."""
    weights = (_MATERIAL**2 / (_MATERIAL**2 + noise)) ** 2
    error = np.sqrt(_INSIDE * (1 - _INSIDE) * (weights**2).sum())
    goal = _INSIDE * weights.sum() - error
    squares = misses**2 / _SIGMAS**2 - noise - variances
    for extra in _EXTRA[:-1].tolist():
        if weights[squares <= extra].sum() >= goal:
            return float(extra)
    return float(_EXTRA[-1])


@dataclass(frozen=True, slots=True, eq=False)
class CurveUncertainty:
    """How sure the curves of a fitted shape are at n scores.

    directions : of curves at these scores, in the coordinates, (n, k).
    """

    shape: Shape
    directions: Floats

    @classmethod
    def of(cls, shape: Shape, log_odds: Floats) -> Self:
        """At scores of these log-odds, (n,)."""
        return cls(shape, shape.coordinates.directions(log_odds))

    def campaigns(self, block: CampaignBlock) -> Floats:
        """Variances of the served curves of a block, (c, n), their own levels left out: those the
        state-space filter knows."""
        solved = self.shape.eliminated(block)
        levels = np.zeros((len(block), 1, self.directions.shape[1]))
        levels[:, 0, 0], levels[:, 0, 1] = 1.0, block.offsets
        own = _along(solved.covariances, self.directions - levels)
        above = self.shape.tree.covariances_of(block.groups)
        return own + _along(above, self.directions @ solved.shrunk)

    def shared(self) -> Floats:
        """The same, (1 + g, n), of a campaign of which nothing is known: its own deviation, and its
        group's where that is unknown too, are draws from their priors."""
        known = _along(np.roll(self.shape.tree.covariances, 1, axis=0), self.directions)
        known += self._of_prior(self.shape.priors.campaign)
        if len(known) > 1:
            known[0] += self._of_prior(self.shape.priors.group)
        return known

    def missing(self) -> float:
        """What curves miss of the cells that they were fitted to, as a variance of log-odds."""
        found = [self._misses(block) for block in self.shape.blocks]
        return missing_variance(*np.hstack([np.empty((3, 0)), *found]))

    def _misses(self, block: CampaignBlock) -> Floats:
        curves, covariances = self.shape.curves(block), self.shape.eliminated(block).covariances
        variances, _ = self.shape.coordinates.variances(covariances)
        return block.misses(curves, variances)

    def _of_prior(self, prior: Variances) -> Floats:
        waves = prior.of_waves(self.shape.coordinates.steepness)
        found: Floats = prior.level + self.directions[:, 2:] ** 2 @ waves
        return found + prior.slope * self._own_width()

    def _own_width(self) -> float:
        """Mean square distance of scores from the centre of their campaign's traffic."""
        sums = np.sum([block.scatter() for block in self.shape.blocks], axis=0)
        return float(sums[0] / max(sums[1], np.finfo(float).tiny))


def learnt_variance(observed: Floats, expected: Floats, known: Floats, followed: Floats) -> float:
    """The variance of log ratios beyond the known that n counts of positives show, (n,) each: its
    posterior mean, given that an expected count is a Poisson rate times a gamma variable.

    A level that wanders is followed the better, the more positives tell where it is: of a variance
    v, v / (1 + v followed) is left, with as many positives `followed` in the hours in which it
    stays about the same.
    """
    held = expected > 0
    y, e, before, seen = (column[held] for column in (observed, expected, known, followed))
    logs = np.array([_log_chance(y, e, before + v / (1 + v * seen)).sum() for v in _LEARNT**2])
    logs += np.log(np.maximum(_LEARNT, _LEARNT[1] / 2)) - _LEARNT / _USUAL
    weights = np.gradient(_LEARNT) * np.exp(logs - logs.max())
    return float(weights @ _LEARNT**2 / weights.sum())


def _log_chance(observed: Floats, expected: Floats, variances: Floats) -> Floats:
    """Of counts whose rates are expected times a gamma variable of mean 1 and these variances."""
    size = 1 / np.maximum(variances, _LEARNT[1] ** 2 / 100)
    return negative_binomial(observed, expected, size, size)


def mixture_variance(
    observed: Floats, expected: Floats, variances: Floats, rate: float, jump: float
) -> Floats:
    """The variance whose normal 90 % interval around the served levels is that of a mixture, (c,).

    The level of each of c campaigns is where it is served, with these variances, (c,), or has
    jumped, once in 1 / `rate` hours and with the variance `jump`: in the hour that is served, or
    one of `_SPANS` of hours before, as far as the positives since say so: observed, and expected
    where levels are served, (c, h), the newest hour last.

    Source: the mixtures of Harrison and Stevens, JRSS B 38, 1976, of one jump at most.
    """
    means, spreads = [np.zeros(len(variances))] * 2, [variances, variances + jump]
    logs = [np.zeros(len(variances)), np.full(len(variances), np.log(rate))]
    size = 1 / (variances + jump)
    for shorter, span in pairwise((0, *_SPANS)):
        y, e = (table[:, -span:].sum(axis=1) for table in (observed, expected))
        gained = _log_chance(y, e, variances + jump) - _log_chance(y, e, variances)
        logs.append(np.log(rate * (span - shorter)) + gained)
        means.append(np.log((size + y) / (size + e)))
        spreads.append(1 / (size + y))
    shares = np.exp(logs - np.max(logs, axis=0))
    ends = _ends(np.array(means), np.sqrt(spreads), shares / shares.sum(axis=0))
    return np.asarray((ends / _SIGMAS) ** 2)


def _ends(means: Floats, deviations: Floats, weights: Floats) -> Floats:
    """How far around 0 mixtures of k normal variables, (k, c), hold nine tenths, (c,)."""
    low = np.zeros(means.shape[1])
    high = (np.abs(means) + 2 * _SIGMAS * deviations).max(axis=0, initial=0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = ndtr((middle - means) / deviations) - ndtr((-middle - means) / deviations)
        enough = (weights * inside).sum(axis=0) > _INSIDE
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray((low + high) / 2)


def _along(covariances: Floats, directions: Floats) -> Floats:
    """Variances, (c, n), of (c or 1, k, k) along (c or 1, n, k)."""
    found: Floats = ((directions @ covariances) * directions).sum(axis=2)
    return found
