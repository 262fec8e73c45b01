"""AUC, GAUC (the AUC of each group, averaged) and partial AUC.

They are nan unless there are both positives and negatives. Arguments and errors are those of
`evaluation.metrics`. One kernel, `roc_areas`, serves samples, groups and slices of streamed logs:
the axis of negatives is of whole numbers, so that with counts every pair is counted exactly.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers, check_equal_lengths, sum_at
from evaluation.metrics.gc_n import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.metrics.predictions import (
    Campaigns,
    Predictions,
    Runs,
    WeightAxis,
    check_mask,
    encode_campaigns,
)


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
    return auc_of(predictions.select(check_mask("where", where, predictions.probabilities)))


def auc_of(predictions: Predictions) -> float:
    """`auc` of checked predictions."""
    samples = predictions.ordered
    return float(roc_areas(samples.runs, samples.run_positives, 1.0)[0][0])


def roc_areas(runs: Runs, positives: Floats, *highs: float) -> list[Floats]:
    """Mean share of a group's positives found while up to `high` of its negatives are let through.

    With high = 1 it is `auc` of each group, else its `partial_auc` from 0 to `high`. A positive
    that f of the negatives rank above is found for high - f of that range; one that ties with
    some is found on the way from the first to the last of them.

    runs : the samples of all groups.
    positives : (r,) weighted outcomes of each run.
    highs : in (0, 1].

    Returns, for each high, (n_groups,) in [0, 1]; nan unless there are both positives and
    negatives.
    """
    reached = WeightAxis(runs.weights - positives, runs.bounds).reached
    clicked = np.flatnonzero(positives)
    groups = np.searchsorted(runs.bounds, clicked, side="right") - 1
    ends = reached[runs.bounds]
    # Whole numbers until the group's end is off: the axis of all groups is longer than a float.
    first, last = (ends[groups + 1] - reached[at] for at in (clicked + 1, clicked))
    clicks, negatives = runs.group_sums(positives), np.diff(ends)
    # The product of two totals can leave the range of floats; powers of 2 keep counts exact.
    exponents = np.frexp(clicks)[1]
    won, pairs = np.ldexp(positives[clicked], -exponents[groups]), np.ldexp(clicks, -exponents)
    pairs *= negatives
    areas = []
    for high in highs:
        found = won * _found(first, last, high * negatives[groups])
        area = np.full(len(pairs), np.nan)
        np.divide(sum_at(groups, found, len(pairs)), high * pairs, out=area, where=pairs > 0.0)
        areas.append(area)
    return areas


def _found(first: Integers, last: Integers, high: Floats) -> Floats:
    """For how many of the `high` first negatives a positive is found that has so many above it, and
    above it or beside it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        on_the_way = np.maximum(high - first, 0.0) ** 2 / (2.0 * (last - first))
    found = np.where(last <= high, high - 0.5 * (first + last), on_the_way)
    return np.where(first >= high, 0.0, found)


AucWeights = Literal["samples", "positives", "equal"]


@dataclass(frozen=True, slots=True)
class GroupedAuc:
    """GAUC and what it is made of.

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
    values = roc_areas(runs, positives, 1.0)[0]
    samples = runs.group_sums(runs.weights)
    sizes = {"samples": samples, "positives": runs.group_sums(positives)}
    return GroupedAuc(
        value=mean_of_defined(values, sizes.get(weights, np.ones(len(names)))),
        groups_kept=int(np.count_nonzero(~np.isnan(values))),
        share_left_out=share_of_undefined(values, samples),
        per_group=defined_by_name(names, values),
    )


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
    samples = Predictions.check(p, y, sample_weight).ordered
    areas = [high, low] if low else [high]
    found = roc_areas(samples.runs, samples.run_positives, *areas)
    shares = [end * float(area[0]) for end, area in zip(areas, found, strict=True)]
    return (shares[0] - sum(shares[1:])) / (high - low)
