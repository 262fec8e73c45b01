"""RIG: how much of the uncertainty about clicks the probabilities take away."""

import numpy as np
from numpy.typing import ArrayLike

from evaluation.click_entropy import click_entropy
from evaluation.log_loss import log_loss_of
from evaluation.predictions import Predictions


def rig(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Relative information gain: 1 - log loss / entropy of the click rate.

    0 is no better than giving every sample the click rate, negative is worse, and only knowing
    every outcome for certain reaches 1: the true probabilities do not. It has no unit, but it
    depends on the data as much as on the model (`rate_slices`), so compare models on the same
    samples only.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1], clipped to [1e-12, 1 - 1e-12] as in `log_loss`.
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        At most 1; nan unless there are both positives and negatives.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 4.2; its equation (2) omits the mean over the samples.

    Examples
    --------
    >>> round(rig([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.568633
    >>> rig([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    0.0
    """
    return rig_of(Predictions.check(p, y, sample_weight))


def rig_of(predictions: Predictions) -> float:
    """`rig` of checked predictions."""
    positives = predictions.positives.sum()
    negatives = (predictions.weights - predictions.positives).sum()
    if positives == 0.0 or negatives == 0.0:
        return float("nan")
    entropy = float(click_entropy(np.asarray(positives), np.asarray(negatives)))
    return 1.0 - log_loss_of(predictions) / entropy
