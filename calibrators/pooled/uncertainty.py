"""How sure the served log-odds are: variances of curves and levels, and what was missing in them.

The posterior knows what its model knows. What truth does besides (a curve with steps, a market
that turns) is learnt from misses: the least variance is added with which nine of ten of the
window's own misses would have been inside their 90 % interval.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.pooled.campaign_hours import CampaignHours
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.fit import Shape
from calibrators.pooled.priors import Variances
from calibrators.samples import Floats

_INSIDE, _SIGMAS = 0.9, 1.645
_EXTRA: Floats = np.concatenate(([0.0], np.geomspace(0.02, 0.8, 24))) ** 2
"""Variances of log-odds to choose from."""

_MATERIAL = 0.1
"""Log-odds: a miss speaks as far as chance does not hide one of this size."""

_NEWEST = (1, 2, 4, 8, 16)
"""Hours of the spans that are compared with what is served."""

_CONTRADICTION = 2.0
"""Standard deviations beyond which the newest hours contradict what is served."""


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


def contradiction(block: CampaignHours, shifts: Floats, variances: Floats) -> Floats:
    """What the newest hours say against levels with these shifts and variances, (c,) each, as
    further variance: the square of the largest log ratio of a span that is further from 0 than two
    standard deviations."""
    counted = block.weights > 0
    expected = block.expected * counted * np.exp(shifts)[:, None]
    observed, found = block.observed * counted, np.zeros(len(shifts))
    for span in _NEWEST:
        e, y = (table[:, -span:].sum(axis=1) + 0.5 for table in (expected, observed))
        squares = np.log(y / e) ** 2
        sure = squares > _CONTRADICTION**2 * (1 / e + variances)
        found = np.maximum(found, np.where(sure, squares, 0.0))
    return found


def _along(covariances: Floats, directions: Floats) -> Floats:
    """Variances, (c, n), of (c or 1, k, k) along (c or 1, n, k)."""
    found: Floats = ((directions @ covariances) * directions).sum(axis=2)
    return found
