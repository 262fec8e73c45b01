"""The curve of the parametric calibrators, as a calibration map."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrators.calibration_map import CalibrationMap
from calibrators.samples import Floats
from calibrators.scipy_functions import expit

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
        density: Floats = np.sqrt(curvature / (8 * np.maximum(_RELATIVE * q, _ABSOLUTE)))
        return density

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
    log_odds: Floats = np.log(inside) - np.log1p(-inside)
    return log_odds


def _halfway(left: Floats, right: Floats) -> Floats:
    """Between two scores: halfway in log-odds, or in score where that falls on an end."""
    middle = expit((_bounded_log_odds(left) + _bounded_log_odds(right)) / 2)
    inside = (middle > left) & (middle < right)
    return np.where(inside, middle, left + (right - left) / 2)
