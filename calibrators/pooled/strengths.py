"""How strongly a level is drawn to the level above it: chosen by how well it would have predicted.

A level of half-life H and strength k says of an hour that it has the ratio

    (k + sum of w Y) / (k + sum of w E),    w = 2 ** -(hours since / H),

over the hours before it: the posterior mean of a Poisson rate with a Gamma(k, k) prior whose past
is discounted (Smith, JRSS B 41, 1979; Harvey and Fernandes, J. Business and Economic Statistics 7,
1989). Each k of a fixed grid predicts every hour from those before it (Dawid's prequential
principle, JRSS A 147, 1984). What it gains in Poisson log likelihood over no shift at all is the
log loss that a served map would have saved, and it adds over hours, campaigns and blocks of them.
"""

import numpy as np

from calibrators.samples import Floats

STRENGTHS: Floats = np.append(np.inf, 2.0 ** np.arange(14, -2, -1))
"""In positives, the strongest first, so that it wins where all are equal: it allows no shift."""


def past_weights(ages: Floats, starts: Floats, half_life: float) -> Floats:
    """What hour s counts in a prediction of hour t that is made when t begins, (h, h) by s and t:
    0 unless s is past then."""
    since = ages[:, None] - starts[None, :]
    return np.where(since >= 0, np.exp2(-np.maximum(since, 0.0) / half_life), 0.0)


def near_weights(ages: Floats, half_life: float) -> Floats:
    """What hour s counts in hindsight at hour t, (h, h)."""
    return np.exp2(-np.abs(ages[:, None] - ages[None, :]) / half_life)


def ratio(observed: Floats, expected: Floats, strength: float, bound: float) -> Floats:
    """(k + observed) / (k + expected), between exp(-bound) and exp(bound)."""
    if not np.isfinite(strength):
        return np.ones_like(observed)
    found = (strength + observed) / (strength + expected)
    return np.clip(found, np.exp(-bound), np.exp(bound))


def gains(
    observed: Floats, expected: Floats, past_observed: Floats, past_expected: Floats, bound: float
) -> Floats:
    """The Poisson log likelihood of any number of cells that each strength gains, (k,): all four
    arrays are of one shape, the past ones discounted sums."""
    seen = (observed > 0) | (expected > 0)
    y, e, past_y, past_e = (a[seen] for a in (observed, expected, past_observed, past_expected))
    ratios = (ratio(past_y, past_e, strength, bound) for strength in STRENGTHS.tolist())
    return np.array([float(y @ np.log(r) - e @ (r - 1)) for r in ratios])
