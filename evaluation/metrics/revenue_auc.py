"""csAUC: AUC in money, the revenue that a ranking by probability times bid makes of all pairs.

gcsAUC: the csAUC of each group, averaged.
Levels: samples that earn something, ranked by what they earn.
Revenue of pairs: what csAUC sums over all pairs of samples, found without looking at any.

csAUC of buckets, as it was published: bids and scores rounded to a grid first.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Floats, Integers, check_equal_lengths
from evaluation.metrics.gc_n import defined_by_name, mean_of_defined, share_of_undefined
from evaluation.metrics.predictions import Campaigns, PricedPredictions, encode_campaigns
from evaluation.metrics.ranks import Groups, RankedPositions, Runs, ranking, weight_above
from evaluation.metrics.sums import sum_at


@dataclass(frozen=True, slots=True, eq=False)
class RevenueLevels:
    """The samples of one group and one revenue above 0, taken together.

    Samples that earn nothing are in no level; only the totals know of them.

    Attributes
    ----------
    runs : the levels; their `probabilities` are revenues.
    weights : (k,) of the samples.
    totals : (n_groups,) weight of each group, with the samples that earn nothing.
    above : (levels,) weight of the group that earns more, plus half of the level's own.
    """

    runs: Runs
    weights: Floats
    totals: Floats
    above: Floats

    @classmethod
    def of(cls, revenue: Floats, weights: Floats, groups: Integers, totals: Floats) -> Self:
        """The levels of k samples; groups, shape (k,), index the totals."""
        runs = Runs.of(revenue, weights, groups, len(totals))
        return cls(runs, weights, totals, weight_above(runs))

    @property
    def best(self) -> Floats:
        """Each sample's revenue once for all weight that earns less, shape (n_groups,)."""
        less = self._below - 0.5 * self.runs.weights
        return self.runs.group_sums(self.runs.expected * less)

    @property
    def stake(self) -> Floats:
        """Difference of the two revenues, summed over all pairs of a group, shape (n_groups,)."""
        return self.runs.group_sums(self.runs.expected * (self._below - self.above))

    def lost(self, above: Floats) -> Floats:
        """Lost to `best` by a ranking, from the weight it puts above each sample, shape (k,)."""
        rise = self.runs.sums(self.weights * above) - self.runs.weights * self.above
        return self.runs.group_sums(self.runs.probabilities * rise)

    @property
    def _below(self) -> Floats:
        """Weight of the group that earns less, and half of the level's own, shape (levels,)."""
        return np.repeat(self.totals, np.diff(self.runs.bounds)) - self.above


Ties = Literal["definition", "half", "worst"]

LOST_OF_TIED = {"definition": -0.5, "half": 0.0, "worst": 0.5}
"""Part of what is at stake in tied pairs that each rule loses beyond their mean."""


@dataclass(frozen=True, slots=True, eq=False)
class RevenuePairs:
    """Sums over the pairs of unequal revenue in each group, shape (n_groups,) each.

    Such a pair pays the revenue of whichever of the two scores higher. So a sample pays once for
    every sample below it, and what a ranking loses against the best one is

        sum over samples of revenue * (samples above it by score - samples above it by revenue):

    two rankings instead of all pairs. (Sort by revenue with swaps of neighbours: each gains the
    difference of two revenues, puts one pair right, and lowers that sum by the same difference.)

    Attributes
    ----------
    best : paid when the higher revenue always scores higher; nan where no pair could pay.
    stake : what the order decides about: `best` less what the reverse order pays; nan likewise.
    lost : `best` less what this order pays, a pair of equal scores paying the mean of the two.
    tied : the part of `stake` that lies in pairs of equal scores.
    """

    best: Floats
    stake: Floats
    lost: Floats
    tied: Floats

    @classmethod
    def of(
        cls, scores: Floats, revenue: Floats, weights: Floats, groups: Groups, n_groups: int
    ) -> Self:
        """The sums of n samples; groups, shape (n,), say which of 0..n_groups-1 each is in."""
        held = weights > 0.0
        if not held.all():
            columns = (scores[held], revenue[held], weights[held], groups[held])
            return cls.of(*columns, n_groups)
        weights = weights if (weights == 1.0).all() else _scaled(weights)
        places = RankedPositions.of(scores, weights, groups, n_groups, revenue > 0.0)
        rows, group = places.rows, groups[places.rows].astype(np.int64)
        paid = _scaled(revenue[rows])
        levels = RevenueLevels.of(paid, weights[rows], group, places.totals)
        defined = _have_two_levels(levels, places.row_counts)
        return cls(
            best=np.where(defined, levels.best, np.nan),
            stake=np.where(defined, levels.stake, np.nan),
            lost=levels.lost(places.above),
            tied=_tied(places, paid, weights[rows], group),
        )

    def paid(self, ties: Ties) -> Floats:
        """Share of `best` that the scores make, shape (n_groups,): csAUC; nan where undefined."""
        lost = np.clip(self.lost + LOST_OF_TIED[ties] * self.tied, 0.0, self.stake)
        return (self.best - lost) / self.best

    @property
    def worst(self) -> Floats:
        """Share of `best` that the reverse order makes, shape (n_groups,)."""
        return (self.best - self.stake) / self.best

    @property
    def tied_share(self) -> Floats:
        """Share of `stake` in pairs of equal scores, shape (n_groups,)."""
        return self.tied / self.stake


def check_ties(ties: str) -> None:
    """Raises ValueError unless `ties` is a rule for pairs of equal scores."""
    if ties not in LOST_OF_TIED:
        raise ValueError(f"ties = {ties!r}: must be one of {', '.join(LOST_OF_TIED)}")


def _scaled(values: Floats) -> Floats:
    # Sums of products can leave the range of floats; a power of 2 keeps whole numbers exact.
    scaled: Floats = np.ldexp(values, -np.frexp(values.max(initial=0.0))[1])
    return scaled


def _have_two_levels(levels: RevenueLevels, row_counts: Integers) -> NDArray[np.bool_]:
    """Whether a group has two different revenues, shape (n_groups,); of them one is above 0."""
    earn_nothing = row_counts > levels.runs.row_counts
    return np.diff(levels.runs.bounds) + earn_nothing >= 2


def _tied(places: RankedPositions, paid: Floats, weights: Floats, groups: Integers) -> Floats:
    """What is at stake in pairs of equal scores, shape (n_groups,); other arguments (k,)."""
    at = places.ties
    opens = np.diff(places.runs[at], prepend=-1) > 0
    first = at[opens]
    run = np.cumsum(opens) - 1
    stakes = RevenueLevels.of(paid[at], weights[at], run, places.tied[first]).stake
    return sum_at(groups[first], stakes, len(places.totals))


@dataclass(frozen=True, slots=True)
class CsAuc:
    """csAUC and what it has to be read beside.

    Attributes
    ----------
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

    Parameters
    ----------
    p : (n,) probabilities in [0, 1]. Not their size counts but the order of p * bid: csAUC stays
        when all bids are multiplied by one number, not when the probabilities are recalibrated.
    ties : what a pair of equal scores pays. "definition": the higher worth, as published.
        "half": the mean of both, what a random order pays; as in AUC. "worst": the lower.
        Where scores are coarse or quantised, choose "half": under "definition" a model that says
        0 for everything has csAUC 1. `cs_auc_parts` says how much lies in ties. Scores are
        compared as computed: products that are equal on paper may differ in their last bit.
    normalized : give (csAUC - worst) / (1 - worst) instead, in which 0 is the worst order.

    Returns
    -------
    float
        In [worst, 1], where worst > 0 as soon as two positives have different bids; nan where no
        pair could pay.

    References
    ----------
    Liu & Yin, csAUC (paper 002), definition 2.2; its table 3 is reproduced. Its corollary 2.3
    says pCTR where it must say pCTR * bid: csAUC is 1 if and only if in every pair of unequal
    worth the worthier has at least the other's score.

    Examples
    --------
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

    Examples
    --------
    >>> cs_auc_parts([0.2, 0.1, 0.4], [1, 1, 0], [2, 4, 1], ties="half")
    CsAuc(value=0.6, worst=0.2, tied_share=1.0)
    """
    check_ties(ties)
    samples = PricedPredictions.check(p, y, bids, sample_weight)
    return cs_auc_of(samples.scores, samples.revenue, samples.weights, ties)


def cs_auc_of(scores: Floats, revenue: Floats, weights: Floats, ties: Ties) -> CsAuc:
    """`cs_auc_parts` of checked samples, all of shape (n,); revenue is the bid of a positive."""
    one_group = np.zeros(len(scores), np.int8)
    pairs = RevenuePairs.of(scores, revenue, weights, one_group, 1)
    return CsAuc(
        value=float(pairs.paid(ties)[0]),
        worst=float(pairs.worst[0]),
        tied_share=float(pairs.tied_share[0]),
    )


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
    groups : (n,) any hashable keys, such as request, user or campaign; integers in an array are
        the fastest.
    weights : w_g: the group's "samples" (their total weight), its "clicks", "pairs" (what its
        pairs pay at best, so that gcsAUC is the ratio of the sums over all groups), or "equal".
        The paper gives none. Its source for GAUC weights by impressions or clicks.
    ties : what a pair of equal scores pays, see `cs_auc`.

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
    bid_buckets, score_buckets : how many, at least 1.
    cut : "quantile": buckets of equal weight, which keep equal values together, and every value
        apart when there are no more than buckets. "min_max": as published, the range from the
        lowest to the highest value in equal widths, the highest having one more bucket of its own
        (0 to 100,000), all in the first where the two are the same. One outlier then puts nearly
        all others into a few buckets.
    ties : what a pair of equal scores pays, see `cs_auc`. With coarse buckets "definition" comes
        out far too high.

    Returns
    -------
    float
        In [0, 1]; nan where no pair could pay. It equals `cs_auc` with the same `ties` when no
        bucket holds two values.

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
