"""Drift: how far the conversions seen so far are from those expected so far, by campaign.

Ratios are shrunk by an empirical-Bayes Gamma-Poisson model; the campaign's odds are scaled so that
its probabilities reach the ratio.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from pccem.arrays import (
    Floats,
    Rows,
    check_equal_lengths,
    check_flags,
    check_positive,
    check_rows,
    check_unit_interval,
)

SPREADS: Final[Floats] = np.geomspace(0.01, 3.0, 33)
"""Standard deviations, relative to the mean, that the campaigns' ratios may have."""

_TYPICAL_SPREAD: Final = 0.2
_DOUBT: Final = 1.0
PRIOR_COUNT: Final = 10.0
_PRIOR_STEPS: Final = 60
_CLOSE: Final = 1e-14


def shrunk_ratios(seen: Floats, expected: Floats, prior: float = PRIOR_COUNT) -> Floats:
    """The ratio behind each pair of a count and its expectation, shrunk to the ratio of all.

    The model: seen_c ~ Poisson(ratio_c expected_c), ratio_c ~ Gamma with mean m and shape k, hence
    spread 1 / sqrt(k). Given m and k the answer is

        E[ratio_c | seen_c] = m (k + seen_c) / (k + m expected_c).

    m and k come from the data, by the marginal likelihood (negative binomial): for each of a grid
    of spreads, m is its most likely value, and the answers are averaged with the posterior weights
    of the spreads. Weak priors keep this sound for one campaign or two: m leans on 1 like a
    campaign of as many expected and seen as the prior says; the spread is lognormal about 0.2,
    within a factor of e.

    seen : (n,) counts, at least 0.
    expected : (n,) their expectations, at least 0.
    prior : conversions by which m leans on 1, above 0.

    Returns (n,) above 0; m where nothing was expected.

    Source: Robbins (1956), "An empirical Bayes approach to statistics"; Efron and Morris (1973).

    >>> shrunk_ratios(np.array([2000.0, 3.0, 0.0]), np.array([1000.0, 1.0, 0.0])).round(1)
    array([2. , 1.8, 1.7])
    """
    shapes = SPREADS[:, None] ** -2.0
    informed = expected > 0.0
    means = _likeliest_means(seen[informed], expected[informed], shapes, prior)
    weights = _weights(seen[informed], expected[informed], shapes, means, prior)
    counted = np.where(informed, seen, 0.0)
    ratios = means * (shapes + counted) / (shapes + means * expected)
    mixed: Floats = weights @ ratios
    return mixed


def _likeliest_means(seen: Floats, expected: Floats, shapes: Floats, prior: float) -> Floats:
    """The mode of m under each shape, (n_shapes, 1), to 14 digits: sum w (seen - m expected) = 0
    with weights w = k / (k + m expected), the prior's pseudo-counts among the sums."""
    means = np.zeros_like(shapes)
    for _ in range(_PRIOR_STEPS):
        # The sum falls in m and is convex, so Newton's method rises from 0 to the root and never
        # passes it: far from the root m doubles, near it the digits do.
        totals = shapes + means * expected
        terms = shapes * (seen - means * expected) / totals
        slopes = shapes * expected * (shapes + seen) / totals**2
        excess = prior * (1.0 - means) + terms.sum(axis=1, keepdims=True)
        steps = excess / (prior + slopes.sum(axis=1, keepdims=True))
        means += steps
        if (np.abs(steps) <= _CLOSE * means).all():
            break
    return means


def _weights(seen: Floats, expected: Floats, shapes: Floats, means: Floats, prior: float) -> Floats:
    """Posterior weights of the shapes, (n_shapes,), summing to 1."""
    total = shapes + means * expected
    evidence = gammaln(shapes + seen) - gammaln(shapes)
    evidence += shapes * np.log(shapes / total) + seen * np.log(means / total)
    log_means = np.log(means[:, 0])
    log_prior = prior * (log_means - means[:, 0])
    log_prior -= 0.5 * (np.log(SPREADS / _TYPICAL_SPREAD) / _DOUBT) ** 2
    log_weights = evidence.sum(axis=1) + log_prior
    weights: Floats = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights


_LARGEST_LOG: Final = 10.0
_FARTHEST: Final = 2.0
_TOLERANCE: Final = 1e-11
_ODDS_STEPS: Final = 100


def scale_odds(p: Floats, factors: Floats) -> Floats:
    """Probabilities whose odds p / (1 - p) are multiplied by the factors, (n,) in [0, 1]."""
    scaled = p * factors
    return scaled / (1.0 - p + scaled)


def odds_factors(p: Floats, ratios: Floats, rows: Rows) -> Floats:
    """The factor of each campaign's odds that brings its sum of p to ratio * sum p.

    The factor lies between the ratio, where all p are small, and its square, where the search
    stops: a campaign of a few clicks that are likely to convert would need far more, or more
    conversions than it has clicks. Newton's method in log-odds for all campaigns at once, inside a
    bracket that closes: the sum increases with the factor.

    p : (n,) in [0, 1].
    ratios : (n_campaigns,) above 0.
    rows : (n,) each click's campaign.

    Returns (n_campaigns,) above 0.
    """
    sums = _Sums(p, rows, len(ratios))
    logs = np.clip(np.log(ratios), -_LARGEST_LOG, _LARGEST_LOG)
    wanted = np.exp(logs) * sums.of(np.ones(len(ratios)))[0]
    ends = _FARTHEST * logs
    beyond = np.sign(logs) * (sums.of(np.exp(ends))[0] - wanted) < 0.0
    low, high = np.minimum(logs, ends), np.maximum(logs, ends)
    for _ in range(_ODDS_STEPS):
        reached, slopes = sums.of(np.exp(logs))
        excess = reached - wanted
        low, high = np.where(excess <= 0.0, logs, low), np.where(excess >= 0.0, logs, high)
        following = _next(logs, excess, slopes, low, high)
        near = (np.abs(following - logs) <= _TOLERANCE) | (np.abs(excess) <= _TOLERANCE * wanted)
        logs = np.where(beyond, ends, following)
        if (near | beyond).all():
            break
    factors: Floats = np.exp(logs)
    return factors


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    p: Floats
    rows: Rows
    n_campaigns: int

    def of(self, factors: Floats) -> tuple[Floats, Floats]:
        """Sum of the scaled probabilities by campaign, and its slope in log-odds."""
        scaled = scale_odds(self.p, factors[self.rows])
        return self._by_campaign(scaled), self._by_campaign(scaled * (1.0 - scaled))

    def _by_campaign(self, values: Floats) -> Floats:
        sums = np.bincount(self.rows, values, self.n_campaigns)
        return sums.astype(np.float64, copy=False)


def _next(logs: Floats, excess: Floats, slopes: Floats, low: Floats, high: Floats) -> Floats:
    """The next guess: Newton's, or the middle of the bracket where that leaves it."""
    step = np.divide(excess, slopes, out=np.zeros_like(logs), where=slopes > 0.0)
    guess = logs - step
    middle: Floats = 0.5 * (low + high)
    return np.where((guess >= low) & (guess <= high), guess, middle)


def drift_ratios(
    p: ArrayLike,
    converted: ArrayLike,
    seen_share: ArrayLike,
    rows: ArrayLike,
    n_campaigns: int,
    *,
    prior: float = PRIOR_COUNT,
    share_error: float = 0.0,
) -> Floats:
    """Conversions seen over those expected to have been seen, sum p F, of every campaign.

    By empirical Bayes (`pccem.conversion_drift`): a campaign with few expected conversions leans on
    the ratio of all, and that, weakly, on 1. 1.2 means that conversions come a fifth more often
    than the probabilities predict.

    p : (n,) probabilities of a conversion inside the attribution window, in [0, 1].
    converted : (n,) booleans, whether a conversion has been seen.
    seen_share : (n,) share of conversions that have come by the click's age, in [0, 1].
    rows : (n,) integers, each click's campaign in [0, n_campaigns).
    n_campaigns : number of campaigns.
    prior : conversions by which the ratio of all leans on 1.
    share_error : by how much a campaign's shares may be off, all alike, as a part of what they
        leave to come; from 0 up.

    Returns (n_campaigns,) above 0; the overall ratio for a campaign without clicks.

    Raises ValueError when a value breaks its rule or the columns differ in length.

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
    off = share_error * np.bincount(campaigns, probabilities * (1.0 - share), n_campaigns)
    # As if of so few that chance alone differed as much as they do with the error.
    known = np.divide(expected, expected + off**2, out=np.zeros(n_campaigns), where=expected > 0.0)
    return shrunk_ratios(known * seen, known * expected, prior)


def corrected(p: ArrayLike, ratios: ArrayLike, rows: ArrayLike) -> Floats:
    """Probabilities that sum to the ratio times their sum in every campaign, inside [0, 1].

    A campaign's odds are all multiplied by one factor, so p' = c p / (1 - p + c p): order is kept,
    0 and 1 stay, and no probability needs to be cut off. The factor c is not the ratio itself
    (that is its limit for small p) but the one with sum p' = ratio * sum p: a shift of log-odds,
    which is what a drift of intent is, would otherwise be undone only in part where p is large.
    It goes no farther than ratio^2, see `pccem.conversion_drift`.

    p : (n,) probabilities in [0, 1].
    ratios : (n_campaigns,) above 0, as `drift_ratios` gives them.
    rows : (n,) integers, each click's campaign in [0, n_campaigns).

    Returns (n,) in [0, 1].

    Raises ValueError when a value breaks its rule or the columns differ in length.

    >>> corrected([0.02, 0.2, 0.5], [1.2], [0, 0, 0]).round(3)
    array([0.027, 0.257, 0.58 ])
    """
    probabilities = check_unit_interval("p", p)
    factors = check_positive("ratios", ratios)
    campaigns = check_rows("rows", rows, 0, len(factors))
    check_equal_lengths(p=len(probabilities), rows=len(campaigns))
    odds = odds_factors(probabilities, factors, campaigns)
    return scale_odds(probabilities, odds[campaigns])
