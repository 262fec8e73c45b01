"""AUC, GAUC (the AUC of each group, averaged) and partial AUC.

They are nan unless there are both positives and negatives. Arguments and errors are those of
`evaluation.metrics`. `auc` adds up floats, all groups of GAUC share one axis of whole numbers: with
counts they agree to the last bit, with fractional weights to rounding.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Floats, check_equal_lengths
from evaluation.metrics.gc_n import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.metrics.predictions import Campaigns, Predictions, encode_campaigns
from evaluation.metrics.ranks import Runs, WeightAxis


def auc(
    p: ArrayLike,
    y: ArrayLike,
    *,
    where: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Probability that a positive has the higher score than a negative, ties counting one half.

    Only the ranking matters, so a strictly increasing calibration map leaves it as it is inside
    one campaign.

    Parameters
    ----------
    where : (n,) booleans, the rows that count; None is all. With the impressions of the mainline
        it is the mainline AUC.

    In [0, 1], .5 for a random order. With whole weights the pairs are counted exactly.

    Source: Yi et al., KDD 2013 (paper 001), section 3: trapezoids, one ROC point for each score. It
    calls the AUC of the mainline the most reliable one.

    >>> auc([0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1])
    0.875
    >>> auc([0.1, 0.3, 0.3, 0.9], [0, 0, 1, 1], where=[False, True, True, True])
    0.75
    """
    predictions = Predictions.check(p, y, sample_weight)
    if where is None:
        return auc_of(predictions)
    chosen = _check_mask(where)
    check_equal_lengths(probabilities=predictions.probabilities, where=chosen)
    return auc_of(predictions.select(chosen))


def auc_of(predictions: Predictions) -> float:
    """`auc` of checked predictions."""
    samples = predictions.ordered
    positives = samples.run_positives
    negatives = samples.runs.weights - positives
    clicks, others = positives.sum(), negatives.sum()
    if clicks == 0.0 or others == 0.0:
        return float("nan")
    # The product of two totals can leave the range of floats; powers of 2 keep counts exact.
    click_exponent, other_exponent = np.frexp(clicks)[1], np.frexp(others)[1]
    np.ldexp(negatives, -other_exponent, out=negatives)
    won = np.cumsum(negatives)
    won -= np.multiply(negatives, 0.5, out=negatives)
    won *= np.ldexp(positives, -click_exponent)
    pairs = np.ldexp(clicks, -click_exponent) * np.ldexp(others, -other_exponent)
    return float(won.sum() / pairs)


def _check_mask(where: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(where)
    if mask.ndim != 1 or (mask.size and mask.dtype != np.bool_):
        raise ValueError(f"where must be booleans of one dimension, not {mask.ndim}-d {mask.dtype}")
    return mask.astype(np.bool_, copy=False)


AucWeights = Literal["samples", "positives", "equal"]


@dataclass(frozen=True, slots=True)
class GroupedAuc:
    """GAUC and what it is made of.

    Attributes
    ----------
    value : GAUC, in [0, 1]; nan when no group is kept.
    groups_kept : groups that count in it: those with both positives and negatives.
    share_left_out : share of the samples, by weight, in the others; nan without samples.
    per_group : AUC of each group kept.
    """

    value: float
    groups_kept: int
    share_left_out: float
    per_group: Mapping[Hashable, float]


def gauc(
    p: ArrayLike,
    y: ArrayLike,
    groups: Campaigns,
    *,
    weights: AucWeights = "samples",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Weighted mean of the groups' AUC; see `grouped_auc`, whose `value` this is.

    >>> gauc([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 0], ["a", "a", "b", "b"])
    0.5
    """
    return grouped_auc(p, y, groups, weights=weights, sample_weight=sample_weight).value


def grouped_auc(
    p: ArrayLike,
    y: ArrayLike,
    groups: Campaigns,
    *,
    weights: AucWeights = "samples",
    sample_weight: ArrayLike | None = None,
) -> GroupedAuc:
    """GAUC = sum_g w_g AUC_g / sum_g w_g over the groups g with both positives and negatives.

    Only samples of one group compete in an auction or on a page, so only their order counts. A
    group of one class has no AUC and is in neither sum; the result has its share of the samples.

    Parameters
    ----------
    weights : w_g: the group's "samples" (their total weight), its "positives", or "equal".

    Source: Liu & Yin, csAUC (paper 002), section 2.3, after Zhu et al., KDD 2017: groups weighted
    by impressions or clicks.

    >>> grouped_auc([0.1, 0.2, 0.8, 0.9, 0.5], [0, 1, 1, 0, 1], [7, 7, 8, 8, 9], weights="equal")
    GroupedAuc(value=0.5, groups_kept=2, share_left_out=0.2, per_group={7: 1.0, 8: 0.0})
    """
    if weights not in get_args(AucWeights):
        raise ValueError(f"weights = {weights!r}: must be one of samples, positives, equal")
    predictions = Predictions.check(p, y, sample_weight)
    names, codes = encode_campaigns(groups)
    check_equal_lengths(probabilities=predictions.probabilities, groups=codes)
    rows = codes.astype(np.int64, copy=False)
    runs = Runs.of(predictions.probabilities, predictions.weights, rows, len(names))
    positives = runs.sums(predictions.positives)
    values = _aucs(runs, positives)
    samples = runs.group_sums(runs.weights)
    sizes = {"samples": samples, "positives": runs.group_sums(positives)}
    return GroupedAuc(
        value=mean_of_defined(values, sizes.get(weights, np.ones(len(names)))),
        groups_kept=int(np.count_nonzero(~np.isnan(values))),
        share_left_out=share_of_undefined(values, samples),
        per_group=defined_by_name(names, values),
    )


def _aucs(runs: Runs, positives: Floats) -> Floats:
    """AUC of each group, shape (n_groups,), from the positives of each run, shape (r,)."""
    negatives = runs.weights - positives
    axis, sizes = WeightAxis.of(negatives, runs.bounds), np.diff(runs.bounds)
    opens = axis.reached[runs.bounds]
    # Whole numbers until the group's start is off: the axis of all groups is longer than a float.
    begin = np.repeat(opens[:-1], sizes)
    beaten = 0.5 * ((axis.reached[:-1] - begin) + (axis.reached[1:] - begin))
    clicks = runs.group_sums(positives)
    exponents = np.frexp(clicks)[1]
    won = runs.group_sums(np.ldexp(positives, np.repeat(-exponents, sizes)) * beaten)
    pairs = np.ldexp(clicks, -exponents) * np.diff(opens)
    values = np.full(len(pairs), np.nan)
    np.divide(won, pairs, out=values, where=pairs > 0.0)
    return values


def partial_auc(
    p: ArrayLike,
    y: ArrayLike,
    low: float = 0.0,
    high: float = 0.1,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean share of the positives found while `low` to `high` of the negatives are let through.

    It is the area under the ROC curve over false positive rates [low, high], divided by
    high - low: the part of AUC that a platform sees which shows only the top of the ranking.
    Between two points of the curve it is interpolated, so samples of one score come in random
    order. Over [0, 1] it is AUC; a random ranking has (low + high) / 2.

    Parameters
    ----------
    low, high : false positive rates, 0 <= low < high <= 1.

    Source: Yi et al., KDD 2013 (paper 001), section 3: trapezoids, one ROC point for each score.

    Nothing but the first positive comes before the negative at .7; the second follows it.

    >>> partial_auc([0.9, 0.7, 0.6, 0.4], [1, 0, 1, 0], 0.0, 0.5)
    0.5
    >>> partial_auc([0.9, 0.7, 0.6, 0.4], [1, 0, 1, 0], 0.0, 1.0)
    0.75
    """
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"low = {low}, high = {high}: must be 0 <= low < high <= 1")
    rates = _roc(Predictions.check(p, y, sample_weight))
    return float("nan") if rates is None else _area(*rates, low, high) / (high - low)


def _roc(predictions: Predictions) -> tuple[Floats, Floats] | None:
    """False and true positive rates from (0, 0) to (1, 1), shape (r + 1,); None of one class."""
    samples = predictions.ordered
    positives = samples.run_positives[::-1]
    negatives = samples.runs.weights[::-1] - positives
    if positives.sum() == 0.0 or negatives.sum() == 0.0:
        return None
    return _rates(negatives), _rates(positives)


def _rates(parts: Floats) -> Floats:
    reached = np.zeros(len(parts) + 1)
    np.cumsum(parts, out=reached[1:])
    reached /= reached[-1]
    return reached


def _area(false_rates: Floats, true_rates: Floats, low: float, high: float) -> float:
    """Area over [low, high], each trapezoid clipped to it."""
    crossing = (false_rates[1:] > low) & (false_rates[:-1] < high)
    crossing &= false_rates[1:] > false_rates[:-1]
    starts, ends = false_rates[:-1][crossing], false_rates[1:][crossing]
    first, last = true_rates[:-1][crossing], true_rates[1:][crossing]
    slopes = (last - first) / (ends - starts)
    left, right = np.maximum(starts, low), np.minimum(ends, high)
    heights = first + slopes * ((left + right) / 2.0 - starts)
    return float(((right - left) * heights).sum())
