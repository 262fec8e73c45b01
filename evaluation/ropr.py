"""ROPR: revenue over predicted revenue."""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths, check_not_negative
from evaluation.predictions import Predictions
from evaluation.ratio import ratio


def ropr(
    p: ArrayLike, y: ArrayLike, bids: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Sum of outcome times bid over the sum of probability times bid.

    1 is right on average, above 1 more money came in than was promised. It is `copc` where the
    clicks count by what they pay, so an error in dear campaigns shows here and hides there. With
    equal bids the two are the same.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; fractions are rates of bins or expected conversions.
    bids : (n,) finite, at least 0: what a click pays, in any currency.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        Infinite when money came in where none was promised; nan when neither came nor was
        promised (so too when all bids are 0), and without samples.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Liu and Yin (paper 002), section 2: "revenue over predicted revenue".

    Examples
    --------
    Half of the promised clicks came, but they were the dear ones:

    >>> ropr([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1], [1, 1, 1, 3])
    1.0
    """
    return ropr_of(Predictions.check(p, y, sample_weight), check_not_negative("bids", bids))


def ropr_of(predictions: Predictions, bids: Floats) -> float:
    """`ropr` of checked predictions and bids."""
    check_equal_lengths(probabilities=predictions.probabilities, bids=bids)
    held = predictions.weights > 0.0
    paid = bids[held]
    # The unit of money is of no effect, and with this one the sums stay in the range of floats.
    unit = np.max(paid, initial=0.0)
    paid = paid / unit if unit > 0.0 else paid
    return ratio(
        (predictions.positives[held] * paid).sum(), (predictions.expected[held] * paid).sum()
    )
