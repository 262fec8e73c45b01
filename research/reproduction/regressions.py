"""Linear and logistic regressions, many at once.

The synthetic regressions of papers 000 and 003: their data and training runs.
Risks of linear models under the known distribution of the synthetic data, without sampling.
Losses of many linear models on one evaluation set, plain and calibrated.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, logit, xlogy

from calibrators.samples import Floats

_MAX_STEPS = 50
_SMALL_STEP = 1e-9
# Products this small are done by one thread; starting more costs more than they save.
_ROWS_AT_ONCE = 400


def with_intercept(features: Floats) -> Floats:
    """Features of shape (..., n, d) with a last column of ones."""
    columns = np.ones((*features.shape[:-1], features.shape[-1] + 1))
    columns[..., :-1] = features
    return columns


def least_squares(features: Floats, outcomes: Floats) -> Floats:
    """Coefficients (k, d + 1), intercept last, of k regressions on (k, n, d) and (k, n)."""
    columns = with_intercept(features)
    curvature, gradient = _no_moments(columns)
    for block, rows in _blocks(columns):
        transposed = np.swapaxes(block, -1, -2)
        curvature += transposed @ block
        gradient += transposed @ outcomes[:, rows, None]
    return _solved(curvature, gradient)


def logistic_regressions(features: Floats, outcomes: Floats) -> Floats:
    """Coefficients (k, d + 1), intercept last, of k unpenalised logistic regressions.

    Maximum likelihood by Newton's method; the log likelihood has one maximum, which does not
    depend on where the steps start. Raises ValueError when none is reached, as when a plane
    separates the outcomes.
    """
    columns = with_intercept(features)
    coefficients = np.zeros((columns.shape[0], columns.shape[-1]))
    # Where outcomes are separated, the likelihood flattens until its curvature is 0.
    with suppress(np.linalg.LinAlgError):
        for _ in range(_MAX_STEPS):
            step = _newton_step(columns, outcomes, coefficients)
            coefficients += step
            if np.abs(step).max(initial=0.0) < _SMALL_STEP:
                return coefficients
    raise ValueError("outcomes: no logistic regression has the highest likelihood")


def _newton_step(columns: Floats, outcomes: Floats, coefficients: Floats) -> Floats:
    curvature, gradient = _no_moments(columns)
    for block, rows in _blocks(columns):
        probabilities = expit((block @ coefficients[..., None])[..., 0])
        weights = probabilities * (1.0 - probabilities)
        transposed = np.swapaxes(block, -1, -2)
        curvature += transposed @ (block * weights[..., None])
        gradient += transposed @ (outcomes[:, rows] - probabilities)[..., None]
    return _solved(curvature, gradient)


def _no_moments(columns: Floats) -> tuple[Floats, Floats]:
    models, _, width = columns.shape
    return np.zeros((models, width, width)), np.zeros((models, width, 1))


def _blocks(columns: Floats) -> Iterator[tuple[Floats, slice]]:
    for first in range(0, columns.shape[1], _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        yield columns[:, rows], rows


def _solved(curvature: Floats, gradient: Floats) -> Floats:
    solution = np.linalg.solve(curvature, gradient).astype(np.float64, copy=False)
    return solution[..., 0]


_SMALL_LOSS_STEP = 1e-12
_MODELS_AT_ONCE = 16

PLAIN, SAME_ROWS, CALIBRATED = "plain", "same rows", "calibrated"
LOSSES = (PLAIN, SAME_ROWS, CALIBRATED)
"""On all rows; on the rows that remain; on these after the bias is taken out."""


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """An evaluation set of n rows, of which the first `bias_rows` find the bias (V), the others
    remain (R).

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
        if np.abs(steps).max(initial=0.0) < _SMALL_LOSS_STEP:
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


FEATURES = 20
FEATURE_MEAN, FEATURE_DEVIATION = -0.05, 0.25
NOISE_MEAN, NOISE_DEVIATION = 1.0, 2.0
TRAINING_ROWS = 1_000
REMAINING_ROWS = 10_000
_FITS_AT_ONCE = 50

Drawn = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Regression:
    """One of the two synthetic settings.

    outcomes_of : draws outcomes for features of shape (..., 20).
    fit : coefficients of k models from features (k, n, d) and outcomes (k, n).
    losses : of k models on evaluation rows, shape (k, 3).
    bias_rows : evaluation rows that find the bias.
    """

    outcomes_of: Callable[[np.random.Generator, Floats], Floats]
    fit: Callable[[Floats, Floats], Floats]
    losses: Callable[[Floats, EvaluationRows], Floats]
    bias_rows: int

    def draw(self, rng: np.random.Generator, *shape: int) -> Drawn:
        """Features (*shape, 20) and outcomes (*shape)."""
        features = rng.standard_normal((*shape, FEATURES))
        features *= FEATURE_DEVIATION
        features += FEATURE_MEAN
        return features, self.outcomes_of(rng, features)

    def evaluation_rows(self, rng: np.random.Generator) -> EvaluationRows:
        """One evaluation set, V first."""
        features, outcomes = self.draw(rng, self.bias_rows + REMAINING_ROWS)
        return EvaluationRows.of(features, outcomes, self.bias_rows)

    def trained(self, rng: np.random.Generator, runs: int, used: int) -> Floats:
        """Coefficients (runs, used + 1), each run on its own draw of 1,000 rows."""
        parts = []
        for first in range(0, runs, _FITS_AT_ONCE):
            features, outcomes = self.draw(rng, min(_FITS_AT_ONCE, runs - first), TRAINING_ROWS)
            parts.append(self.fit(features[..., :used], outcomes))
        return np.concatenate(parts)


def _linear_outcomes(rng: np.random.Generator, features: Floats) -> Floats:
    noise = rng.normal(NOISE_MEAN, NOISE_DEVIATION, features.shape[:-1])
    outcomes: Floats = features.sum(axis=-1) + noise
    return outcomes


def _logistic_outcomes(rng: np.random.Generator, features: Floats) -> Floats:
    clicked = rng.random(features.shape[:-1]) < expit(features.sum(axis=-1))
    outcomes: Floats = clicked.astype(np.float64)
    return outcomes


LINEAR = Regression(_linear_outcomes, least_squares, quadratic_losses, 1_000)
LOGISTIC = Regression(_logistic_outcomes, logistic_regressions, log_losses, 2_000)
USED_BY = {"A": FEATURES, "B": FEATURES - 1}


_NODES = 80


def quadratic_risks(coefficients: Floats) -> tuple[Floats, Floats]:
    """Risk and calibrated risk, (k,) each, of linear models (k, used + 1), intercept last.

    The expected squared error, and its variance part: what is left without the mean error.
    """
    errors = np.zeros((len(coefficients), FEATURES))
    errors[:, : coefficients.shape[1] - 1] = coefficients[:, :-1]
    errors -= 1.0
    mean_errors = coefficients[:, -1] + FEATURE_MEAN * errors.sum(axis=1) - NOISE_MEAN
    calibrated = NOISE_DEVIATION**2 + FEATURE_DEVIATION**2 * np.square(errors).sum(axis=1)
    return calibrated + mean_errors**2, calibrated


def expected_quadratic_risk(used: int) -> float:
    """Mean of the risk over training draws: v (1 + 1/n) (1 + d / (n - d - 2)).

    v is the variance that the d features used leave, that of the others included.

    >>> round(expected_quadratic_risk(20), 4), round(expected_quadratic_risk(19), 4)
    (4.0859, 4.1455)
    """
    left = NOISE_DEVIATION**2 + (FEATURES - used) * FEATURE_DEVIATION**2
    n = TRAINING_ROWS
    return left * (1.0 + 1.0 / n) * (1.0 + used / (n - used - 2))


def bayes_log_loss(used: int) -> float:
    """Log loss of the true probabilities given the first `used` features, by quadrature.

    The features enter by their sum, which is normal; those that are not used blur it.

    >>> round(bayes_log_loss(20), 6), round(bayes_log_loss(19), 6)
    (0.521192, 0.526588)
    """
    known, hidden = _sum_nodes(used), _sum_nodes(FEATURES - used)
    p = expit(known[0][:, None] + hidden[0]) @ hidden[1]
    entropy = -(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))
    return float(entropy @ known[1])


def _sum_nodes(features: int) -> tuple[Floats, Floats]:
    """Nodes and weights, which add to 1, of the sum of so many features."""
    nodes, weights = hermegauss(_NODES)
    scale = FEATURE_DEVIATION * np.sqrt(features)
    return FEATURE_MEAN * features + scale * nodes, weights / weights.sum()
