"""Metric accuracy: how often a metric of single runs puts the better of two models first."""

from dataclasses import dataclass
from math import exp, isnan, log

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from calibrators.samples import Floats, Integers, all_obey, as_vector
from evaluation.metrics.reliability import wilson_interval


@dataclass(frozen=True, slots=True)
class MetricAccuracy:
    """An accuracy and how far it is known.

    value : share of the pairs of runs in which A is the lower, tied pairs by their share.
    standard_error : over draws of the runs, on this one evaluation set; nan where the runs
        cannot tell it: fewer than two of A or of B, or all placed alike (a value of 0 or 1).
    lower, upper : ends of the confidence interval, never of width 0.
    """

    value: float
    standard_error: float
    lower: float
    upper: float


def metric_accuracy(
    a: ArrayLike, b: ArrayLike, *, ties: float = 0.5, confidence: float = 0.95
) -> MetricAccuracy:
    """Share of all pairs (run of A, run of B) in which the run of A has the lower metric.

    With A the better model, it is how often one run of each would rank them rightly. 0.5 is a
    coin. A calibrated metric is worth its name when this is higher for it than for the plain one.

    a : (m_A,) the metric of each run of model A, lower is better; infinite is worst.
    b : (m_B,) the same of model B.
    ties : what a pair of equal values counts, in [0, 1]; 0 is "strictly lower", as printed.
    confidence : coverage of the interval, between 0 and 1.

    All nan without a run of A or of B. It says nothing about other evaluation sets: between them
    the accuracy varies by several points more. ValueError when a value is nan, an argument out of
    its range, or a shape wrong.

    O(m log m) by sorting. The standard error is DeLong's: the placement of a run is the share of
    the other model's runs that it beats, and the variance is var(placements of A) / m_A +
    var(placements of B) / m_B. Pairs share runs, so sqrt(value (1 - value) / (m_A m_B)) would be
    far too small. The interval is value +- z standard errors on the scale of log-odds.

    When all pairs go one way that variance is 0, which says nothing. With m = min(m_A, m_B), the
    runs make m pairs that share none, all of which going one way has probability value^m at most;
    so the interval then ends at x = (half of 1 - confidence)^(1/m), about 1 - 3.7 / m for 95 %, and
    x bounds the lower end (1 - x the upper) of any value. Where there is no standard error and the
    value is neither 0 nor 1, the interval is Wilson's of m pairs.

    Source: Fan et al. (paper 000), sections 2 and 5.1, and paper 003. DeLong, DeLong and
    Clarke-Pearson, Biometrics 44 (1988).

    >>> accuracy = metric_accuracy([0.41, 0.42, 0.43, 0.44], [0.43, 0.45, 0.46, 0.47])
    >>> accuracy.value, round(accuracy.standard_error, 4)
    (0.90625, 0.1112)
    >>> sure = metric_accuracy([1.0] * 10, [2.0] * 10)
    >>> sure.value, sure.standard_error, round(sure.lower, 4), sure.upper
    (1.0, nan, 0.6915, 1.0)
    """
    runs_a, runs_b = _check("a", a), _check("b", b)
    if not 0.0 <= ties <= 1.0:
        raise ValueError(f"ties = {ties}: must be in [0, 1]")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    sizes = len(runs_a), len(runs_b)
    if 0 in sizes:
        return MetricAccuracy(*[float("nan")] * 4)
    # In whole numbers, so that it is exactly 0 or 1 when all pairs go one way.
    lower, tied = (int(counts.sum()) for counts in _beaten(runs_a, runs_b))
    value = (lower + ties * tied) / (sizes[0] * sizes[1])
    error = _standard_error(runs_a, runs_b, ties)
    return MetricAccuracy(value, error, *_interval(value, error, min(sizes), confidence))


def _beaten(runs: Floats, others: Floats) -> tuple[Integers, Integers]:
    """How many of the others are above each run, and how many are equal to it; (m,) each."""
    ordered = np.sort(others)
    above = np.searchsorted(ordered, runs, side="right")
    return len(others) - above, above - np.searchsorted(ordered, runs, side="left")


def _standard_error(a: Floats, b: Floats, ties: float) -> float:
    if min(len(a), len(b)) < 2:
        return float("nan")
    # B's runs that A's beat: with the order turned round, the roles are.
    variance = _placement_variance(a, b, ties) + _placement_variance(-b, -a, ties)
    return float(np.sqrt(variance)) if variance > 0.0 else float("nan")


def _placement_variance(runs: Floats, others: Floats, ties: float) -> float:
    beaten, tied = _beaten(runs, others)
    placements = (beaten + ties * tied) / len(others)
    if (placements == placements[0]).all():
        return 0.0
    return float(placements.var(ddof=1)) / len(runs)


def _interval(value: float, error: float, pairs: int, confidence: float) -> tuple[float, float]:
    tail = (1.0 - confidence) / 2.0
    bound = float(tail ** (1.0 / pairs))
    if value in (0.0, 1.0):
        return (bound, 1.0) if value else (0.0, 1.0 - bound)
    if isnan(error):
        ends = wilson_interval(np.array([value]), np.array([float(pairs)]), confidence)
        lower, upper = float(ends[0][0]), float(ends[1][0])
    else:
        half = -float(ndtri(tail)) * error / (value * (1.0 - value))
        odds = log(value / (1.0 - value))
        lower, upper = _probability(odds - half), _probability(odds + half)
    return min(lower, bound), max(upper, 1.0 - bound)


def _probability(odds: float) -> float:
    return 1.0 / (1.0 + exp(-odds)) if odds > 0.0 else exp(odds) / (1.0 + exp(odds))


def _check(name: str, values: ArrayLike) -> Floats:
    array = as_vector(name, values)
    return all_obey(name, array, ~np.isnan(array), "every run must have a metric")
