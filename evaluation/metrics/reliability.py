"""Observed beside predicted rates: of bins of score, and of score quantiles.

Arguments and errors are those of `evaluation.metrics`; `confidence` is the coverage of Wilson's
intervals of the rates, between 0 and 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrators.samples import Floats
from evaluation.metrics.cal_n import EqualFrequencyBins, check_bins
from evaluation.metrics.calibration import sample_losses
from evaluation.metrics.predictions import Predictions, quotients


def wilson_interval(rates: Floats, weights: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Lower and upper ends of each rate's interval.

    rates : (n,) observed shares in [0, 1].
    weights : (n,) numbers of samples that each was observed on, above 0.
    confidence : coverage of the intervals, between 0 and 1.

    Source: Wilson, Journal of the American Statistical Association 22 (1927).

    >>> import numpy as np
    >>> lower, upper = wilson_interval(np.array([0.2]), np.array([100.0]), 0.95)
    >>> lower.round(4), upper.round(4)
    (array([0.1334]), array([0.2888]))
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    z = float(ndtri(0.5 + confidence / 2.0))
    shrink = 1.0 / (1.0 + z**2 / weights)
    centre = shrink * (rates + z**2 / (2.0 * weights))
    half = shrink * z * ((rates * (1.0 - rates) / weights + (z / (2.0 * weights)) ** 2) ** 0.5)
    # Rounding leaves a little of what is nothing.
    lower = np.where(rates > 0.0, (centre - half).clip(min=0.0), 0.0)
    return lower, np.where(rates < 1.0, (centre + half).clip(max=1.0), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityDiagram:
    """Equal-frequency bins, (k,) each, lowest probability first.

    To read it, plot `rates` over `probabilities`: a point below the diagonal was predicted too
    high. A diagonal inside [`lower`, `upper`] is within chance.

    probabilities : mean probability of each bin.
    rates : mean outcome of each bin.
    weights : samples in each bin, or their weight.
    lower, upper : Wilson's interval of each rate, with the weights as numbers of samples.
    """

    probabilities: Floats
    rates: Floats
    weights: Floats
    lower: Floats
    upper: Floats


def reliability_diagram(
    p: ArrayLike,
    y: ArrayLike,
    n: int = 10,
    *,
    confidence: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> ReliabilityDiagram:
    """The diagram over n bins of equal frequency, the same bins that `cal_n` uses.

    n : number of bins, at least 1; with fewer samples there is one bin for each of them.

    Source: Wilson, Journal of the American Statistical Association 22 (1927), for the intervals.

    >>> diagram = reliability_diagram([0.1, 0.3], [0.2, 0.25], 2, sample_weight=[100, 100])
    >>> diagram.probabilities, diagram.rates, diagram.lower.round(3), diagram.upper.round(3)
    (array([0.1, 0.3]), array([0.2 , 0.25]), array([0.133, 0.175]), array([0.289, 0.343]))
    """
    check_bins(n)
    predictions = Predictions.check(p, y, sample_weight)
    sums = _bin_sums(predictions, _bins(predictions, n))
    return ReliabilityDiagram(*_rates(sums, confidence))


def _bins(predictions: Predictions, n: int) -> EqualFrequencyBins:
    runs = predictions.runs
    return EqualFrequencyBins(runs, max(1, min(n, int(runs.sample_counts[0]))))


def _bin_sums(predictions: Predictions, bins: EqualFrequencyBins) -> Floats:
    """Weight, expected and actual positives of the k bins that have weight, (3, k)."""
    runs = predictions.runs
    columns = (runs.weights, runs.expected, predictions.run_positives)
    sums = np.stack([bins.sums(column)[0] for column in columns])
    return sums[:, sums[0] > 0.0]


def _rates(sums: Floats, confidence: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The columns of a diagram, from what `_bin_sums` gives."""
    weights, predicted, actual = sums
    rates = np.minimum(actual / weights, 1.0)
    interval = wilson_interval(rates, weights, confidence)
    return np.minimum(predicted / weights, 1.0), rates, weights, *interval


@dataclass(frozen=True, slots=True, eq=False)
class ScoreQuantiles:
    """A reliability diagram with what is wrong in each bin, (k,) each, lowest probability first.

    prediction_errors : mean probability over mean outcome, less 1; infinite without positives,
        nan when neither has anything.
    loss_shares : share of the total log loss that each bin brings; they sum to 1.

    The others are those of `ReliabilityDiagram`.
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

    n : number of bins, at least 1; with fewer samples there is one bin for each of them.

    The bins are those of `cal_n`: a run of equal probabilities that a cut passes through gives
    each side its share of weight, outcome and loss.

    Source: Yi et al., KDD 2013 (paper 001), section 6, figures 3 (log loss) and 4 (prediction
    error).

    Too high by half where scores are low, right where they are high:

    >>> result = score_quantiles([0.03, 0.5], [0.02, 0.5], 2, sample_weight=[1000, 1000])
    >>> result.prediction_errors.round(6), result.lower.round(3), result.loss_shares.round(3)
    (array([0.5, 0. ]), array([0.013, 0.469]), array([0.126, 0.874]))
    """
    check_bins(n)
    predictions = Predictions.check(p, y, sample_weight)
    bins = _bins(predictions, n)
    sums = _bin_sums(predictions, bins)
    probabilities, rates, weights, lower, upper = _rates(sums, confidence)
    errors, shares = quotients(sums[1], sums[2]) - 1.0, _loss_shares(predictions, bins)
    return ScoreQuantiles(weights, probabilities, rates, errors, lower, upper, shares)


def _loss_shares(predictions: Predictions, bins: EqualFrequencyBins) -> Floats:
    runs = predictions.runs
    # Of shares of the weight, because weight times loss can leave the range of floats.
    unit = 1.0 / max(predictions.weights.sum(), np.finfo(np.float64).tiny)
    losses = bins.sums(
        sample_losses(runs.probabilities, predictions.run_positives * unit, runs.weights * unit)
    )[0]
    shares: Floats = losses / max(losses.sum(), np.finfo(np.float64).tiny)
    held: Floats = shares[bins.sums(runs.weights)[0] > 0.0]
    return held
