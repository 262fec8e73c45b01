"""Since when a campaign's ratio has been what it is: Bayesian online change-point detection."""

from typing import NamedTuple

import numpy as np

from calibrators.samples import Floats, Integers

MOST = 12
"""Runs of a campaign that are kept in mind."""

_SPARED = 3
"""The newest of them, which have had no time to show what they are worth."""

_WIDE: Floats = np.exp(np.arange(-4.0, 5.01, 0.9))
"""Ratios, against the campaign's mean, that a new run or an odd hour may have."""

_WIDE_SIZE = 4.0
"""The size of the negative binomial around each of them: they overlap."""

_BIRTH = 0.5
"""What a run knows before its first hour, in positives (Jeffreys)."""


class Runs(NamedTuple):
    """The runs of c campaigns after h hours.

    Attributes
    ----------
    begins : (c, k), the hour in which each began; h where there are fewer than k.
    chances : (c, k), the probability that it is the present one; their sum is 1.
    odd : (c, k, h), the probability that an hour of it is odd, if it is the present one.
    """

    begins: Integers
    chances: Floats
    odd: Floats

    def covered(self) -> Floats:
        """The probability that an hour is in the present run, (c, h)."""
        hours = np.arange(self.odd.shape[2])
        inside = (self.begins[:, :, None] <= hours).astype(np.float64)
        return np.asarray(np.einsum("ck,ckh->ch", self.chances, inside))

    def odd_hours(self) -> Floats:
        """The probability that an hour is in the present run and odd, (c, h)."""
        return np.asarray(np.einsum("ck,ckh->ch", self.chances, self.odd))


def runs_of(
    expected: Floats, observed: Floats, drift: Floats, jump: float, odd: float, most: int = MOST
) -> Runs:
    """The runs that c campaigns may be in after h hours.

    expected, observed: (c, h), positives, as ratios to the campaign's mean; hours without expected
    ones tell nothing. A run's ratio has a Gamma posterior, whose variance grows each hour by the
    ordinary drift, (c,). With probability `jump` an hour begins a new run, with probability `odd`
    it tells nothing of its run. Of the runs the likeliest are kept, and the newest.

    Source: Adams and MacKay, Bayesian online changepoint detection, arXiv:0710.3742; in each run
    the Poisson-Gamma model with a random walk of Smith (JRSS B 41, 1979); the pruning is that of
    Fearnhead and Liu (JRSS B 69, 2007), without their resampling. Raises ValueError without an
    hour.
    """
    rows, hours = np.arange(len(expected)), expected.shape[1]
    if not hours:
        raise ValueError("expected: has no hours, runs need one at least")
    logs = np.full((len(expected), min(most, hours)), -np.inf)
    begins = np.full(logs.shape, hours)
    sizes, rates = np.full((2, *logs.shape), _BIRTH)
    odds = np.zeros((*logs.shape, hours))
    wide = _wide(expected, observed)
    for hour in range(hours):
        y, e, w = (array[:, hour, None] for array in (observed, expected, wide))
        before = _log_sum(logs) if hour else np.zeros(len(rows))
        widened = 1 / (1 / sizes + drift[:, None])
        rates *= widened / sizes
        fits = np.log1p(-odd) + _negative_binomial(y, e, widened, rates)
        both = np.logaddexp(fits, np.log(odd) + w)
        odds[:, :, hour] = np.exp(np.log(odd) + w - both)
        told = 1 - odds[:, :, hour]
        sizes, rates = widened + told * y, rates + told * e
        logs += np.log1p(-jump) + both
        place = _least(logs, begins, hour)
        logs[rows, place] = before + np.log(jump if hour else 1.0) + w[:, 0]
        begins[rows, place], odds[rows, place] = hour, 0.0
        sizes[rows, place], rates[rows, place] = _BIRTH + y[:, 0], _BIRTH + e[:, 0]
    return Runs(begins, np.exp(logs - _log_sum(logs)[:, None]), odds)


def _least(logs: Floats, begins: Integers, hour: int) -> Integers:
    """The place of the least likely run that is not among the newest, (c,)."""
    newest = (begins >= hour - _SPARED) & (begins < hour)
    spared = newest if logs.shape[1] > _SPARED else np.zeros_like(newest)
    place: Integers = np.argmin(np.where(spared, np.inf, logs), axis=1)
    return place


def _negative_binomial(y: Floats, e: Floats, size: Floats, rate: Floats) -> Floats:
    """Log probability of y positives without its y!, for a rate of Gamma(size, rate)."""
    total = rate + e
    logs: Floats = _rising(y, size) + size * np.log(rate / total)
    return np.asarray(logs + y * np.log(np.maximum(e, 1e-300) / total))


def _wide(expected: Floats, observed: Floats) -> Floats:
    """Log probability of the positives, without their y!, where the ratio may be anything."""
    means = np.maximum(expected, 1e-300)[..., None] * _WIDE
    shares = means / (means + _WIDE_SIZE)
    fits = _WIDE_SIZE * np.log1p(-shares) + observed[..., None] * np.log(shares)
    found: Floats = _rising(observed, np.array(_WIDE_SIZE)) + _log_sum(fits)
    return np.asarray(found - np.log(len(_WIDE)))


def _rising(y: Floats, size: Floats) -> Floats:
    """Logarithm of gamma(y + size) / gamma(size)."""
    from scipy.special import gammaln  # An API process never gets here: see scipy_functions.

    found: Floats = gammaln(y + size) - gammaln(size)
    return found


def _log_sum(logs: Floats) -> Floats:
    """Logarithm of the sum of exponentials along the last axis; one at least is finite."""
    largest = logs.max(axis=-1, keepdims=True)
    total: Floats = np.log(np.exp(logs - largest).sum(axis=-1)) + largest[..., 0]
    return total
