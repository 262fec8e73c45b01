"""The synthetic regressions of papers 000 and 003: their data and training runs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from calibrators.samples import Floats
from evaluation.reproduction.model_losses import EvaluationRows, log_losses, quadratic_losses
from evaluation.reproduction.regressions import least_squares, logistic_regressions

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

    Attributes
    ----------
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
