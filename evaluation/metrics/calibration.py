"""Is the total right? PCOC, COPC, prediction error, and ROPR, the same in money.

They say nothing about where the errors lie: too high here and too low there cancel. `cal_n` sees
that. With a = sum p and b = sum y, PCOC = a / b, COPC = b / a and prediction error = PCOC - 1. What
is over 0 is infinite, 0 over 0 is nan: without positives PCOC and prediction error are infinite and
COPC is 0; where positives came and all p are 0, PCOC is 0, prediction error -1 and COPC infinite.
Arguments and errors are those of `evaluation.metrics`.
"""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths, check_not_negative
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.sums import ratio


def pcoc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the probabilities over the sum of the outcomes.

    1 is right on average, 1.3 predicts 30 % more clicks than came, 0.8 a fifth fewer. Infinite
    without positives; nan when neither came nor was predicted, and without samples.

    Source: Deng et al. (paper 004), section 4. Its later "PCOC(x) = E[Y | X = x] / x" is the
    inverse.

    >>> pcoc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    1.5
    """
    return pcoc_of(Predictions.check(p, y, sample_weight))


def pcoc_of(predictions: Predictions) -> float:
    """`pcoc` of checked predictions."""
    return ratio(predictions.expected.sum(), predictions.positives.sum())


def copc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the outcomes over the sum of the probabilities: 1 / `pcoc`.

    1 is right on average, above 1 more clicks came than were predicted. Infinite when clicks came
    and all probabilities are 0; nan when neither came nor was predicted, and without samples.

    Source: Liu and Yin (paper 002), section 2: "click over predicted click".

    >>> copc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 1])
    1.3333333333333333
    """
    predictions = Predictions.check(p, y, sample_weight)
    return ratio(predictions.positives.sum(), predictions.expected.sum())


def ropr(
    p: ArrayLike, y: ArrayLike, bids: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Sum of outcome times bid over the sum of probability times bid.

    It is `copc` where clicks count by what they pay, so an error in dear campaigns shows here and
    hides there. Infinite when money came and none was predicted; nan when neither (so too when all
    bids are 0), and without samples.

    Source: Liu and Yin (paper 002), section 2: "revenue over predicted revenue".

    Half of the predicted clicks came, but they were the dear ones:

    >>> ropr([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1], [1, 1, 1, 3])
    1.0
    """
    predictions = Predictions.check(p, y, sample_weight)
    checked = check_not_negative("bids", bids)
    check_equal_lengths(probabilities=predictions.probabilities, bids=checked)
    held = predictions.weights > 0.0
    paid = _in_units_of_the_largest(checked[held])
    return ratio(
        (predictions.positives[held] * paid).sum(), (predictions.expected[held] * paid).sum()
    )


def _in_units_of_the_largest(bids: Floats) -> Floats:
    # The unit of money is of no effect, and with this one sums stay in the range of floats.
    unit = np.max(bids, initial=0.0)
    return bids / unit if unit > 0.0 else bids


def prediction_error(
    p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean probability over mean outcome, less 1: `pcoc` - 1.

    0 is right on average, 0.3 predicts 30 % too many clicks, -0.2 a fifth too few; at least -1.
    Infinite without positives; nan when neither came nor was predicted, and without samples.
    `score_quantiles` shows where a model is wrong that is right on average.

    Source: Yi et al., KDD 2013 (paper 001), section 4.5.

    >>> prediction_error([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    0.5
    """
    return pcoc(p, y, sample_weight=sample_weight) - 1.0
