"""AUC: how often a click ranks above a non-click."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import check_equal_lengths
from evaluation.predictions import Predictions


def auc(
    p: ArrayLike,
    y: ArrayLike,
    *,
    where: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Probability that a positive has the higher score than a negative, ties counting one half.

    Only the ranking matters, so a strictly increasing calibration map leaves it as it is inside
    one campaign.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    where : (n,) booleans, the rows that count; None is all. With the impressions of the mainline
        it is the mainline AUC.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        In [0, 1], .5 for a random order; nan unless there are both positives and negatives. With
        whole weights the pairs are counted, not estimated: the order of rows is of no effect.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 3: trapezoids, one ROC point for each score. It calls
    the AUC of the mainline the most reliable one.

    Examples
    --------
    >>> auc([0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1])
    0.875
    >>> auc([0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1], where=[False, True, True, True])
    0.75
    """
    predictions = Predictions.check(p, y, sample_weight)
    return auc_of(predictions if where is None else _chosen(predictions, where))


def auc_of(predictions: Predictions) -> float:
    """`auc` of checked predictions."""
    samples = predictions.ordered
    positives = samples.run_positives
    negatives = samples.runs.weights - positives
    clicks, others = positives.sum(), negatives.sum()
    if clicks == 0.0 or others == 0.0:
        return float("nan")
    # The product of two totals can leave the range of floats; powers of 2 keep counts exact.
    click_exponent, other_exponent = np.frexp(clicks)[1], np.frexp(others)[1]
    np.ldexp(negatives, -other_exponent, out=negatives)
    won = np.cumsum(negatives)
    won -= np.multiply(negatives, 0.5, out=negatives)
    won *= np.ldexp(positives, -click_exponent)
    pairs = np.ldexp(clicks, -click_exponent) * np.ldexp(others, -other_exponent)
    return float(won.sum() / pairs)


def _chosen(predictions: Predictions, where: ArrayLike) -> Predictions:
    chosen = _check_mask(where)
    check_equal_lengths(probabilities=predictions.probabilities, where=chosen)
    return Predictions(
        predictions.probabilities[chosen], predictions.outcomes[chosen], predictions.weights[chosen]
    )


def _check_mask(where: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(where)
    if mask.ndim != 1 or (mask.size and mask.dtype != np.bool_):
        raise ValueError(f"where must be booleans of one dimension, not {mask.ndim}-d {mask.dtype}")
    return mask.astype(np.bool_, copy=False)
