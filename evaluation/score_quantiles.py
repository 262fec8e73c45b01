"""Errors by score quantile: where a model is too high, and where too low."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.cal_n import check_bins
from evaluation.equal_frequency import EqualFrequencyBins
from evaluation.predictions import Predictions
from evaluation.relative_error import relative_errors
from evaluation.sample_losses import sample_losses
from evaluation.wilson import wilson_interval


@dataclass(frozen=True, slots=True, eq=False)
class ScoreQuantiles:
    """Bins of equal frequency, (k,) each, lowest probability first.

    Attributes
    ----------
    weights : samples in each bin, or their weight.
    probabilities : mean probability of each bin.
    rates : mean outcome of each bin.
    prediction_errors : mean probability over mean outcome, less 1; infinite without positives,
        nan when neither has anything.
    lower, upper : Wilson's interval of each rate, with the weights as numbers of samples.
    loss_shares : share of the total log loss that each bin brings; they sum to 1.
    """

    weights: Floats
    probabilities: Floats
    rates: Floats
    prediction_errors: Floats
    lower: Floats
    upper: Floats
    loss_shares: Floats


def score_quantiles(
    p: ArrayLike,
    y: ArrayLike,
    n: int = 10,
    *,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> ScoreQuantiles:
    """Rate, prediction error and share of the log loss in n bins of equal frequency.

    Look at the low end first. An ad whose score is high is shown whether the score is a little too
    high or not. One whose score is low is shown only because it is too high, in place of a better
    ad, and that costs clicks; yet the low end has few of the clicks, so AUC, RIG and log loss of
    the whole hardly see it. An error is beyond chance when the bin's `probabilities` is outside
    [`lower`, `upper`].

    Parameters
    ----------
    p : (n_samples,) probabilities in [0, 1].
    y : (n_samples,) outcomes in [0, 1]; a fraction y counts as y of a positive.
    n : number of bins, at least 1; with fewer samples there is one bin for each of them.
    confidence : coverage of the intervals, between 0 and 1.
    sample_weight : (n_samples,) finite, at least 0; a whole number is that many repetitions.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    Notes
    -----
    The bins are those of `cal_n`: a run of equal probabilities that a cut passes through gives
    each side its share of weight, outcome and loss.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 6, figures 3 (log loss) and 4 (prediction error).

    Examples
    --------
    Too high by half where scores are low, right where they are high:

    >>> result = score_quantiles([0.03, 0.5], [0.02, 0.5], 2, sample_weight=[1000, 1000])
    >>> result.prediction_errors.round(6), result.lower.round(3), result.loss_shares.round(3)
    (array([0.5, 0. ]), array([0.013, 0.469]), array([0.126, 0.874]))
    """
    check_bins(n)
    predictions = Predictions.check(p, y, sample_weight)
    runs = predictions.runs
    bins = EqualFrequencyBins.of(runs, max(1, min(n, int(runs.sample_counts[0]))))
    weights = bins.sums(runs.weights)[0]
    held = weights > 0.0
    predicted, actual = (
        bins.sums(each)[0][held] for each in (runs.expected, predictions.run_positives)
    )
    weights = weights[held]
    rates = np.minimum(actual / weights, 1.0)
    return ScoreQuantiles(
        weights,
        np.minimum(predicted / weights, 1.0),
        rates,
        relative_errors(predicted, actual),
        *wilson_interval(rates, weights, confidence),
        loss_shares=_loss_shares(predictions, bins)[held],
    )


def _loss_shares(predictions: Predictions, bins: EqualFrequencyBins) -> Floats:
    runs = predictions.runs
    # Of shares of the weight, because weight times loss can leave the range of floats.
    unit = 1.0 / max(predictions.weights.sum(), np.finfo(np.float64).tiny)
    losses = bins.sums(
        sample_losses(runs.probabilities, predictions.run_positives * unit, runs.weights * unit)
    )[0]
    shares: Floats = losses / max(losses.sum(), np.finfo(np.float64).tiny)
    return shares
