"""Risks of linear models under the known distribution of the synthetic data, without sampling."""

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, xlogy

from calibrators.samples import Floats
from evaluation.reproduction.synthetic_regression import (
    FEATURE_DEVIATION,
    FEATURE_MEAN,
    FEATURES,
    NOISE_DEVIATION,
    NOISE_MEAN,
    TRAINING_ROWS,
)

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
