"""The reliability diagram: what came true beside what was promised.

Wilson's interval: how far off a rate of few samples may be.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrators.samples import Floats
from evaluation.metrics.cal_n import EqualFrequencyBins, check_bins
from evaluation.metrics.predictions import Predictions


def wilson_interval(rates: Floats, weights: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Lower and upper ends of each rate's interval.

    Parameters
    ----------
    rates : (n,) observed shares in [0, 1].
    weights : (n,) numbers of samples that each was observed on, above 0.
    confidence : coverage of the intervals, between 0 and 1.

    Raises
    ------
    ValueError
        When the confidence is not between 0 and 1.

    References
    ----------
    Wilson, Journal of the American Statistical Association 22 (1927).

    Examples
    --------
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
    return (centre - half).clip(min=0.0), (centre + half).clip(max=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ReliabilityDiagram:
    """Equal-frequency bins, (k,) each, lowest probability first.

    To read it, plot `rates` over `probabilities`: on the diagonal the promise is kept, a point
    below it was promised too much. A diagonal inside [`lower`, `upper`] is within chance.

    Attributes
    ----------
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

    Parameters
    ----------
    p : (n_samples,) probabilities in [0, 1].
    y : (n_samples,) outcomes in [0, 1], fractions allowed.
    n : number of bins, at least 1; with fewer samples there is one bin for each of them.
    confidence : coverage of the intervals, between 0 and 1.
    sample_weight : (n_samples,) finite, at least 0; a whole number is that many repetitions.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Wilson, Journal of the American Statistical Association 22 (1927), for the intervals.

    Examples
    --------
    >>> diagram = reliability_diagram([0.1, 0.3], [0.2, 0.25], 2, sample_weight=[100, 100])
    >>> diagram.probabilities, diagram.rates, diagram.lower.round(3), diagram.upper.round(3)
    (array([0.1, 0.3]), array([0.2 , 0.25]), array([0.133, 0.175]), array([0.289, 0.343]))
    """
    check_bins(n)
    predictions = Predictions.check(p, y, sample_weight)
    runs = predictions.runs
    bins = EqualFrequencyBins.of(runs, max(1, min(n, int(runs.sample_counts[0]))))
    weights = bins.sums(runs.weights)[0]
    held = weights > 0.0
    predicted = bins.sums(runs.expected)[0][held] / weights[held]
    actual = bins.sums(predictions.run_positives)[0][held] / weights[held]
    rates = np.minimum(actual, 1.0)
    interval = wilson_interval(rates, weights[held], confidence)
    return ReliabilityDiagram(np.minimum(predicted, 1.0), rates, weights[held], *interval)
