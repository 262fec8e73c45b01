"""Drift: how far the conversions seen so far are from those expected so far, by campaign."""

import numpy as np
from numpy.typing import ArrayLike

from pccem.arrays import (
    Floats,
    check_equal_lengths,
    check_flags,
    check_positive,
    check_rows,
    check_unit_interval,
)
from pccem.gamma_poisson import shrunk_ratios
from pccem.odds import odds_factors, scale_odds


def drift_ratios(
    p: ArrayLike, converted: ArrayLike, seen_share: ArrayLike, rows: ArrayLike, n_campaigns: int
) -> Floats:
    """Conversions seen over those expected to have been seen, sum p F, of every campaign.

    By empirical Bayes (`pccem.gamma_poisson`): a campaign with few expected conversions leans on
    the ratio of all, and that, weakly, on 1. 1.2 means that conversions come a fifth more often
    than the probabilities promise.

    Parameters
    ----------
    p : (n,) probabilities of a conversion inside the attribution window, in [0, 1].
    converted : (n,) booleans, whether a conversion has been seen.
    seen_share : (n,) share of conversions that have come by the click's age, in [0, 1].
    rows : (n,) integers, each click's campaign in [0, n_campaigns).
    n_campaigns : number of campaigns.

    Returns
    -------
    Floats
        (n_campaigns,) above 0; the overall ratio for a campaign without clicks.

    Raises
    ------
    ValueError
        When a value breaks its rule or the columns differ in length.

    Examples
    --------
    One campaign sees half as many conversions again as it should. The other, with a single click,
    has to lean on it and on 1.

    >>> p, seen = np.full(1_001, 0.2), np.arange(1_001) < 150
    >>> rows = np.array([0] * 1_000 + [1])
    >>> drift_ratios(p, seen, np.full(1_001, 0.5), rows, 2).round(1)
    array([1.5, 1.3])
    """
    probabilities = check_unit_interval("p", p)
    flags = check_flags("converted", converted)
    share = check_unit_interval("seen_share", seen_share)
    campaigns = check_rows("rows", rows, 0, n_campaigns)
    check_equal_lengths(
        p=len(probabilities), converted=len(flags), seen_share=len(share), rows=len(campaigns)
    )
    seen = np.bincount(campaigns[flags], minlength=n_campaigns).astype(np.float64)
    expected = np.bincount(campaigns, probabilities * share, n_campaigns)
    return shrunk_ratios(seen, expected.astype(np.float64, copy=False))


def corrected(p: ArrayLike, ratios: ArrayLike, rows: ArrayLike) -> Floats:
    """Probabilities that sum to the ratio times their sum in every campaign, inside [0, 1].

    A campaign's odds are all multiplied by one factor, so p' = c p / (1 - p + c p): order is kept,
    0 and 1 stay, and no probability needs to be cut off. The factor c is not the ratio itself
    (that is its limit for small p) but the one with sum p' = ratio * sum p: a shift of log-odds,
    which is what a drift of intent is, would otherwise be undone only in part where p is large.
    It goes no farther than ratio^2, see `pccem.odds`.

    Parameters
    ----------
    p : (n,) probabilities in [0, 1].
    ratios : (n_campaigns,) above 0, as `drift_ratios` gives them.
    rows : (n,) integers, each click's campaign in [0, n_campaigns).

    Returns
    -------
    Floats
        (n,) in [0, 1].

    Raises
    ------
    ValueError
        When a value breaks its rule or the columns differ in length.

    Examples
    --------
    >>> corrected([0.02, 0.2, 0.5], [1.2], [0, 0, 0]).round(3)
    array([0.027, 0.257, 0.58 ])
    """
    probabilities = check_unit_interval("p", p)
    factors = check_positive("ratios", ratios)
    campaigns = check_rows("rows", rows, 0, len(factors))
    check_equal_lengths(p=len(probabilities), rows=len(campaigns))
    odds = odds_factors(probabilities, factors, campaigns)
    return scale_odds(probabilities, odds[campaigns])
