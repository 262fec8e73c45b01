"""Mean square error of probabilities, known as the Brier score."""

from numpy.typing import ArrayLike

from evaluation.predictions import Predictions
from evaluation.weighted_mean import weighted_mean


def mse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of (y - p)^2.

    Lower is better; the true probabilities have the lowest expectation of all. With few clicks
    nearly all of it is the noise of the clicks, which no model can remove: `nmse` sets it against
    that.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative,
        y (1 - p)^2 + (1 - y) p^2, so that bins give what their samples would.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        In [0, 1]; nan without samples or without weight.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 4.3.

    Examples
    --------
    >>> round(mse([0.5, 0.8], [0, 1]), 6)
    0.145
    """
    return mse_of(Predictions.check(p, y, sample_weight))


def mse_of(predictions: Predictions) -> float:
    """`mse` of checked predictions."""
    p, y = predictions.probabilities, predictions.outcomes
    return weighted_mean(y * (1.0 - p) ** 2 + (1.0 - y) * p**2, predictions.weights)
