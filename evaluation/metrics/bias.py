"""The bias of a model's log-odds: the one shift that makes the sum of its predictions right.

Arguments and errors not described are those of `evaluation.metrics`.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, logit, logsumexp

from calibrators.samples import Floats
from evaluation.metrics.loss import EPSILON
from evaluation.metrics.predictions import Predictions

_CLOSE = 1e-12
"""The sum of the shifted probabilities is right to this share of itself."""


def bias_shift(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The c for which q = sigmoid(logit(p) - c) has the least log loss of all shifts.

    There the sum of q is the sum of y, because the log loss is convex in c and that is where its
    derivative is 0. Positive c: the model predicts too much, and c comes off all its log-odds.
    ValueError when the outcomes are all 0 or all 1, which no finite shift fits.

    Newton's method on ln(sum q / sum y), with bisection where a step leaves the bracket or does
    not halve. With the rate r of the outcomes, the root lies between the lowest and the highest
    log-odds, each less logit(r): at one end no q is below r, at the other none above. When
    positives are the commoner class, negatives are summed instead, so that the rarer sum is the
    one met to twelve digits.

    Source: Fan et al. (paper 000), section 3, equation (6), and paper 003, section 3, equation (6),
    where "c* = min" is argmin; c is subtracted in both.

    All predictions are 1/2, and a quarter came: the odds fall from 1 to 1/3.

    >>> round(bias_shift([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1]), 6), round(float(np.log(3)), 6)
    (1.098612, 1.098612)
    """
    return bias_shift_of(Predictions.check(p, y, sample_weight))


def bias_shift_of(predictions: Predictions) -> float:
    """`bias_shift` of checked predictions."""
    held = predictions.weights > 0.0
    if not held.any():
        return float("nan")
    outcomes, odds = predictions.outcomes[held], log_odds(predictions.probabilities[held])
    _check_both_classes(outcomes)
    # In logarithms, because with lopsided weights the sums leave the range of floats.
    log_weights = np.log(predictions.weights[held])
    log_weights -= log_weights.max()
    positives = float(logsumexp(log_weights, b=outcomes))
    negatives = float(logsumexp(log_weights, b=1.0 - outcomes))
    if positives <= negatives:
        return _root(odds, log_weights, positives, positives - negatives)
    return -_root(-odds, log_weights, negatives, negatives - positives)


def _check_both_classes(outcomes: Floats) -> None:
    if not both_outcomes(outcomes):
        raise ValueError(
            f"outcomes are all {outcomes[0]:.0f} ({len(outcomes):,} samples): the shift that would"
            " fit them is infinite; fit it on samples with both outcomes, such as more of them"
        )


def both_outcomes(y: Floats) -> bool:
    """Whether some outcome is above 0 and some below 1: the shift that fits them is finite."""
    return bool(len(y) and y.max() > 0.0 and y.min() < 1.0)


def _root(odds: Floats, log_weights: Floats, target: float, rate: float) -> float:
    """The c with ln(sum of weights * expit(odds - c)) = target; `rate` is the target's log-odds.

    The target is at most half of all weight.
    """
    low, high = float(odds.min()) - rate, float(odds.max()) - rate
    weights = np.exp(log_weights)
    mean = float((weights * expit(odds)).sum() / weights.sum())
    c = min(max(float(logit(mean)) - rate, low), high)
    step = high - low
    while True:
        excess, slope = _excess(odds - c, log_weights, target)
        if abs(excess) <= _CLOSE:
            return c
        low, high = (c, high) if excess > 0.0 else (low, c)
        following = c + excess / slope
        if not (low < following < high and abs(following - c) <= step / 2.0):
            following = low + (high - low) / 2.0
        if not low < following < high:
            return c
        c, step = following, abs(following - c)


def _excess(odds: Floats, log_weights: Floats, target: float) -> tuple[float, float]:
    """ln(sum of weights * expit(odds)) - target, and how fast it falls as the odds do."""
    terms = log_weights + log_expit(odds)
    largest = float(terms.max())
    shares = np.exp(terms - largest)
    total = float(shares.sum())
    return largest + log(total) - target, float((shares * expit(-odds)).sum()) / total


def log_odds(p: Floats) -> Floats:
    """ln(p / (1 - p)) with p clipped to [1e-12, 1 - 1e-12], in p's shape: within 27.7 of 0."""
    odds: Floats = logit(np.clip(p, EPSILON, 1.0 - EPSILON))
    return odds
