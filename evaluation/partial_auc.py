"""Partial AUC: the ROC curve over a range of false positive rates only."""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.predictions import Predictions


def partial_auc(
    p: ArrayLike,
    y: ArrayLike,
    low: float = 0.0,
    high: float = 0.1,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean share of the positives found while `low` to `high` of the negatives are let through.

    It is the area under the ROC curve over false positive rates [low, high], divided by
    high - low: the part of AUC that a platform sees which shows only the top of the ranking.
    Between two points of the curve it is interpolated, so samples of one score come in random
    order. Over [0, 1] it is AUC; a random ranking has (low + high) / 2.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    low, high : false positive rates, 0 <= low < high <= 1.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        In [0, 1]; nan unless there are both positives and negatives.

    Raises
    ------
    ValueError
        When the columns differ in length, a value breaks its rule or the range is not one.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 3: trapezoids, one ROC point for each score.

    Examples
    --------
    Nothing but the first positive comes before the negative at .7; the second follows it.

    >>> partial_auc([0.9, 0.7, 0.6, 0.4], [1, 0, 1, 0], 0.0, 0.5)
    0.5
    >>> partial_auc([0.9, 0.7, 0.6, 0.4], [1, 0, 1, 0], 0.0, 1.0)
    0.75
    """
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"low = {low}, high = {high}: must be 0 <= low < high <= 1")
    rates = _roc(Predictions.check(p, y, sample_weight))
    return float("nan") if rates is None else _area(*rates, low, high) / (high - low)


def _roc(predictions: Predictions) -> tuple[Floats, Floats] | None:
    """False and true positive rates from (0, 0) to (1, 1), shape (r + 1,); None of one class."""
    samples = predictions.ordered
    positives = samples.run_positives[::-1]
    negatives = samples.runs.weights[::-1] - positives
    if positives.sum() == 0.0 or negatives.sum() == 0.0:
        return None
    return _rates(negatives), _rates(positives)


def _rates(parts: Floats) -> Floats:
    reached = np.zeros(len(parts) + 1)
    np.cumsum(parts, out=reached[1:])
    reached /= reached[-1]
    return reached


def _area(false_rates: Floats, true_rates: Floats, low: float, high: float) -> float:
    """Area over [low, high], each trapezoid clipped to it."""
    crossing = (false_rates[1:] > low) & (false_rates[:-1] < high)
    crossing &= false_rates[1:] > false_rates[:-1]
    starts, ends = false_rates[:-1][crossing], false_rates[1:][crossing]
    first, last = true_rates[:-1][crossing], true_rates[1:][crossing]
    slopes = (last - first) / (ends - starts)
    left, right = np.maximum(starts, low), np.minimum(ends, high)
    heights = first + slopes * ((left + right) / 2.0 - starts)
    return float(((right - left) * heights).sum())
