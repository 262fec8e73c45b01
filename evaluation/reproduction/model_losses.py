"""Losses of many linear models on one evaluation set, plain and calibrated."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit

from calibrators.samples import Floats
from evaluation.reproduction.regressions import with_intercept

_MAX_STEPS = 50
_SMALL_STEP = 1e-12
_MODELS_AT_ONCE = 16

PLAIN, SAME_ROWS, CALIBRATED = "plain", "same rows", "calibrated"
LOSSES = (PLAIN, SAME_ROWS, CALIBRATED)
"""On all rows; on the rows that remain; on these after the bias is taken out."""


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """An evaluation set of n rows, of which the first `bias_rows` find the bias (V), the others
    remain (R).

    Attributes
    ----------
    columns : (d + 1, n) features, then ones.
    outcomes : (n,).
    bias_rows : rows of V.
    """

    columns: Floats
    outcomes: Floats
    bias_rows: int

    @classmethod
    def of(cls, features: Floats, outcomes: Floats, bias_rows: int) -> Self:
        """The rows with their features, shape (n, d)."""
        return cls(np.ascontiguousarray(with_intercept(features).T), outcomes, bias_rows)

    def scores(self, coefficients: Floats) -> Floats:
        """Linear predictors, shape (k, n), of k models.

        Models with fewer than d features use the first ones; coefficients (k, used + 1).
        """
        used = coefficients.shape[1] - 1
        # A product would start threads, which wait for each other on a busy machine.
        scores: Floats = np.einsum("kd,dn->kn", coefficients[:, :-1], self.columns[:used])
        scores += coefficients[:, -1:]
        return scores


def quadratic_losses(coefficients: Floats, rows: EvaluationRows) -> Floats:
    """Mean squared errors, shape (k, 3) in the order of `LOSSES`; the bias is the mean residual."""
    return _in_chunks(_quadratic_losses, coefficients, rows)


def log_losses(coefficients: Floats, rows: EvaluationRows) -> Floats:
    """Log losses, shape (k, 3) in the order of `LOSSES`; the bias is a shift of the log-odds."""
    return _in_chunks(_log_losses, coefficients, rows)


def bias_shifts(log_odds: Floats, outcomes: Floats) -> Floats:
    """The shift c of each model, (k, n) to (k,): sum of expit(log-odds - c) = sum of outcomes.

    Newton's method from the difference of the log-odds of the means. Raises ValueError when it
    does not end, as when all outcomes are equal.
    """
    rate = outcomes.mean()
    if not 0.0 < rate < 1.0:
        raise ValueError("outcomes: all are equal, no finite shift fits them")
    shifts: Floats = logit(expit(log_odds).mean(axis=1)) - logit(rate)
    for _ in range(_MAX_STEPS):
        probabilities = expit(log_odds - shifts[:, None])
        slopes = (probabilities * (1.0 - probabilities)).mean(axis=1)
        steps = (probabilities.mean(axis=1) - rate) / slopes
        shifts += steps
        if np.abs(steps).max(initial=0.0) < _SMALL_STEP:
            return shifts
    raise ValueError("log_odds: Newton's method finds no shift")


def _in_chunks(
    losses: Callable[[Floats, EvaluationRows], Floats], coefficients: Floats, rows: EvaluationRows
) -> Floats:
    """A few models at a time, whose scores on all rows stay in the cache."""
    firsts = range(0, len(coefficients), _MODELS_AT_ONCE)
    chunks = [coefficients[first : first + _MODELS_AT_ONCE] for first in firsts]
    return np.concatenate([losses(rows.scores(chunk), rows) for chunk in chunks])


def _quadratic_losses(scores: Floats, rows: EvaluationRows) -> Floats:
    residuals = rows.outcomes - scores
    bias, remaining = residuals[:, : rows.bias_rows], residuals[:, rows.bias_rows :]
    calibrated = remaining - bias.mean(axis=1, keepdims=True)
    parts = (residuals, remaining, calibrated)
    return np.stack([np.square(part).mean(axis=1) for part in parts], axis=1)


def _log_losses(log_odds: Floats, rows: EvaluationRows) -> Floats:
    cut, y = rows.bias_rows, rows.outcomes
    each = _log_loss(log_odds, y)
    shifts = bias_shifts(log_odds[:, :cut], y[:cut])
    calibrated = _log_loss(log_odds[:, cut:] - shifts[:, None], y[cut:])
    parts = (each, each[:, cut:], calibrated)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _log_loss(log_odds: Floats, outcomes: Floats) -> Floats:
    """Of every row: ln(1 + e^l) - y l, without overflow."""
    tails: Floats = np.log1p(np.exp(-np.abs(log_odds)))
    return tails + np.maximum(log_odds, 0.0) - outcomes * log_odds
