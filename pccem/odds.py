"""Odds scaled by a factor per campaign, so that the campaign's probabilities reach a sum."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pccem.arrays import Floats, Rows

_LARGEST_LOG: Final = 10.0
_FARTHEST: Final = 2.0
_TOLERANCE: Final = 1e-11
_STEPS: Final = 100


def scale_odds(p: Floats, factors: Floats) -> Floats:
    """Probabilities whose odds p / (1 - p) are multiplied by the factors, (n,) in [0, 1]."""
    scaled = p * factors
    return scaled / (1.0 - p + scaled)


def odds_factors(p: Floats, ratios: Floats, rows: Rows) -> Floats:
    """The factor of each campaign's odds that brings its sum of p to ratio * sum p.

    The factor lies between the ratio, where all p are small, and its square, where the search
    stops: a campaign of a few clicks that are likely to convert would need far more, or more
    conversions than it has clicks. Newton's method in log-odds for all campaigns at once, inside a
    bracket that closes: the sum increases with the factor.

    Parameters
    ----------
    p : (n,) in [0, 1].
    ratios : (n_campaigns,) above 0.
    rows : (n,) each click's campaign.

    Returns
    -------
    Floats
        (n_campaigns,) above 0.
    """
    sums = _Sums(p, rows, len(ratios))
    logs = np.clip(np.log(ratios), -_LARGEST_LOG, _LARGEST_LOG)
    wanted = np.exp(logs) * sums.of(np.ones(len(ratios)))[0]
    ends = _FARTHEST * logs
    beyond = np.sign(logs) * (sums.of(np.exp(ends))[0] - wanted) < 0.0
    low, high = np.minimum(logs, ends), np.maximum(logs, ends)
    for _ in range(_STEPS):
        reached, slopes = sums.of(np.exp(logs))
        excess = reached - wanted
        low, high = np.where(excess <= 0.0, logs, low), np.where(excess >= 0.0, logs, high)
        following = _next(logs, excess, slopes, low, high)
        near = (np.abs(following - logs) <= _TOLERANCE) | (np.abs(excess) <= _TOLERANCE * wanted)
        logs = np.where(beyond, ends, following)
        if (near | beyond).all():
            break
    factors: Floats = np.exp(logs)
    return factors


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    p: Floats
    rows: Rows
    n_campaigns: int

    def of(self, factors: Floats) -> tuple[Floats, Floats]:
        """Sum of the scaled probabilities by campaign, and its slope in log-odds."""
        scaled = scale_odds(self.p, factors[self.rows])
        return self._by_campaign(scaled), self._by_campaign(scaled * (1.0 - scaled))

    def _by_campaign(self, values: Floats) -> Floats:
        sums = np.bincount(self.rows, values, self.n_campaigns)
        return sums.astype(np.float64, copy=False)


def _next(logs: Floats, excess: Floats, slopes: Floats, low: Floats, high: Floats) -> Floats:
    """The next guess: Newton's, or the middle of the bracket where that leaves it."""
    step = np.divide(excess, slopes, out=np.zeros_like(logs), where=slopes > 0.0)
    guess = logs - step
    middle: Floats = 0.5 * (low + high)
    return np.where((guess >= low) & (guess <= high), guess, middle)
