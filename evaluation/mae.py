"""Mean absolute error of probabilities, which is no fair judge of them."""

from numpy.typing import ArrayLike

from evaluation.predictions import Predictions
from evaluation.weighted_mean import weighted_mean


def mae(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of |y - p|.

    Do not choose a model by it. It is no proper score: where clicks are rarer than one half, the
    model that never promises any has the lowest expectation of all. In Table 2 of the paper the
    calibrated model has 2.095e-3 and p = 0 has 1.062e-3, the click rate, half as much. It is here
    because the paper calls it one of the most reliable metrics; `mse` and `log_loss` are proper.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative,
        y (1 - p) + (1 - y) p, so that bins give what their samples would.
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
    Yi et al., KDD 2013 (paper 001), section 4.4.

    Examples
    --------
    Calibrated, and yet worse than to promise nothing:

    >>> round(mae([0.2] * 5, [0, 0, 0, 0, 1]), 6), round(mae([0.0] * 5, [0, 0, 0, 0, 1]), 6)
    (0.32, 0.2)
    """
    return mae_of(Predictions.check(p, y, sample_weight))


def mae_of(predictions: Predictions) -> float:
    """`mae` of checked predictions."""
    p, y = predictions.probabilities, predictions.outcomes
    return weighted_mean(y * (1.0 - p) + (1.0 - y) * p, predictions.weights)
