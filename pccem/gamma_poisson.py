"""Gamma-Poisson shrinkage: ratios of counts to their expectations, many of them sparse."""

from typing import Final

import numpy as np
from scipy.special import gammaln

from pccem.arrays import Floats

SPREADS: Final[Floats] = np.geomspace(0.01, 3.0, 33)
"""Standard deviations, relative to the mean, that the campaigns' ratios may have."""

_TYPICAL_SPREAD: Final = 0.2
_DOUBT: Final = 1.0
_PRIOR_COUNT: Final = 10.0
_STEPS: Final = 60
_CLOSE: Final = 1e-14


def shrunk_ratios(seen: Floats, expected: Floats) -> Floats:
    """The ratio behind each pair of a count and its expectation, shrunk to the ratio of all.

    The model: seen_c ~ Poisson(ratio_c expected_c), ratio_c ~ Gamma with mean m and shape k, hence
    spread 1 / sqrt(k). Given m and k the answer is

        E[ratio_c | seen_c] = m (k + seen_c) / (k + m expected_c).

    m and k come from the data, by the marginal likelihood (negative binomial): for each of a grid
    of spreads, m is its most likely value, and the answers are averaged with the posterior weights
    of the spreads. Weak priors keep this sound for one campaign or two: m leans on 1 like a
    campaign of 10 expected and 10 seen; the spread is lognormal about 0.2, within a factor of e.

    Parameters
    ----------
    seen : (n,) counts, at least 0.
    expected : (n,) their expectations, at least 0.

    Returns
    -------
    Floats
        (n,) above 0; m where nothing was expected.

    References
    ----------
    Robbins (1956), "An empirical Bayes approach to statistics"; Efron and Morris (1973).

    Examples
    --------
    >>> shrunk_ratios(np.array([2000.0, 3.0, 0.0]), np.array([1000.0, 1.0, 0.0])).round(1)
    array([2. , 1.8, 1.7])
    """
    shapes = SPREADS[:, None] ** -2.0
    informed = expected > 0.0
    means = _likeliest_means(seen[informed], expected[informed], shapes)
    weights = _weights(seen[informed], expected[informed], shapes, means)
    counted = np.where(informed, seen, 0.0)
    ratios = means * (shapes + counted) / (shapes + means * expected)
    mixed: Floats = weights @ ratios
    return mixed


def _likeliest_means(seen: Floats, expected: Floats, shapes: Floats) -> Floats:
    """The mode of m under each shape, (n_shapes, 1), to 14 digits: sum w (seen - m expected) = 0
    with weights w = k / (k + m expected), the prior's pseudo-counts among the sums."""
    means = np.zeros_like(shapes)
    for _ in range(_STEPS):
        # The sum falls in m and is convex, so Newton's method rises from 0 to the root and never
        # passes it: far from the root m doubles, near it the digits do.
        totals = shapes + means * expected
        terms = shapes * (seen - means * expected) / totals
        slopes = shapes * expected * (shapes + seen) / totals**2
        excess = _PRIOR_COUNT * (1.0 - means) + terms.sum(axis=1, keepdims=True)
        steps = excess / (_PRIOR_COUNT + slopes.sum(axis=1, keepdims=True))
        means += steps
        if (np.abs(steps) <= _CLOSE * means).all():
            break
    return means


def _weights(seen: Floats, expected: Floats, shapes: Floats, means: Floats) -> Floats:
    """Posterior weights of the shapes, (n_shapes,), summing to 1."""
    total = shapes + means * expected
    evidence = gammaln(shapes + seen) - gammaln(shapes)
    evidence += shapes * np.log(shapes / total) + seen * np.log(means / total)
    log_means = np.log(means[:, 0])
    prior = _PRIOR_COUNT * (log_means - means[:, 0])
    prior -= 0.5 * (np.log(SPREADS / _TYPICAL_SPREAD) / _DOUBT) ** 2
    log_weights = evidence.sum(axis=1) + prior
    weights: Floats = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return weights
