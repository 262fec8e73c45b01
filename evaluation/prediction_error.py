"""Prediction error: how far the mean promise is from the click rate, as a share of it."""

from numpy.typing import ArrayLike

from evaluation.predictions import Predictions
from evaluation.ratio import ratio


def prediction_error(
    p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean probability over mean outcome, less 1.

    0 is right on average, 0.3 promises 30 % too many clicks, -0.2 a fifth too few. It is
    `pcoc` - 1, and like it says nothing about where the errors lie: too high here and too low
    there cancel, so a model may have 0 and be wrong everywhere. `score_quantiles` shows where.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; fractions are rates of bins or expected conversions.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        At least -1. Infinite when clicks were promised and none came; nan when neither came nor
        was promised, and without samples.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 4.5.

    Examples
    --------
    >>> prediction_error([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    0.5
    """
    return prediction_error_of(Predictions.check(p, y, sample_weight))


def prediction_error_of(predictions: Predictions) -> float:
    """`prediction_error` of checked predictions."""
    return ratio(predictions.expected.sum(), predictions.positives.sum()) - 1.0
