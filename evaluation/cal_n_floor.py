"""The floor under Cal-N: what the truth itself would score by chance."""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths, check_unit_interval
from evaluation.bin_error import Empty, bin_errors
from evaluation.cal_n import check_bins, root_mean_square
from evaluation.equal_frequency import EqualFrequencyBins
from evaluation.predictions import check_weights
from evaluation.runs import Runs
from evaluation.sums import sum_at


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

    Parameters
    ----------
    p : (n_samples,) probabilities in [0, 1].
    n : number of bins, at least 1.
    rng : source of the draws.
    draws : times the outcomes are drawn, at least 1; those where Cal-N is undefined do not count.
    empty : what becomes of a bin without positives, as in `cal_n`.
    sample_weight : (n_samples,) finite, at least 0. A weight of 3 is three independent samples,
        3.5 is three and a half: the fourth counts half.

    Returns
    -------
    float
        nan when Cal-N is undefined in every draw.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    Examples
    --------
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
    bins = EqualFrequencyBins.of(runs, n)
    actual = _drawn_positives(runs, weights, bins, rng, draws)
    predicted = np.tile(bins.sums(runs.expected), (draws, 1))
    values = root_mean_square(bin_errors(predicted, actual, empty))
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
