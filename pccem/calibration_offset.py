"""The log-odds that make a model's probabilities add up to what was observed."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pccem.arrays import Floats


def log_odds_offset(log_odds: Floats, outcomes: Floats) -> float:
    """The offset c at which the probabilities of log-odds + c add up to the outcomes' sum.

    Parameters
    ----------
    log_odds : (n,) of the model, finite.
    outcomes : (n,) 0 or 1, both there.

    Notes
    -----
    It minimises the log loss among all offsets. The sum rises with c, and the root lies between
    the offsets that bring the largest and the smallest log-odds to the observed rate.

    References
    ----------
    Papers 000 and 003, section 3: the calibrated log loss, sum q = sum y.

    Examples
    --------
    >>> round(log_odds_offset(np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])), 4)
    -1.0986
    """
    total = float(outcomes.sum())
    if not 0.0 < total < len(outcomes):
        raise ValueError(f"outcomes add up to {total} of {len(outcomes)}: must have both kinds")
    observed = float(logit(total / len(outcomes)))
    # Wider by a hair, so that rounding cannot put both ends on one side of the root.
    low, high = observed - log_odds.max() - 1e-6, observed - log_odds.min() + 1e-6
    return float(brentq(lambda offset: expit(log_odds + offset).sum() - total, low, high))


def log_loss(log_odds: Floats, outcomes: Floats) -> float:
    """Mean of -ln(probability of what happened), from log-odds, without clipping; ValueError
    without an outcome.

    >>> round(log_loss(np.array([0.0, 800.0]), np.array([1.0, 1.0])), 4)
    0.3466
    """
    if not len(outcomes):
        raise ValueError("outcomes: there are none, so they have no mean")
    return float(np.mean(np.logaddexp(0.0, log_odds) - outcomes * log_odds))


def deviation(probabilities: Floats, outcomes: Floats) -> float:
    """How many standard errors the outcomes' sum lies above that of the probabilities.

    >>> round(deviation(np.full(100, 0.5), np.ones(100)), 4)
    10.0
    """
    error = math.sqrt(float(np.sum(probabilities * (1.0 - probabilities))))
    excess = float(outcomes.sum() - probabilities.sum())
    return excess / error if error > 0.0 else math.copysign(math.inf, excess) if excess else 0.0
