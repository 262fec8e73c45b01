"""gcsAUC: the csAUC of each group, averaged."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Integers, check_equal_lengths
from evaluation.campaign_codes import Campaigns, encode_campaigns
from evaluation.group_mean import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.priced_predictions import PricedPredictions
from evaluation.revenue_pairs import RevenuePairs, Ties, check_ties
from evaluation.sums import sum_at

CsAucWeights = Literal["samples", "clicks", "pairs", "equal"]


@dataclass(frozen=True, slots=True)
class GroupedCsAuc:
    """gcsAUC and what it is made of.

    Attributes
    ----------
    value : gcsAUC; nan when no group is kept.
    groups_kept : groups that count in it: those in which some pair could pay.
    share_left_out : share of the samples, by weight, in the others; nan without samples.
    bids_left_out : share of all bids, by weight, in the others; nan without bids.
    per_group : csAUC of each group kept.
    """

    value: float
    groups_kept: int
    share_left_out: float
    bids_left_out: float
    per_group: Mapping[Hashable, float]


def gcs_auc(
    p: ArrayLike,
    y: ArrayLike,
    bids: ArrayLike,
    groups: Campaigns,
    *,
    weights: CsAucWeights = "samples",
    ties: Ties = "definition",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Weighted mean of the groups' csAUC; see `grouped_cs_auc`, whose `value` this is.

    Examples
    --------
    >>> gcs_auc([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 1], [2, 2, 3, 1], ["a", "a", "b", "b"])
    1.0
    """
    return grouped_cs_auc(
        p, y, bids, groups, weights=weights, ties=ties, sample_weight=sample_weight
    ).value


def grouped_cs_auc(
    p: ArrayLike,
    y: ArrayLike,
    bids: ArrayLike,
    groups: Campaigns,
    *,
    weights: CsAucWeights = "samples",
    ties: Ties = "definition",
    sample_weight: ArrayLike | None = None,
) -> GroupedCsAuc:
    """GcsAUC = sum_g w_g csAUC_g / sum_g w_g over the groups g in which some pair could pay.

    Only ads of one request compete, so the natural group is the request; by campaign it says how
    well each campaign's own impressions are ranked. All groups are ranked in one sort.

    A group without a positive of bid above 0, or with positives of one bid and nothing else, has
    no csAUC. It is in neither sum, for any number in its place would reward or punish the mix of
    traffic; what it takes with it is told. Unlike AUC, positives of two bids are enough.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    y : (n,) outcomes, 0 or 1.
    bids : (n,) money for a click, finite, at least 0.
    groups : (n,) any hashable keys, such as request, user or campaign; integers in an array are
        the fastest.
    weights : w_g: the group's "samples" (their total weight), its "clicks", "pairs" (what its
        pairs pay at best, so that gcsAUC is the ratio of the sums over all groups), or "equal".
        The paper gives none. Its source for GAUC weights by impressions or clicks.
    ties : what a pair of equal scores pays, see `cs_auc`.
    sample_weight : (n,) finite, at least 0; a pair counts the product of its weights.

    Raises
    ------
    ValueError
        When the columns differ in length, a value breaks its rule, or an option is another word.

    References
    ----------
    Liu & Yin, csAUC (paper 002), section 2.3.

    Examples
    --------
    >>> groups = [7, 7, 8, 8, 9]
    >>> grouped_cs_auc([0.1, 0.2, 0.8, 0.9, 0.5], [0, 1, 1, 0, 1], [1, 1, 2, 2, 5], groups)
    GroupedCsAuc(value=0.5, groups_kept=2, share_left_out=0.2, \
bids_left_out=0.45454545454545453, per_group={7: 1.0, 8: 0.0})
    """
    check_ties(ties)
    if weights not in get_args(CsAucWeights):
        raise ValueError(f"weights = {weights!r}: must be one of samples, clicks, pairs, equal")
    samples = PricedPredictions.check(p, y, bids, sample_weight)
    names, codes = encode_campaigns(groups)
    check_equal_lengths(probabilities=samples.bids, groups=codes)
    return _grouped(samples, names, codes.astype(np.int64, copy=False), weights, ties)


def _grouped(
    samples: PricedPredictions,
    names: list[Hashable],
    codes: Integers,
    weights: CsAucWeights,
    ties: Ties,
) -> GroupedCsAuc:
    pairs = RevenuePairs.of(samples.scores, samples.revenue, samples.weights, codes, len(names))
    values = pairs.paid(ties)
    counted = sum_at(codes, samples.weights, len(names))
    sizes = {
        "samples": counted,
        "clicks": sum_at(codes, samples.predictions.positives, len(names)),
        "pairs": pairs.best,
        "equal": np.ones(len(names)),
    }
    bids = sum_at(codes, samples.weights * samples.bids, len(names))
    return GroupedCsAuc(
        value=mean_of_defined(values, sizes[weights]),
        groups_kept=int(np.count_nonzero(~np.isnan(values))),
        share_left_out=share_of_undefined(values, counted),
        bids_left_out=share_of_undefined(values, bids),
        per_group=defined_by_name(names, values),
    )
