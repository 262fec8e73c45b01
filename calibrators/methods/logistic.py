"""The parametric calibrators: Platt scaling, beta calibration, temperature scaling.

All are logistic regressions on columns of log-odds, fitted exactly, and sampled as maps.
"""

from dataclasses import dataclass, replace
from math import log1p
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.bins import WeightedSamples, check_some
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.methods.calibrator import Calibrator, Prior
from calibrators.samples import Floats, expit

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


_RELATIVE, _ABSOLUTE = 0.9e-3, 0.9e-9
_LOWEST, _HIGHEST = 1e-300, np.nextafter(1.0, 0.0)
"""Outermost scores between 0 and 1; below, a map's slope could not be held in a float."""

_LOW, _HIGH = -25.0, 12.0
"""Calibrated log-odds below which a probability is as good as 0, above which as good as 1."""

_MESH, _ZOOMS = 400, 3
_INSIDE = np.arange(1, 8) / 8


@dataclass(frozen=True, slots=True)
class LogOddsCurve:
    """logit q = a ln x - b ln(1 - x) + c, with a and b at least 0; the identity is (1, 1, 0).

    Source: Kull et al., Beta calibration, AISTATS 2017, equation 7; a = b is Platt scaling of the
    score's log-odds, and with c = 0 temperature scaling.
    """

    a: float
    b: float
    c: float

    def __call__(self, scores: Floats) -> Floats:
        """The exact probabilities of scores in [0, 1], shape (n,)."""
        return expit(self._log_odds(scores))

    def sampled(self) -> CalibrationMap:
        """The curve as a map, within 1e-3 of it, relative (near 0: 1e-9, absolute).

        This holds at 0 and at every score from 1e-300 on.

        Knots stand as close as the curvature asks; then every chord is checked and halved until it
        keeps the tolerance, or its ends are neighbouring floats.
        """
        knots = self._planned()
        while (bad := self._misses(knots)).any():
            knots = np.union1d(knots, _halfway(knots[:-1][bad], knots[1:][bad]))
        return CalibrationMap(knots, np.maximum.accumulate(self(knots)))

    def _log_odds(self, scores: Floats) -> Floats:
        log_odds = np.full(scores.shape, self.c, np.float64)
        with np.errstate(divide="ignore"):
            # A slope of 0 drops its term, also where that is infinite.
            if self.a:
                log_odds += self.a * np.log(scores)
            if self.b:
                log_odds -= self.b * np.log1p(-scores)
        return log_odds

    def _planned(self) -> Floats:
        """Knots of the piecewise-linear curve with equal errors on all chords, to first order."""
        mesh = self._mesh()
        density = self._density(expit(mesh))
        steps = np.diff(mesh) * (density[1:] + density[:-1]) / 2
        reached = np.append(0.0, np.cumsum(steps))
        chords = int(np.ceil(reached[-1])) + 1
        places = np.interp(np.linspace(0.0, reached[-1], chords + 1), reached, mesh)
        return np.unique(np.concatenate(([0.0], expit(places), [1.0])))

    def _density(self, scores: Floats) -> Floats:
        """Chords for each unit of the score's log-odds.

        A chord of length h errs by about h^2 |q''| / 8.
        """
        q = self(scores)
        slope = self.a * (1 - scores) + self.b * scores
        bend = self.b * scores**2 - self.a * (1 - scores) ** 2
        curvature = q * (1 - q) * np.abs((1 - 2 * q) * slope**2 + bend)
        return np.asarray(np.sqrt(curvature / (8 * np.maximum(_RELATIVE * q, _ABSOLUTE))))

    def _mesh(self) -> Floats:
        """Log-odds of scores all over where the curve is neither as good as 0 nor as 1."""
        low, high = _bounded_log_odds(np.array([_LOWEST, _HIGHEST]))
        for _ in range(_ZOOMS):
            mesh = np.linspace(low, high, _MESH)
            first, last = np.searchsorted(self._log_odds(expit(mesh)), (_LOW, _HIGH))
            low, high = mesh[max(first - 1, 0)], mesh[min(last, _MESH - 1)]
        return np.linspace(low, high, _MESH)

    def _misses(self, knots: Floats) -> NDArray[np.bool_]:
        """Which chords leave the tolerance and can still be halved."""
        left, right = knots[:-1, None], knots[1:, None]
        below, above = _bounded_log_odds(left), _bounded_log_odds(right)
        checked = np.hstack(
            (left + (right - left) * _INSIDE, expit(below + (above - below) * _INSIDE))
        )
        checked = np.clip(checked, left, right)
        q, exact = self(knots), self(checked)
        rise = np.diff(q)[:, None]
        chord = q[:-1, None] + rise * ((checked - left) / (right - left))
        wrong = np.abs(chord - exact) > np.maximum(_RELATIVE * exact, _ABSOLUTE)
        middle = _halfway(knots[:-1], knots[1:])
        return wrong.any(axis=1) & (middle > knots[:-1]) & (middle < knots[1:])


def _bounded_log_odds(scores: Floats) -> Floats:
    """Log-odds of scores, moved to the outermost between 0 and 1 where they lie beyond."""
    inside = np.clip(scores, _LOWEST, _HIGHEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _halfway(left: Floats, right: Floats) -> Floats:
    """Between two scores: halfway in log-odds, or in score where that falls on an end."""
    middle = expit((_bounded_log_odds(left) + _bounded_log_odds(right)) / 2)
    inside = (middle > left) & (middle < right)
    return np.where(inside, middle, left + (right - left) / 2)


class Platt(Calibrator):
    """Platt scaling of the score's log-odds: logit q = a logit x + c, a at least 0.

    Source: Platt, Probabilistic Outputs for Support Vector Machines, 1999. The outcomes 1 and 0
    become (P + 1) / (P + 2) and 1 / (N + 2), with P and N the weights of positives and negatives,
    so that no finite number of samples makes the map certain.

    >>> calibration_map = Platt().fit([0.2, 0.4], [0.25, 0.5], [4000, 4000])
    >>> calibration_map([0.2, 0.3, 0.4]).round(3)
    array([0.25 , 0.379, 0.5  ])
    """

    name: ClassVar[str] = "platt"

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        low, high = log_odds_columns(data.scores)
        (slope,), level = fit_log_odds((low + high,), data.weights, smoothed_positives(data))
        return LogOddsCurve(slope, slope, level).sampled()


def smoothed_positives(data: WeightedSamples) -> Floats:
    """Positives of each distinct score once the outcomes are Platt's targets, shape (m,)."""
    positives = np.minimum(data.positives, data.weights)
    negatives = data.weights - positives
    total = float(positives.sum())
    high, low = (total + 1) / (total + 2), 1 / (float(negatives.sum()) + 2)
    return positives * high + negatives * low


class Beta(Calibrator):
    """Beta calibration: logit q = a ln x - b ln(1 - x) + c, a and b at least 0.

    Source: Kull, Silva Filho and Flach, Beta Calibration, AISTATS 2017; the baseline Beta of Deng
    et al., section 5.1. As there, a slope that comes out negative is dropped and the rest fitted
    again; the identity is inside the family.

    >>> calibration_map = Beta().fit([0.2, 0.5, 0.8], [0.1, 0.5, 0.9])
    >>> calibration_map([0.2, 0.5, 0.8]).round(3)
    array([0.1, 0.5, 0.9])
    """

    name: ClassVar[str] = "beta"

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        columns = log_odds_columns(data.scores)
        (a, b), c = fit_log_odds(columns, data.weights, data.positives)
        return LogOddsCurve(a, b, c).sampled()


class Temperature(Calibrator):
    """Temperature scaling: logit q = logit x / T, that is, a slope 1 / T of at least 0.

    Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017. It mends scores that
    are too sure or not sure enough; it cannot move a score of 1/2, nor a wrong level.

    >>> calibration_map = Temperature().fit([0.2, 0.8], [0.4, 0.6])
    >>> calibration_map([0.2, 0.5, 0.8]).round(3)
    array([0.4, 0.5, 0.6])
    """

    name: ClassVar[str] = "temperature"

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """The curve through the distinct scores, sampled."""
        low, high = log_odds_columns(data.scores)
        (slope,), _ = fit_log_odds((low + high,), data.weights, data.positives, level=False)
        return LogOddsCurve(slope, slope, 0.0).sampled()
