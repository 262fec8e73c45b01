"""csAUC: AUC in money, the revenue that a ranking by probability times bid makes of all pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats
from evaluation.priced_predictions import PricedPredictions
from evaluation.revenue_pairs import RevenuePairs, Ties, check_ties


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
    y : (n,) outcomes, 0 or 1.
    bids : (n,) money for a click, finite, at least 0; also of samples without a click.
    ties : what a pair of equal scores pays. "definition": the higher worth, as published.
        "half": the mean of both, what a random order pays; as in AUC. "worst": the lower.
        Where scores are coarse or quantised, choose "half": under "definition" a model that says
        0 for everything has csAUC 1. `cs_auc_parts` says how much lies in ties. Scores are
        compared as computed: products that are equal on paper may differ in their last bit.
    normalized : give (csAUC - worst) / (1 - worst) instead, in which 0 is the worst order.
    sample_weight : (n,) finite, at least 0; a pair counts the product of its weights.

    Returns
    -------
    float
        In [worst, 1], where worst > 0 as soon as two positives have different bids; nan where no
        pair could pay.

    Raises
    ------
    ValueError
        When the columns differ in length, a value breaks its rule or `ties` is another word.

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
