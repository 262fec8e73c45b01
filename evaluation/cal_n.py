"""Cal-N: calibration error over N bins of equal frequency."""

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.bin_error import Empty, bin_errors
from evaluation.equal_frequency import EqualFrequencyBins
from evaluation.predictions import Predictions
from evaluation.runs import Runs


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

    Parameters
    ----------
    p : (n_samples,) probabilities in [0, 1].
    y : (n_samples,) outcomes in [0, 1]; fractions are rates of bins or expected conversions.
    n : number of bins, at least 1.
    empty : what becomes of a bin without positives, see `evaluation.bin_error.bin_errors`; the
        mean is over the bins that remain.
    sample_weight : (n_samples,) finite, at least 0; a whole number is that many repetitions.

    Returns
    -------
    float
        Infinite when a bin has no positives and `empty` is "inf" (strict on purpose), or has
        positives and probabilities of 0 only; nan when there are fewer than n samples (neither
        rows of positive weight nor their total weight reach n) or no bin remains.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Deng et al. (paper 004), section 4, equations (4) and (5). Samples of equal probability share
    their outcome, so the order of rows is of no effect. Example 1 there prints 2.4, which is
    sqrt(2^2 + (4/3)^2); by the definition it is sqrt(5) / 3.

    Examples
    --------
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
    bins = EqualFrequencyBins.of(runs, n)
    predicted = bins.sums(runs.expected)
    value = root_mean_square(bin_errors(predicted, bins.sums(positives), empty))
    return np.where(runs.sample_counts >= n, value, np.nan)


def root_mean_square(errors: Floats) -> Floats:
    """Root of the mean square over the bins that are not nan, (groups, bins) to (groups,)."""
    kept = np.count_nonzero(~np.isnan(errors), axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        mean: Floats = np.nansum(errors**2, axis=1) / kept
    return np.sqrt(mean)


def check_bins(n: int) -> None:
    """Raises ValueError unless n is a number of bins."""
    if not (n >= 1 and n == int(n)):
        raise ValueError(f"n = {n}: the number of bins must be whole and at least 1")
