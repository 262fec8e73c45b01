"""Logistic regression on columns of log-odds, exact: what the parametric calibrators share."""

from dataclasses import dataclass, replace
from math import log1p

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats
from calibrators.scipy_functions import expit
from calibrators.tally import check_some

PULL = 1e-9
"""Strength of the pull towards the identity, per unit of weight: it decides only what the data
leave open (separable or one-class outcomes, constant scores), and keeps that finite."""

_NEAREST_TO_EDGE = 1e-12
_FEW = 4096
_MOST_STEPS = 200
_STILL = 1e-9


def log_odds_columns(scores: Floats) -> tuple[Floats, Floats]:
    """ln x and -ln(1 - x), shape (n,) each, of scores cut to [1e-12, 1 - 1e-12].

    Their sum is the score's log-odds.
    """
    cut = np.clip(scores, _NEAREST_TO_EDGE, 1.0 - _NEAREST_TO_EDGE)
    return np.log(cut), -np.log1p(-cut)


def fit_log_odds(
    columns: tuple[Floats, ...], weights: Floats, positives: Floats, level: bool = True
) -> tuple[tuple[float, ...], float]:
    """The slopes, all at least 0, and the level (0 without one) of least log loss.

    The fitted log-odds of a score are sum_j slopes_j * columns_j + level. Columns, weights (above
    0) and positives (weight x outcome) have shape (m,) and ascend with the score. The loss is
    minimised to the rounding of float64, not to a tolerance; the identity has slopes 1, level 0.
    Raises ValueError when there is nothing to fit from.
    """
    check_some(len(weights))
    features = np.stack((*columns, np.ones_like(weights)) if level else columns)
    share = weights / weights.sum()
    regression = _Regression(
        features,
        share,
        np.minimum(positives / weights, 1.0) * share,
        np.append(np.ones(len(columns)), [0.0] * level),
    )
    _, fitted = _best(regression, len(columns), np.ones(len(features), dtype=bool))
    found = fitted.tolist()
    return tuple(found[: len(columns)]), found[-1] if level else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Regression:
    """Features, (k, m), weights summing to 1 and positives, (m,), and where the pull goes, (k,)."""

    features: Floats
    weights: Floats
    positives: Floats
    identity: Floats

    def loss(self, coefficients: Floats) -> float:
        """Log loss for each unit of weight, and the pull."""
        log_odds = coefficients @ self.features
        # Both classes' losses are sums of positive terms: no digits cancel, however sure they are.
        least = np.log1p(np.exp(-np.abs(log_odds)))
        negatives = self.weights - self.positives
        of_data = negatives @ (np.maximum(log_odds, 0.0) + least)
        of_data += self.positives @ (np.maximum(-log_odds, 0.0) + least)
        return float(of_data + PULL / 2 * np.sum((coefficients - self.identity) ** 2))

    def newton_step(self, coefficients: Floats, free: NDArray[np.bool_]) -> Floats:
        """Newton's step of the free coefficients, (k,); the others stay."""
        probabilities = expit(coefficients @ self.features)
        features = self.features[free]
        slope = features @ (self.weights * probabilities - self.positives)
        slope += PULL * (coefficients - self.identity)[free]
        bend = (features * (self.weights * probabilities * (1 - probabilities))) @ features.T
        bend += PULL * np.eye(len(features))
        step = np.zeros_like(coefficients)
        step[free] = np.linalg.solve(bend, -slope)
        return step

    def averaged(self) -> "_Regression":
        """A few thousand averages of neighbours in place of all the distinct scores."""
        starts = np.arange(0, len(self.weights), -(-len(self.weights) // _FEW))
        weights = np.add.reduceat(self.weights, starts)
        sums = np.add.reduceat(self.features * self.weights, starts, axis=1)
        return replace(
            self,
            features=sums / weights,
            weights=weights,
            positives=np.add.reduceat(self.positives, starts),
        )


def _best(regression: _Regression, slopes: int, free: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Least loss, and the coefficients, of which the first `slopes` may not be negative.

    The loss is convex, so one of the slopes that come out negative is 0 at the best.
    """
    fitted = _minimum(regression, free)
    negative = np.flatnonzero(fitted[:slopes] < 0)
    if not len(negative):
        return regression.loss(fitted), fitted
    fewer = (free & (np.arange(len(free)) != dropped) for dropped in negative)
    return min((_best(regression, slopes, kept) for kept in fewer), key=lambda found: found[0])


def _minimum(regression: _Regression, free: NDArray[np.bool_]) -> Floats:
    start = regression.identity * free
    if len(regression.weights) > _FEW:
        start = _descend(regression.averaged(), start, free)
    return _descend(regression, start, free)


def _descend(regression: _Regression, start: Floats, free: NDArray[np.bool_]) -> Floats:
    """Newton's method from the start until no log-odds move any more."""
    coefficients = start
    for _ in range(_MOST_STEPS if free.any() else 0):
        step = regression.newton_step(coefficients, free)
        reach = float(np.abs(step @ regression.features).max())
        coefficients = coefficients + _length(regression, coefficients, step, reach) * step
        if reach <= _STILL:
            break
    return coefficients


def _length(regression: _Regression, coefficients: Floats, step: Floats, reach: float) -> float:
    """How much of a step to take: all if no log-odds move by more than 1, else what lowers the
    loss, by halving, down to the length that always does.

    Source: Bach, Self-concordant Analysis for Logistic Regression, EJS 2010: along a step that
    moves no log-odds by more than r, the length ln(1 + r) / r is safe.
    """
    if reach <= 1:
        return 1.0
    length, safe = 1.0, log1p(reach) / reach
    before = regression.loss(coefficients)
    while length > safe and not regression.loss(coefficients + length * step) < before:
        length /= 2
    return max(length, safe)
