"""Where campaigns' levels are: filtered hour by hour, under given dynamics."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.pooled.dynamics import Dynamics
from calibrators.samples import Floats

_FARTHEST = 30.0
"""Log ratios beyond which none is looked for: they would overflow, and mean nothing."""

_ROUNDS = 4
"""Newton's steps to a level: from above they come down to it, the last by less than noise."""

AHEAD = 0.5
"""Hours from the moment to the middle of the hour that is served."""


@dataclass(slots=True)
class Tracks:
    """Normal beliefs about levels and trends of c campaigns under n dynamics, (n, c) each.

    An hour's positives are Poisson around expected * exp(level). The belief after an hour is taken
    at its mode, with the curvature there.

    Source: dynamic generalised linear models, West, Harrison and Migon, JASA 80, 1985; posterior
    modes, Fahrmeir, JASA 87, 1992.

    Attributes
    ----------
    levels, trends : means; log ratios, and log ratios an hour.
    spreads, ties, drifts : the levels' variances, their covariances with the trends, the trends'
        variances.
    """

    dynamics: Dynamics
    levels: Floats
    trends: Floats
    spreads: Floats
    ties: Floats
    drifts: Floats

    @classmethod
    def before(cls, dynamics: Dynamics, variances: Floats) -> Self:
        """What is believed before the first hour, of levels that have these variances, (c,)."""
        shape = (len(dynamics.steps), len(variances))
        return cls(
            dynamics,
            np.zeros(shape),
            np.zeros(shape),
            np.broadcast_to(variances, shape).copy(),
            np.zeros(shape),
            np.broadcast_to(dynamics.ordinary, shape).copy(),
        )

    def pass_time(self, hours: float) -> None:
        """What is believed so many hours later."""
        steps, _, persistence = self.dynamics
        left, ordinary = persistence**hours, self.dynamics.ordinary
        self.levels = np.clip(self.levels + hours * self.trends, -_FARTHEST, _FARTHEST)
        self.trends = left * self.trends
        ties = self.ties + hours * self.drifts
        self.spreads = self.spreads + hours * (self.ties + ties + steps)
        self.ties = left * ties
        self.drifts = left**2 * (self.drifts - ordinary) + ordinary

    def jump(self, chances: Floats, variances: Floats) -> None:
        """What is believed if each level may be a new one, with these chances, (c,), of the
        variance before the first hour: the mean and variance of both together."""
        kept = 1 - chances
        between = kept * chances * self.levels**2
        self.levels, self.trends = kept * self.levels, kept * self.trends
        self.spreads = kept * self.spreads + chances * variances + between
        self.ties = kept * self.ties

    def learn(self, observed: Floats, expected: Floats) -> None:
        """What is believed after an hour's positives, (c,) each."""
        found = self._modes(np.where(expected > 0, observed, 0.0), expected)
        information = expected * np.exp(found)
        left = 1 / (1 + information * self.spreads)
        moved = (found - self.levels) / np.maximum(self.spreads, np.finfo(float).tiny)
        self.trends = self.trends + self.ties * np.where(self.spreads > 0, moved, 0.0)
        self.levels = found
        self.drifts = self.drifts - information * left * self.ties**2
        self.ties = left * self.ties
        self.spreads = left * self.spreads

    def _modes(self, observed: Floats, expected: Floats) -> Floats:
        """The likeliest levels, (n, c): the zero of a falling concave function, which Newton's
        steps from any point above it do not pass."""
        low, tiny = self.levels, np.finfo(float).tiny
        seen = np.log(np.maximum(observed, tiny)) - np.log(np.maximum(expected, tiny))
        found: Floats = np.minimum(low + self.spreads * observed, np.maximum(low, seen))
        found = np.clip(found, -_FARTHEST, _FARTHEST)
        for _ in range(_ROUNDS):
            rates = expected * np.exp(found)
            gradients = self.spreads * (observed - rates) - (found - low)
            found = np.maximum(found + gradients / (self.spreads * rates + 1), -_FARTHEST)
        return found
