"""Cal-N: calibration error over N bins of equal frequency, and its floor, what chance alone leaves.

Arguments and errors are those of `evaluation.metrics`.
"""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_unit_interval,
    check_weights,
    sum_at,
)
from evaluation.metrics.predictions import Predictions, Runs, ratio_errors, sum_between

Empty = Literal["inf", "skip", "merge", "smooth"]


def bin_errors(predicted: Floats, actual: Floats, empty: Empty) -> Floats:
    """max(r, 1/r) - 1 with r = predicted / actual of every bin, shape (groups, bins).

    `empty` says what becomes of a bin without positives, whose r is infinite:

    * "inf": its error is infinite;
    * "skip": it is left out;
    * "merge": it joins the next lower bin that has positives, or the lowest that has some when
      there is none below; without any positives all bins are left out;
    * "smooth": every r is (predicted + 1) / (actual + 1).

    nan marks a bin left out, as is one where neither side has anything. A bin with positives
    whose probabilities are all 0 has r = 0 and, except under "smooth", an infinite error.
    """
    if empty not in _RULES:
        raise ValueError(f"empty = {empty!r}: must be one of {', '.join(get_args(Empty))}")
    return ratio_errors(*_RULES[empty](predicted, actual))


def _skip(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    return np.where(actual > 0.0, predicted, np.nan), actual


def _merge(predicted: Floats, actual: Floats) -> tuple[Floats, Floats]:
    groups, n = actual.shape
    into = np.maximum(np.cumsum(actual > 0.0, axis=1) - 1, 0)
    flat = (into + n * np.arange(groups)[:, np.newaxis]).ravel()

    def pooled(values: Floats) -> Floats:
        return sum_at(flat, values.ravel(), groups * n).reshape(groups, n)

    # What pooling leaves without positives: emptied bins, and groups that never had any.
    return _skip(pooled(predicted), pooled(actual))


_RULES: Mapping[str, Callable[[Floats, Floats], tuple[Floats, Floats]]] = {
    "inf": lambda predicted, actual: (predicted, actual),
    "skip": _skip,
    "merge": _merge,
    "smooth": lambda predicted, actual: (predicted + 1.0, actual + 1.0),
}


_SNAP = 1e-9
"""A cut this close to the end of a run, as a share of a bin, falls on it: weights such as 0.1
add up to almost, not exactly, where the cut should be."""


class EqualFrequencyBins:
    """How the runs of each group divide into n bins of equal weight, lowest probability first.

    Whole-number weights are repetitions: they are cut where `numpy.array_split` cuts the repeated
    samples (sizes differ by at most 1). Other weights are cut at exactly k W / n. A run that a cut
    passes through gives each side its share of both weight and outcome, which is the expectation
    over random orders of the run's samples.

    Cut k of group g, the lower edge of bin k, comes after `shares[g, k]` of run `cut_runs[g, k]`:
    0 is before all of it. Both have shape (n_groups, n + 1).
    """

    def __init__(self, runs: Runs, n: int) -> None:
        """Cut each group into n bins; n is at least 1, a group may hold fewer samples."""
        reached = runs.axis.reached
        first, behind = runs.bounds[:-1, np.newaxis], runs.bounds[1:, np.newaxis]
        opens, ticks = reached[first], reached[behind] - reached[first]
        cuts = _cuts(runs, ticks, n)
        slack = _SNAP * ticks / n
        at = opens + np.minimum(np.floor(cuts + slack), ticks).astype(np.int64)
        cut_runs = np.minimum(np.searchsorted(reached, at, side="right") - 1, behind)
        # Next to giants a run may be too light for a tick; the first bin has it nevertheless.
        cut_runs[:, :1] = first
        depths = cuts - (reached[cut_runs] - opens)
        split = depths > slack
        halved = cut_runs[split]
        self.cut_runs = cut_runs
        self.shares: Floats = np.zeros(cuts.shape)
        self.shares[split] = depths[split] / (reached[halved + 1] - reached[halved])

    @property
    def n(self) -> int:
        """Bins of each group."""
        return int(self.shares.shape[1]) - 1

    def sums(self, run_values: Floats) -> Floats:
        """Sum of the runs' values, shape (r,), in each bin, shape (n_groups, n)."""
        split = self.shares > 0.0
        halved = np.zeros(split.shape)
        halved[split] = run_values[self.cut_runs[split]]
        first, last = self.cut_runs[:, :-1], self.cut_runs[:, 1:]
        passed, reached = self.shares[:, :-1], self.shares[:, 1:]
        inside_one = first == last
        head = np.where(inside_one, 0.0, 1.0 - passed) * halved[:, :-1]
        tail = np.where(inside_one, reached - passed, reached) * halved[:, 1:]
        return head + sum_between(run_values, first + split[:, :-1], last) + tail


def _cuts(runs: Runs, ticks: Integers, n: int) -> Floats:
    """Ticks of each group, (n_groups, 1), before each of its cuts, (n_groups, n + 1)."""
    exponents = runs.axis.exponents[:, np.newaxis]
    small, larger = bin_sizes(np.ldexp(ticks, -exponents), runs.whole[:, np.newaxis], n)
    k = np.arange(n + 1)
    cuts: Floats = np.ldexp(small * k + np.minimum(larger, k), exponents)
    return cuts


def bin_sizes(samples: Floats, whole: NDArray[np.bool_], n: int) -> tuple[Floats, Floats]:
    """Of groups of so many samples: `small`, and how many of the n bins, the first, hold one more.

    That is array_split's rule for whole numbers; otherwise all bins are W / n, but for rounding.
    """
    small = np.where(whole, np.floor(samples / n), samples / n)
    return small, samples - n * small


def cal_n(
    p: ArrayLike,
    y: ArrayLike,
    n: int = 5,
    *,
    empty: Empty = "inf",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Root mean square of the bins' errors max(r, 1/r) - 1, r = sum p / sum y of a bin.

    The samples are sorted by probability and cut into n bins of equal frequency. 0 is perfect;
    0.2 means that a bin is typically 20 % too high or too low. Chance alone keeps even the truth
    from 0: read the value beside `cal_n_floor`. Cal-1 = max(PCOC, 1 / PCOC) - 1.

    empty : what becomes of a bin without positives, see `evaluation.metrics.cal_n.bin_errors`; the
        mean is over the bins that remain.

    Infinite when a bin has no positives and `empty` is "inf" (strict on purpose), or has positives
    and probabilities of 0 only; nan when there are fewer than n samples (neither rows of positive
    weight nor their total weight reach n) or no bin remains.

    Source: Deng et al. (paper 004), section 4, equations (4) and (5). Samples of equal probability
    share their outcome, so the order of rows is of no effect. Example 1 there prints 2.4, which is
    sqrt(2^2 + (4/3)^2); by the definition it is sqrt(5) / 3.

    Example 1: 10,000 samples at .2 of which 40 % click, 10,000 at .8 of which 60 % do.

    >>> round(cal_n([0.2, 0.8], [0.4, 0.6], 2, sample_weight=[10_000, 10_000]), 6)
    0.745356
    """
    check_bins(n)
    return cal_n_of(Predictions.check(p, y, sample_weight), n, empty)


def cal_n_of(predictions: Predictions, n: int, empty: Empty) -> float:
    """`cal_n` of checked predictions, which are sorted once for every n."""
    samples = predictions.ordered
    return float(cal_n_of_runs(samples.runs, samples.run_positives, n, empty)[0])


def cal_n_of_runs(runs: Runs, positives: Floats, n: int, empty: Empty) -> Floats:
    """Cal-N of every group, shape (n_groups,), nan where undefined.

    `positives` are the weighted outcomes of each run, shape (r,).
    """
    bins = EqualFrequencyBins(runs, n)
    values = cal_n_of_bins(bins.sums(runs.expected), bins.sums(positives), empty)
    return np.where(runs.sample_counts >= n, values, np.nan)


def cal_n_of_bins(predicted: Floats, actual: Floats, empty: Empty) -> Floats:
    """Cal-N from the sums of each bin, (groups, bins), to (groups,).

    It is the root of the mean square over the bins that are not left out, nan without any.
    """
    errors = bin_errors(predicted, actual, empty)
    kept = np.count_nonzero(~np.isnan(errors), axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        mean: Floats = np.nansum(errors**2, axis=1) / kept
    return np.sqrt(mean)


def check_bins(n: int) -> None:
    """Raises ValueError unless n is a number of bins."""
    if not (n >= 1 and n == int(n)):
        raise ValueError(f"n = {n}: the number of bins must be whole and at least 1")


def cal_n_floor(
    p: ArrayLike,
    n: int = 5,
    *,
    rng: np.random.Generator,
    draws: int = 100,
    empty: Empty = "merge",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean Cal-N of the probabilities over outcomes drawn from them.

    A model that knew the truth would score this: about sqrt(1 / positives in a bin), .15 at 50.
    A Cal-N near its floor cannot be told from perfect, nor two that differ by less than that.

    rng : source of the draws.
    draws : times the outcomes are drawn, at least 1; those where Cal-N is undefined do not count.
    empty : what becomes of a bin without positives, as in `cal_n`.
    sample_weight : (n_samples,) finite, at least 0. A weight of 3 is three independent samples,
        3.5 is three and a half: the fourth counts half.

    nan when Cal-N is undefined in every draw.

    >>> floor = cal_n_floor([0.01, 0.04], 2, rng=np.random.default_rng(7), sample_weight=[5e3, 5e3])
    >>> 0.08 < floor < 0.14
    True
    """
    check_bins(n)
    if draws < 1:
        raise ValueError(f"draws = {draws}: must be at least 1")
    probabilities = check_unit_interval("probabilities", p)
    weights = check_weights(sample_weight, len(probabilities))
    check_equal_lengths(probabilities=probabilities, sample_weight=weights)
    runs = Runs.of_one_group(probabilities, weights)
    if runs.sample_counts[0] < n:
        return float("nan")
    bins = EqualFrequencyBins(runs, n)
    actual = _drawn_positives(runs, weights, bins, rng, draws)
    predicted = np.tile(bins.sums(runs.expected), (draws, 1))
    values = cal_n_of_bins(predicted, actual, empty)
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _drawn_positives(
    runs: Runs, weights: Floats, bins: EqualFrequencyBins, rng: np.random.Generator, draws: int
) -> Floats:
    """Positives of each bin in each draw, shape (draws, n)."""
    whole = runs.sums(np.floor(weights)).astype(np.int64)
    parts = (weights % 1.0)[runs.order]
    partial = np.flatnonzero(parts)
    run_of = runs.holding(partial)
    drawn = np.empty((draws, bins.n))
    for draw in drawn:
        hits = parts[partial] * (rng.random(len(partial)) < runs.probabilities[run_of])
        positives = rng.binomial(whole, runs.probabilities) + sum_at(run_of, hits, len(whole))
        draw[:] = bins.sums(positives)[0]
    return drawn
