"""GAUC: the AUC of each group, averaged."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, check_equal_lengths
from evaluation.campaign_codes import Campaigns, encode_campaigns
from evaluation.group_mean import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.predictions import Predictions
from evaluation.runs import Runs
from evaluation.weight_axis import WeightAxis

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

    Examples
    --------
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
    group of one class has no AUC: it is in neither sum, and its share of the samples is told.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes in [0, 1]; a fraction y counts as y of a positive and 1 - y of a negative.
    groups : (n,) any hashable keys, such as user, request or campaign; integers in an array are
        the fastest.
    weights : w_g: the group's "samples" (their total weight), its "positives", or "equal".
    sample_weight : (n,) finite, at least 0; a whole number is that many repetitions.

    Raises
    ------
    ValueError
        When the columns differ in length, a value breaks its rule, or `weights` is another word.

    References
    ----------
    Liu & Yin, csAUC (paper 002), section 2.3, after Zhu et al., KDD 2017: groups weighted by
    impressions or clicks.

    Examples
    --------
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
