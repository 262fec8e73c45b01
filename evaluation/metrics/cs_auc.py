"""csAUC: AUC in money, the revenue of a ranking by probability times bid over all pairs.

gcsAUC is the mean over groups. The kernel, `RevenuePairs`, sums over all pairs without looking at
any. `bucketed_cs_auc` is csAUC as it was published. Arguments and errors not described are those of
`evaluation.metrics`; outcomes are 0 or 1, and a pair counts the product of its weights.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, Integers, check_equal_lengths, sum_at
from evaluation.metrics.cs_auc_pairs import RevenuePairs, Ties, check_ties
from evaluation.metrics.gc_n import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.metrics.predictions import Campaigns, PricedPredictions, encode_campaigns, ranking


@dataclass(frozen=True, slots=True)
class CsAuc:
    """csAUC and what it has to be read beside.

    value : csAUC, in [worst, 1].
    worst : csAUC of the reverse order. A random order has (1 + worst) / 2, not one half.
    tied_share : share, in [0, 1], of what the order decides about (best less worst revenue) that
        lies in pairs of equal scores. `normalized` under ties "definition" and "worst" differs
        by it.

    All are nan where no pair could pay: without positives that have a bid, or with positives of
    one bid only and nothing else.
    """

    value: float
    worst: float
    tied_share: float

    @property
    def normalized(self) -> float:
        """(value - worst) / (1 - worst): 1 is the best order, 0 the worst, 0.5 a random one."""
        # Bids that part in their last digit only leave nothing between the worst and 1.
        return (self.value - self.worst) / (1.0 - self.worst) if self.worst < 1.0 else float("nan")


def cs_auc(
    p: ArrayLike,
    y: ArrayLike,
    bids: ArrayLike,
    *,
    ties: Ties = "definition",
    normalized: bool = False,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Revenue that the ranking by p * bid makes of all pairs, as a share of the best possible.

    A click is worth its bid and a non-click nothing. Of every pair of unequal worth, the sample of
    the higher score p * bid is shown and pays its worth; the sum over all such pairs is divided by
    what it would be if the worthier always won. AUC sees neither what a click is worth nor the
    order of the clicks among themselves; here both cost what they cost.

    It is exact, and takes little longer than sorting the scores.

    p : (n,) not their size counts but the order of p * bid: csAUC stays when all bids are
        multiplied by one number, not when the probabilities are recalibrated.
    ties : what a pair of equal scores pays. "definition": the higher worth, as published.
        "half": the mean of both, what a random order pays; as in AUC. "worst": the lower.
        Where scores are coarse or quantised, choose "half": under "definition" a model that says
        0 for everything has csAUC 1. `cs_auc_parts` says how much lies in ties. Scores are
        compared as computed: products that are equal on paper may differ in their last bit.
    normalized : give (csAUC - worst) / (1 - worst) instead, in which 0 is the worst order.

    In [worst, 1], where worst > 0 as soon as two positives have different bids; nan where no pair
    could pay.

    Source: Liu & Yin, csAUC (paper 002), definition 2.2; its table 3 is reproduced. Its corollary
    2.3 says pCTR where it must say pCTR * bid: csAUC is 1 if and only if in every pair of unequal
    worth the worthier has at least the other's score.

    Clicks worth 100 and 4, and a bid of 8 that no one clicked; the scores are 5, 2 and 4. Of the
    pairs, 100 beats 4, 100 beats 0, and 4 loses to 0: 200 of 204.

    >>> round(cs_auc([0.05, 0.5, 0.5], [1, 1, 0], [100, 4, 8]), 6)
    0.980392
    >>> cs_auc_parts([0.05, 0.5, 0.5], [1, 1, 0], [100, 4, 8]).normalized
    0.98
    """
    parts = cs_auc_parts(p, y, bids, ties=ties, sample_weight=sample_weight)
    return parts.normalized if normalized else parts.value


def cs_auc_parts(
    p: ArrayLike,
    y: ArrayLike,
    bids: ArrayLike,
    *,
    ties: Ties = "definition",
    sample_weight: ArrayLike | None = None,
) -> CsAuc:
    """csAUC with that of the worst order and how much lies in ties; see `cs_auc`.

    >>> cs_auc_parts([0.2, 0.1, 0.4], [1, 1, 0], [2, 4, 1], ties="half")
    CsAuc(value=0.6, worst=0.2, tied_share=1.0)
    """
    check_ties(ties)
    samples = PricedPredictions(p, y, bids, sample_weight)
    return cs_auc_of(samples.scores, samples.revenue, samples.weights, ties)


def cs_auc_of(scores: Floats, revenue: Floats, weights: Floats, ties: Ties) -> CsAuc:
    """`cs_auc_parts` of checked samples, all of shape (n,); revenue is the bid of a positive."""
    one_group = np.zeros(len(scores), np.int8)
    pairs = RevenuePairs(scores, revenue, weights, one_group, 1)
    return CsAuc(
        value=float(pairs.paid(ties)[0]),
        worst=float(pairs.worst[0]),
        tied_share=float(pairs.tied_share[0]),
    )


CsAucWeights = Literal["samples", "clicks", "pairs", "equal"]


@dataclass(frozen=True, slots=True)
class GroupedCsAuc:
    """gcsAUC and what it is made of.

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
    no csAUC and is in neither sum; the result has its share. Unlike AUC, positives of two bids are
    enough.

    weights : w_g: the group's "samples" (their total weight), its "clicks", "pairs" (what its
        pairs pay at best, so that gcsAUC is the ratio of the sums over all groups), or "equal".
        The paper gives none. Its source for GAUC weights by impressions or clicks.
    ties : what a pair of equal scores pays, see `cs_auc`.

    Source: Liu & Yin, csAUC (paper 002), section 2.3.

    >>> groups = [7, 7, 8, 8, 9]
    >>> grouped_cs_auc([0.1, 0.2, 0.8, 0.9, 0.5], [0, 1, 1, 0, 1], [1, 1, 2, 2, 5], groups)
    GroupedCsAuc(value=0.5, groups_kept=2, share_left_out=0.2, \
bids_left_out=0.45454545454545453, per_group={7: 1.0, 8: 0.0})
    """
    check_ties(ties)
    if weights not in get_args(CsAucWeights):
        raise ValueError(f"weights = {weights!r}: must be one of samples, clicks, pairs, equal")
    samples = PricedPredictions(p, y, bids, sample_weight)
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
    pairs = RevenuePairs(samples.scores, samples.revenue, samples.weights, codes, len(names))
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

    bid_buckets, score_buckets : how many, at least 1.
    cut : "quantile": buckets of equal weight, which keep equal values together, and every value
        apart when there are no more than buckets. "min_max": as published, the range from the
        lowest to the highest value in equal widths, the highest having one more bucket of its own
        (0 to 100,000), all in the first where the two are the same. One outlier then puts nearly
        all others into a few buckets.
    ties : what a pair of equal scores pays, see `cs_auc`. With coarse buckets "definition" comes
        out far too high.

    In [0, 1]; nan where no pair could pay. It equals `cs_auc` with the same `ties` when no bucket
    has two values.

    Source: Liu & Yin, csAUC (paper 002), section 3 and algorithm 1, of which these errors are
    corrected: the sum in the loop over `right` is missing; lines 32 and 33 need `right` in two
    units; a level earns its number instead of its bid; equal lowest and highest score divide by
    zero. What it sums over a matrix of levels and buckets follows from the sums of each alone, so
    there is none.

    >>> columns = [0.9, 0.2, 0.8, 0.1], [1, 1, 0, 0], [1.0, 4.0, 1.0, 2.0]
    >>> round(bucketed_cs_auc(*columns), 6)
    0.642857
    >>> round(bucketed_cs_auc(*columns, score_buckets=1), 6)
    0.535714
    """
    check_ties(ties)
    if cut not in get_args(Cut):
        raise ValueError(f"cut = {cut!r}: must be one of quantile, min_max")
    _check_count("bid_buckets", bid_buckets)
    _check_count("score_buckets", score_buckets)
    samples = PricedPredictions(p, y, bids, sample_weight)
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
