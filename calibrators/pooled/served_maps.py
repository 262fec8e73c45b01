"""Curves in log-odds as calibration maps: linear in probability between common knots."""

import numpy as np

from calibrators.map_columns import MapColumns
from calibrators.pooled.cells import FARTHEST
from calibrators.pooled.knots import Knots
from calibrators.samples import Floats, Integers
from calibrators.scipy_functions import expit

_MOST = 64
_BEYOND = np.array([0.35, 0.8, 1.4, 2.2, 3.2, 4.5, 6.0, 8.0, 10.5])
"""Log-odds beyond the outermost knots at which the constant odds ratio is sampled."""

_OUTERMOST = 30.0

_PART = 1024
"""Maps that are made at once: what it takes meanwhile is a few MB, however many there are."""


class ServedKnots:
    """Where the maps of a refit have their knots: at most 64, the same for every campaign."""

    def __init__(self, knots: Knots) -> None:
        low, high = knots.positions[0], knots.positions[-1]
        below, above = low - _BEYOND[::-1], high + _BEYOND
        tails = below[below > -FARTHEST], above[above < FARTHEST]
        room = _MOST - 2 - len(tails[0]) - len(tails[1])
        parts = max((room - 1) // (knots.count - 1), 1)
        inside = np.linspace(low, high, parts * (knots.count - 1) + 1)
        self._log_odds = np.concatenate(([-FARTHEST], tails[0], inside, tails[1], [FARTHEST]))
        self._before, self._after = knots.places(self._log_odds)
        self._scores = np.concatenate(([0.0], expit(self._log_odds[1:-1]), [1.0]))

    def maps(self, curves: Floats, shifts: Floats) -> MapColumns:
        """Maps of curves, (n, k), each shifted by as much, (n,)."""
        values = np.empty((len(curves), len(self._scores)))
        for first in range(0, len(curves), _PART):
            part = slice(first, first + _PART)
            values[part] = self._values(curves[part], shifts[part])
        lengths: Integers = np.full(len(curves), len(self._scores))
        return MapColumns(lengths, np.tile(self._scores, len(curves)), values.reshape(-1))

    def _values(self, curves: Floats, shifts: Floats) -> Floats:
        before, after = curves[:, self._before], curves[:, self._before + 1]
        table = before + self._after * (after - before) + self._log_odds + shifts[:, None]
        return np.maximum.accumulate(expit(np.clip(table, -_OUTERMOST, _OUTERMOST)), axis=1)
