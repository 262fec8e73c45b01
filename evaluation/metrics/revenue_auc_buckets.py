"""csAUC of buckets, as it was published: bids and scores rounded to a grid first."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers
from evaluation.metrics.predictions import PricedPredictions
from evaluation.metrics.ranks import ranking
from evaluation.metrics.revenue_auc import Ties, check_ties, cs_auc_of
from evaluation.metrics.sums import sum_at

Cut = Literal["quantile", "min_max"]


def bucketed_cs_auc(
    p: ArrayLike,
    y: ArrayLike,
    bids: ArrayLike,
    *,
    bid_buckets: int = 1000,
    score_buckets: int = 100_000,
    cut: Cut = "quantile",
    ties: Ties = "half",
    sample_weight: ArrayLike | None = None,
) -> float:
    """csAUC after the bids of the positives and the scores p * bid are put into buckets.

    A positive earns the mean bid of its bucket, and scores of one bucket are equal. It is there to
    compare with figures that were made so. `cs_auc` is exact, and not slower.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes, 0 or 1.
    bids : (n,) money for a click, finite, at least 0.
    bid_buckets, score_buckets : how many, at least 1.
    cut : "quantile": buckets of equal weight, which keep equal values together, and every value
        apart when there are no more than buckets. "min_max": as published, the range from the
        lowest to the highest value in equal widths, the highest having one more bucket of its own
        (0 to 100,000), all in the first where the two are the same. One outlier then puts nearly
        all others into a few buckets.
    ties : what a pair of equal scores pays, see `cs_auc`. With coarse buckets "definition" comes
        out far too high.
    sample_weight : (n,) finite, at least 0.

    Returns
    -------
    float
        In [0, 1]; nan where no pair could pay. It equals `cs_auc` with the same `ties` when no
        bucket holds two values.

    Raises
    ------
    ValueError
        When the columns differ in length, a value breaks its rule, or an option is another.

    References
    ----------
    Liu & Yin, csAUC (paper 002), section 3 and algorithm 1, of which these errors are corrected:
    the sum in the loop over `right` is missing; lines 32 and 33 need `right` in two units; a level
    earns its number instead of its bid; equal lowest and highest score divide by zero. What it
    sums over a matrix of levels and buckets follows from the sums of each alone, so there is none.

    Examples
    --------
    >>> columns = [0.9, 0.2, 0.8, 0.1], [1, 1, 0, 0], [1.0, 4.0, 1.0, 2.0]
    >>> round(bucketed_cs_auc(*columns), 6)
    0.642857
    >>> round(bucketed_cs_auc(*columns, score_buckets=1), 6)
    0.535714
    """
    check_ties(ties)
    _check_cut(cut)
    _check_count("bid_buckets", bid_buckets)
    _check_count("score_buckets", score_buckets)
    samples = PricedPredictions.check(p, y, bids, sample_weight)
    held = samples.weights > 0.0
    weights, clicked = samples.weights[held], samples.predictions.outcomes[held] == 1.0
    scores = _buckets(samples.scores[held], weights, score_buckets, cut).astype(np.float64)
    revenue = np.zeros(len(weights))
    earned = samples.bids[held][clicked]
    revenue[clicked] = _bucket_means(earned, weights[clicked], bid_buckets, cut)
    return cs_auc_of(scores, revenue, weights, ties).value


def _buckets(values: Floats, weights: Floats, count: int, cut: Cut) -> Integers:
    """The bucket of each value, higher values in higher ones, shape (n,)."""
    if not len(values):
        return np.empty(0, np.int64)
    if cut == "quantile":
        return np.searchsorted(_lower_edges(values, weights, count), values, side="right") - 1
    low, high = values.min(), values.max()
    if low == high:
        return np.zeros(len(values), np.int64)
    buckets: Integers = ((values - low) / (high - low) * count).astype(np.int64)
    return buckets


def _lower_edges(values: Floats, weights: Floats, count: int) -> Floats:
    """The lowest value of each bucket of equal weight, ascending."""
    ranked, reached = ranking(values, weights)
    opens = np.flatnonzero(np.diff(ranked, prepend=-1.0) > 0.0)
    if len(opens) > count:
        bucket = np.floor(count * (reached[opens] / reached[-1]))
        opens = opens[np.diff(bucket, prepend=-1.0) > 0.0]
    return ranked[opens]


def _bucket_means(values: Floats, weights: Floats, count: int, cut: Cut) -> Floats:
    """The mean of the bucket that each value is in, shape (n,)."""
    buckets = _buckets(values, weights, count, cut)
    length = int(buckets.max(initial=-1)) + 1
    sums = sum_at(buckets, weights * values, length)[buckets]
    means: Floats = sums / sum_at(buckets, weights, length)[buckets]
    return means


def _check_count(name: str, count: int) -> None:
    if not (count >= 1 and count == int(count)):
        raise ValueError(f"{name} = {count}: must be whole and at least 1")


def _check_cut(cut: str) -> None:
    if cut not in ("quantile", "min_max"):
        raise ValueError(f"cut = {cut!r}: must be one of quantile, min_max")
