"""Calibrators of the literature, as far as their papers describe them: ConfCalib, which knows
fields; online Platt scaling with calibeating and Venn-Abers, which know the score alone.
"""

from math import exp, log
from typing import Final

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit

from calibrators.samples import Floats, Integers, sum_at
from research.leaderboard.boosted_maps import log_odds
from research.leaderboard.fields.method import Rows, Shape, Window
from research.leaderboard.fields.platform import FieldHour

HOURS: Final = 24


class ConfCalib:
    """One factor by value of each field, weaker where its data do not make it sure.

    Source: Zhao et al., Confidence-Aware Multi-Field Model Calibration (CIKM 2024). For each value:
    the mean score m, the click rate r of n impressions, and the half width h of r's Wilson
    interval. The deviation d = r - m is trusted the less the smaller it is beside h, by a sigmoid:
    factor = (m + d (2 / (1 + exp(-|d| / h)) - 1)) / m. The factors of an impression's values, the
    campaign among them, are multiplied, each to the power of its field's weight.

    Gaps closed, because the paper was at hand in summaries only: the sigmoid has no scale of its
    own; weights are in proportion to the fields' Field-RCE before; `strength` is their sum, chosen
    on the tuning seeds as was z.

    Parameters: z of the Wilson interval; strength.
    """

    def __init__(self, shape: Shape, z: float = 3.0, strength: float = 3.0) -> None:
        self._sizes = {"campaign": len(shape.campaigns), **shape.values}
        self._z, self._strength = z, strength
        self._window = Window(HOURS)

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        self._window.add(hour)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        past, rows = self._window.rows(), Rows.of([hour])
        columns = (np.ones(len(past.odds)), expit(past.odds), past.outcomes)
        sums = {
            name: np.stack([sum_at(past.codes[name], column, size) for column in columns])
            for name, size in self._sizes.items()
        }
        errors = {name: np.abs(clicks - found).sum() for name, (_, found, clicks) in sums.items()}
        total = sum(errors.values()) / self._strength
        moved = [
            errors[name] / total * np.log(_factors(sums[name], self._z))[rows.codes[name]]
            for name in self._sizes
        ]
        return np.asarray(np.minimum(hour.events.scores * np.exp(np.sum(moved, axis=0)), 1.0))


def _factors(sums: Floats, z: float) -> Floats:
    """ConfCalib's factor of each value, (v,), of impressions, scores and clicks, (3, v); 1 where
    there is nothing to go by."""
    n, predicted, clicks = sums
    held = np.maximum(n, 1.0)
    mean, rate = predicted / held, clicks / held
    half = z / (1.0 + z**2 / held) * np.sqrt(rate * (1.0 - rate) / held + (z / (2.0 * held)) ** 2)
    deviation = rate - mean
    trust = 2.0 * expit(np.abs(deviation) / half) - 1.0
    return np.where(n > 0.0, (mean + trust * deviation) / np.where(n > 0.0, mean, 1.0), 1.0)


_RADIUS, _GAMMA, _FIRST_DIAGONAL = 100.0, 0.1, 100.0
_BIN = 0.1
_BINS = 300


class OnlinePlatt:
    """Online Platt scaling with calibeating: a line in log-odds that follows every impression by an
    online Newton step, and the mean outcome of each bin of what it gave.

    Source: Gupta and Ramdas, Online Platt Scaling with Calibeating (ICML 2023): gamma .1, first
    matrix 100 I, start (1, 0), and "tracking" of bins. Outcomes come hour by hour. Two departures:
    bins are .1 wide in log-odds, not in probability, where one bin would hold all of a click rate
    of 1 %; and the projection, which a norm of 100 never asks for here, is a plain scaling.
    """

    def __init__(self) -> None:
        self.line = (1.0, 0.0)
        self._matrix = (_FIRST_DIAGONAL, 0.0, _FIRST_DIAGONAL)
        self._counts, self._clicks = np.zeros(_BINS), np.zeros(_BINS)

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        odds, outcomes = log_odds(hour.events.scores).tolist(), hour.events.outcomes.tolist()
        bins = _bins(np.array([self.step(x, y) for x, y in zip(odds, outcomes, strict=True)]))
        self._counts += sum_at(bins, np.ones(len(bins)), _BINS)
        self._clicks += sum_at(bins, hour.events.outcomes, _BINS)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        slope, level = self.line
        served = slope * log_odds(hour.events.scores) + level
        bins = _bins(served)
        seen = self._counts[bins] > 0.0
        means = self._clicks[bins] / np.maximum(self._counts[bins], 1.0)
        return np.where(seen, means, expit(served))

    def step(self, x: float, y: float) -> float:
        """Learn of one impression; the log-odds that it was given before."""
        a, b = self.line
        given = a * x + b
        error = 1.0 / (1.0 + exp(-given)) - y
        gx = error * x
        m11, m12, m22 = self._matrix
        m11, m12, m22 = m11 + gx * gx, m12 + gx * error, m22 + error * error
        scale = 1.0 / (_GAMMA * (m11 * m22 - m12 * m12))
        a, b = a - scale * (m22 * gx - m12 * error), b - scale * (m11 * error - m12 * gx)
        shrink = min(1.0, _RADIUS / (a * a + b * b) ** 0.5)
        self.line, self._matrix = (shrink * a, shrink * b), (m11, m12, m22)
        return given


def _bins(odds: Floats) -> Integers:
    bins: Integers = np.floor(odds / _BIN).astype(np.int64) + _BINS // 2
    return np.clip(bins, 0, _BINS - 1)


_CELL: Final = log(1.02)


class VennAbers:
    """Inductive Venn-Abers on the scores of the past day.

    Source: Vovk, Petej and Fedorova, Large-scale probabilistic predictors with and without
    guarantees of validity (2015). The score of an impression joins those of the past day, once with
    a click and once without; isotonic regression gives p1 and p0, and what is served is
    p1 / (1 - p0 + p1). Scores are rounded to 2 %, so that it is done once for each.
    """

    def __init__(self) -> None:
        self._window = Window(HOURS)

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        self._window.add(hour)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        past = self._window.rows()
        asked = np.round(log_odds(hour.events.scores) / _CELL)
        seen = np.round(past.odds / _CELL)
        cells, places = np.unique(np.concatenate([seen, asked]), return_inverse=True)
        n, m = len(cells), len(seen)
        counts = sum_at(places[:m], np.ones(m), n)
        clicks = sum_at(places[:m], past.outcomes, n)
        served = np.zeros(n)
        for cell in np.unique(places[m:]):
            p0, p1 = (_isotonic(counts, clicks, cell, outcome) for outcome in (0.0, 1.0))
            served[cell] = p1 / (1.0 - p0 + p1)
        return served[places[m:]]


def _isotonic(counts: Floats, clicks: Floats, cell: int, outcome: float) -> float:
    """The isotonic regression's value at a cell that one more outcome fell into."""
    counts, clicks = counts.copy(), clicks.copy()
    counts[cell] += 1.0
    clicks[cell] += outcome
    held = counts > 0.0
    fitted = isotonic_regression(clicks[held] / counts[held], weights=counts[held]).x
    return float(fitted[np.count_nonzero(held[:cell])])
