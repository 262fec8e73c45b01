"""PCOC: predicted clicks over observed clicks.

COPC: clicks over predicted clicks.
ROPR: revenue over predicted revenue.
Prediction error: how far the mean promise is from the click rate, as a share of it.
Prediction errors of many bins or slices.
"""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths, check_not_negative
from evaluation.metrics.predictions import Predictions
from evaluation.metrics.sums import ratio


def pcoc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the probabilities over the sum of the outcomes.

    1 is right on average, 1.3 promises 30 % more clicks than came, 0.8 a fifth fewer. It says
    nothing about where the errors lie: too high here and too low there cancel. `cal_n` sees that.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; fractions are rates of bins or expected conversions.
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        nan without positives (and without samples).

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Deng et al. (paper 004), section 4. Its later "PCOC(x) = E[Y | X = x] / x" is the inverse.

    Examples
    --------
    >>> pcoc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    1.5
    """
    return pcoc_of(Predictions.check(p, y, sample_weight))


def pcoc_of(predictions: Predictions) -> float:
    """`pcoc` of checked predictions."""
    positives = predictions.positives.sum()
    return float(predictions.expected.sum() / positives) if positives > 0.0 else float("nan")


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


def relative_errors(predicted: Floats, actual: Floats) -> Floats:
    """predicted / actual - 1, both (k,); over 0 it is infinite, and nan for 0 over 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        errors: Floats = predicted / actual - 1.0
    return errors
