"""Log loss: the price of a wrong probability, in nats a sample."""

import numpy as np
from numpy.typing import ArrayLike

from evaluation.predictions import Predictions

EPSILON = 1e-12
"""Probabilities are clipped to [EPSILON, 1 - EPSILON], so a click at probability 0 costs 27.6."""

_BLOCK = 1 << 14
"""Samples worked on at a time: what is made of them stays in the processor's cache."""


def log_loss(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of -(y ln p + (1 - y) ln(1 - p)).

    Lower is better; the true probabilities have the lowest expectation of all. Its size depends
    on the click rate, so compare it only on the same samples.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1], clipped to [1e-12, 1 - 1e-12].
    y : (n,) outcomes in [0, 1], fractions allowed.
    sample_weight : (n,) finite, at least 0.

    Returns
    -------
    float
        nan without samples or without weight.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 3.

    Examples
    --------
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
