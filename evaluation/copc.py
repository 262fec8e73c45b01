"""COPC: clicks over predicted clicks."""

from numpy.typing import ArrayLike

from evaluation.predictions import Predictions
from evaluation.ratio import ratio


def copc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the outcomes over the sum of the probabilities.

    1 is right on average, above 1 more clicks came than were promised (underprediction), 0.8 a
    fifth fewer. It is 1 / `pcoc`: what one of them calls too high, the other shows as too low.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; fractions are rates of bins or expected conversions.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        Infinite when clicks came where none was promised (all probabilities 0); nan when neither
        came nor was promised, and without samples.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Liu and Yin (paper 002), section 2: "click over predicted click".

    Examples
    --------
    >>> copc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 1])
    1.3333333333333333
    """
    return copc_of(Predictions.check(p, y, sample_weight))


def copc_of(predictions: Predictions) -> float:
    """`copc` of checked predictions."""
    return ratio(predictions.positives.sum(), predictions.expected.sum())
