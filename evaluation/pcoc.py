"""PCOC: predicted clicks over observed clicks."""

from numpy.typing import ArrayLike

from evaluation.predictions import Predictions


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
