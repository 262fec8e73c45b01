"""AUC: how often a click ranks above a non-click."""

import numpy as np
from numpy.typing import ArrayLike

from evaluation.predictions import Predictions


def auc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Probability that a positive has the higher score than a negative, ties counting one half.

    Only the ranking matters, so a strictly increasing calibration map leaves it as it is inside
    one campaign.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    sample_weight : (n,) finite, at least 0.

    Returns
    -------
    float
        nan unless there are both positives and negatives.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 3: trapezoids, one ROC point for each score.

    Examples
    --------
    >>> auc([0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1])
    0.875
    """
    return auc_of(Predictions.check(p, y, sample_weight))


def auc_of(predictions: Predictions) -> float:
    """`auc` of checked predictions."""
    positives = predictions.run_positives
    negatives = predictions.runs.weights - positives
    clicks, others = positives.sum(), negatives.sum()
    if clicks == 0.0 or others == 0.0:
        return float("nan")
    # Shares, because the product of two totals can leave the range of floats.
    negatives /= others
    won = np.cumsum(negatives)
    won -= np.multiply(negatives, 0.5, out=negatives)
    won *= positives / clicks
    return float(won.sum())
