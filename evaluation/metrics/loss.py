"""Losses of probabilities: log loss and RIG, mean square error and NMSE, mean absolute error.

Arguments and errors are those of `evaluation.metrics`. Log loss and RIG clip probabilities to
[1e-12, 1 - 1e-12]. RIG and NMSE are nan unless there are both positives and negatives.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from calibrators.samples import Floats
from evaluation.metrics.predictions import Predictions, weighted_mean

EPSILON = 1e-12
"""Probabilities are clipped to [EPSILON, 1 - EPSILON], so a click at probability 0 costs 27.6."""

_BLOCK = 1 << 14
"""Samples worked on at a time: what is made of them stays in the processor's cache."""


def log_loss(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of -(y ln p + (1 - y) ln(1 - p)).

    In nats a sample; lower is better, and the true probabilities have the lowest expectation of
    all. Its size depends on the click rate, so compare it only on the same samples.

    Source: Yi et al., KDD 2013 (paper 001), section 3.

    >>> round(log_loss([0.5, 0.8], [0, 1]), 6)
    0.458145
    """
    return log_loss_of(Predictions.check(p, y, sample_weight))


def log_loss_of(predictions: Predictions) -> float:
    """`log_loss` of checked predictions."""
    weight = predictions.weights.sum()
    if weight == 0.0:
        return float("nan")
    starts = range(0, len(predictions.weights), _BLOCK)
    return float(sum(_loss(predictions, slice(start, start + _BLOCK)) for start in starts) / weight)


def _loss(predictions: Predictions, rows: slice) -> float:
    clipped = np.clip(predictions.probabilities[rows], EPSILON, 1.0 - EPSILON)
    positives = predictions.weights[rows] * predictions.outcomes[rows]
    hits = np.log(clipped)
    hits *= positives
    misses = np.log1p(np.negative(clipped, out=clipped), out=clipped)
    misses *= np.subtract(predictions.weights[rows], positives, out=positives)
    hits += misses
    return float(-hits.sum())


def sample_losses(p: Floats, positives: Floats, weights: Floats) -> Floats:
    """-(positives ln p + (weights - positives) ln(1 - p)) of every sample or run, (n,).

    `positives` are weight times outcome. Clipped as `log_loss` is.
    """
    clipped = np.clip(p, EPSILON, 1.0 - EPSILON)
    losses: Floats = -positives * np.log(clipped) - (weights - positives) * np.log1p(-clipped)
    return losses


def click_entropy(positives: Floats, negatives: Floats) -> Floats:
    """Entropy in nats of each rate positives / (positives + negatives), in the arguments' shape.

    Both are at least 0. The entropy is 0 where there is one class only, nan where there is none.
    """
    with np.errstate(invalid="ignore"):
        # The rarer class, because 1 - x cannot tell a small x.
        rarer = np.minimum(positives, negatives) / (positives + negatives)
    entropy: Floats = -xlogy(rarer, rarer) - (1.0 - rarer) * np.log1p(-rarer)
    return entropy


def rig(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Relative information gain: 1 - log loss / entropy of the click rate.

    0 is no better than giving every sample the click rate, negative is worse, and only knowing
    every outcome for certain reaches 1: the true probabilities do not. It has no unit, but it
    depends on the data as much as on the model (`rate_slices`), so compare models on the same
    samples only.

    Source: Yi et al., KDD 2013 (paper 001), section 4.2; its equation (2) omits the mean over the
    samples.

    >>> round(rig([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.568633
    >>> rig([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    0.0
    """
    return rig_of(Predictions.check(p, y, sample_weight))


def rig_of(predictions: Predictions) -> float:
    """`rig` of checked predictions."""
    positives = predictions.positives.sum()
    negatives = (predictions.weights - predictions.positives).sum()
    if positives == 0.0 or negatives == 0.0:
        return float("nan")
    entropy = float(click_entropy(np.asarray(positives), np.asarray(negatives)))
    return 1.0 - log_loss_of(predictions) / entropy


def mse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of (y - p)^2.

    Lower is better; the true probabilities have the lowest expectation of all. With few clicks
    nearly all of it is the noise of the clicks, which no model can remove: `nmse` sets it against
    that. A fraction y gives y (1 - p)^2 + (1 - y) p^2, so that bins give what their samples would.

    Source: Yi et al., KDD 2013 (paper 001), section 4.3.

    >>> round(mse([0.5, 0.8], [0, 1]), 6)
    0.145
    """
    return _mse(Predictions.check(p, y, sample_weight))


def _mse(predictions: Predictions) -> float:
    p, y = predictions.probabilities, predictions.outcomes
    return weighted_mean(y * (1.0 - p) ** 2 + (1.0 - y) * p**2, predictions.weights)


def nmse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean square error over rate * (1 - rate), the error of giving every sample the click rate.

    1 is no better than the click rate, below is better, above is worse. With few clicks even good
    models stay close to 1: 0.987 in Table 2 of the paper.

    Source: Yi et al., KDD 2013 (paper 001), section 4.3.

    >>> round(nmse([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.3
    >>> nmse([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    1.0
    """
    predictions = Predictions.check(p, y, sample_weight)
    rate = weighted_mean(predictions.outcomes, predictions.weights)
    others = weighted_mean(1.0 - predictions.outcomes, predictions.weights)
    if not rate * others > 0.0:
        return float("nan")
    return _mse(predictions) / (rate * others)


def mae(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of |y - p|.

    Do not choose a model by it. It is no proper score: where clicks are rarer than one half, the
    model that never predicts any has the lowest expectation of all. In Table 2 of the paper the
    calibrated model has 2.095e-3 and p = 0 has 1.062e-3, the click rate, half as much. It is here
    because the paper calls it one of the most reliable metrics; `mse` and `log_loss` are proper. A
    fraction y gives y (1 - p) + (1 - y) p.

    Source: Yi et al., KDD 2013 (paper 001), section 4.4.

    Calibrated, and yet worse than to predict nothing:

    >>> round(mae([0.2] * 5, [0, 0, 0, 0, 1]), 6), round(mae([0.0] * 5, [0, 0, 0, 0, 1]), 6)
    (0.32, 0.2)
    """
    predictions = Predictions.check(p, y, sample_weight)
    missed = predictions.outcomes * (1.0 - predictions.probabilities)
    wrong = (1.0 - predictions.outcomes) * predictions.probabilities
    return weighted_mean(missed + wrong, predictions.weights)
