"""Mean square error over that of the click rate."""

from numpy.typing import ArrayLike

from evaluation.mse import mse_of
from evaluation.predictions import Predictions
from evaluation.weighted_mean import weighted_mean


def nmse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean square error over rate * (1 - rate), the error of giving every sample the click rate.

    1 is no better than the click rate, below is better, above is worse. With few clicks even good
    models stay close to 1: 0.987 in Table 2 of the paper.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        At least 0; nan unless there are both positives and negatives.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 4.3.

    Examples
    --------
    >>> round(nmse([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.3
    >>> nmse([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    1.0
    """
    return nmse_of(Predictions.check(p, y, sample_weight))


def nmse_of(predictions: Predictions) -> float:
    """`nmse` of checked predictions."""
    rate = weighted_mean(predictions.outcomes, predictions.weights)
    others = weighted_mean(1.0 - predictions.outcomes, predictions.weights)
    if not rate * others > 0.0:
        return float("nan")
    return mse_of(predictions) / (rate * others)
