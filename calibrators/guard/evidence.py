"""How well maps foretold the outcomes of an hour, campaign by campaign."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit

from calibrators.bins_table import BinsTable
from calibrators.samples import Floats, Integers

_LEAST = 1e-9
"""Probabilities stay so far from 0 and 1, so that no single outcome is infinitely surprising."""

_STEPS = 5
"""Newton steps; a shift of at most 1 is found to all digits in fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Outcomes of an hour by cell of score: mean score, mean outcome, weight and campaign's row of
    each, (m,); `campaigns` says how many rows there are."""

    scores: Floats
    outcomes: Floats
    weights: Floats
    rows: Integers
    campaigns: int

    @classmethod
    def of_table(cls, table: BinsTable) -> Self:
        """Of the bins of an hour."""
        return cls(*table.samples(), len(table))

    def log_likelihood(self, log_odds: Floats) -> Floats:
        """Of each campaign's outcomes, (c,), by forecasts of every cell, (m,)."""
        nats = self.outcomes * log_odds - np.logaddexp(0.0, log_odds)
        return self._sums(self.weights * nats)

    def best_log_likelihood(self, log_odds: Floats, tolerance: float) -> Floats:
        """The largest `log_likelihood` of a campaign's forecasts shifted by up to the tolerance,
        all by the same."""
        shifts = self.best_shifts(log_odds, tolerance)
        return self.log_likelihood(log_odds + shifts[self.rows])

    def best_shifts(self, log_odds: Floats, most: float) -> Floats:
        """The shifts, (c,), up to `most` that make the likelihood the largest. It is concave in
        them, so Newton's method, held inside, finds them."""
        shifts = np.zeros(self.campaigns)
        for _ in range(_STEPS if most > 0.0 else 0):
            forecasts = expit(log_odds + shifts[self.rows])
            short = self._sums(self.weights * (self.outcomes - forecasts))
            curvature = self._sums(self.weights * forecasts * (1.0 - forecasts))
            steps = short / np.maximum(curvature, np.finfo(np.float64).tiny)
            shifts = np.clip(shifts + steps, -most, most)
        return shifts

    def _sums(self, values: Floats) -> Floats:
        return np.bincount(self.rows, values, self.campaigns).astype(np.float64)


def log_odds_of(probabilities: Floats) -> Floats:
    """Finite log-odds of forecasts."""
    clipped: Floats = logit(np.clip(probabilities, _LEAST, 1.0 - _LEAST))
    return clipped
