"""Change points: which hours of a campaign still count after a jump, and which are odd.

Bayesian online change-point detection, behind a likelihood-ratio prefilter that spares most
campaigns, with the campaign's own drift rate as what may happen without a jump.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.outliers import (
    SPANS,
    CampaignHours,
    PlatformHours,
    complete_hours,
    outage_hours,
    outlier_hours,
    poisson_evidence,
    span_sums,
)
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

_NEW = 2.0
"""Positives with which a ratio that has jumped is drawn to 1: those of `state_space.JUMP`."""


class RunLengths(NamedTuple):
    """The runs of c campaigns after h hours.

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


def run_lengths(
    expected: Floats, observed: Floats, drift: Floats, jump: float, odd: float, most: int = MOST
) -> RunLengths:
    """The runs that c campaigns may be in after h hours.

    expected, observed: (c, h), positives, as ratios to the campaign's mean; hours without expected
    ones say nothing. A run's ratio has a Gamma posterior, whose variance grows each hour by the
    ordinary drift, (c,). With probability `jump` an hour begins a new run, with probability `odd`
    it says nothing of its run. Of the runs the likeliest are kept, and the newest.

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
        fits = np.log1p(-odd) + negative_binomial(y, e, widened, rates)
        both = np.logaddexp(fits, np.log(odd) + w)
        odds[:, :, hour] = np.exp(np.log(odd) + w - both)
        counted = 1 - odds[:, :, hour]
        sizes, rates = widened + counted * y, rates + counted * e
        logs += np.log1p(-jump) + both
        place = _least(logs, begins, hour)
        logs[rows, place] = before + np.log(jump if hour else 1.0) + w[:, 0]
        begins[rows, place], odds[rows, place] = hour, 0.0
        sizes[rows, place], rates[rows, place] = _BIRTH + y[:, 0], _BIRTH + e[:, 0]
    return RunLengths(begins, np.exp(logs - _log_sum(logs)[:, None]), odds)


def _least(logs: Floats, begins: Integers, hour: int) -> Integers:
    """The place of the least likely run that is not among the newest, (c,)."""
    newest = (begins >= hour - _SPARED) & (begins < hour)
    spared = newest if logs.shape[1] > _SPARED else np.zeros_like(newest)
    place: Integers = np.argmin(np.where(spared, np.inf, logs), axis=1)
    return place


def negative_binomial(y: Floats, e: Floats, size: Floats, rate: Floats) -> Floats:
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
    from scipy.special import gammaln  # An API process never gets here.

    return np.asarray(gammaln(y + size) - gammaln(size))


def _log_sum(logs: Floats) -> Floats:
    """Logarithm of the sum of exponentials along the last axis; one at least is finite."""
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - largest).sum(axis=-1)) + largest[..., 0])


EVIDENCE = 6.0
"""In nats: with less, neither a jump nor an odd hour is more likely than not."""


def likelihood_ratio_prefilter(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    """Whether any span's positives speak against the campaign's mean ratio, (c,), from positives as
    ratios to that mean, (c, h): a generalised likelihood ratio test of Poisson counts, cheap, and
    easily passed."""
    e, y = (np.cumsum(np.pad(a, ((0, 0), (1, 0))), axis=1) for a in (expected, observed))
    most = (poisson_evidence(e, y) + poisson_evidence(e[:, -1:] - e, y[:, -1:] - y)).max(axis=1)
    for span in SPANS:
        spans = poisson_evidence(e[:, span:] - e[:, :-span], y[:, span:] - y[:, :-span])
        most = np.maximum(most, spans.max(axis=1, initial=0.0))
    found: NDArray[np.bool_] = most > EVIDENCE
    return found


STEPS: Floats = np.geomspace(0.01, 0.5, 12)
"""Standard deviations of an hour's step of the log ratio."""

DRIFT_SPANS = (1, 4)
"""Hours that are compared with as many before them: alone, where they scatter; together, where the
ratio goes its way, for a smooth course counts as the steps that it amounts to."""

_USUAL = 0.05
_DOUBT = 0.8
"""The prior of a step: log-normal around the usual one."""

_FREEDOM = 4.0
"""Degrees of freedom of the t density of differences: a few jumps do not make the steps large."""

_FEWEST_EXPECTED = 4.0


def drift_rates(expected: Floats, observed: Floats) -> Floats:
    """The variance of an hour's step of the log ratio, (c,), from positives, (c, h).

    For each of `DRIFT_SPANS` the mode of the posterior over `STEPS`, of which the larger counts.
    """
    usual = -0.5 * (np.log(STEPS / _USUAL) / _DOUBT) ** 2
    places = np.zeros(len(expected), np.int64)
    for span in DRIFT_SPANS:
        fits = _fits(expected, observed, span)
        places = np.maximum(places, np.argmax(usual[:, None] + fits, axis=0))
    return STEPS[places] ** 2


def _fits(expected: Floats, observed: Floats, span: int) -> Floats:
    """Log likelihood of the differences of spans in turn, (steps, c), over their overlap."""
    e, y = span_sums(expected, span), span_sums(observed, span)
    logs, noise = np.log((y + 0.5) / (e + 0.5)), 1 / (e + 0.5)
    between = STEPS[:, None, None] ** 2 * (2 * span**2 + 1) / (3 * span)
    variances = noise[:, span:] + noise[:, :-span] + between
    squares = (logs[:, span:] - logs[:, :-span]) ** 2
    logs_of_t = (_FREEDOM + 1) * np.log1p(squares / (_FREEDOM * variances)) + np.log(variances)
    usable = np.minimum(e[:, span:], e[:, :-span]) >= _FEWEST_EXPECTED
    return np.asarray(-0.5 * np.where(usable, logs_of_t, 0.0).sum(axis=2) / span)


_BLOCK = 512
"""Campaigns that are filtered at once: what is kept of them meanwhile are a few MB."""


_BETWEEN_JUMPS, _BETWEEN_ODD = 720.0, 720.0
"""Hours of a campaign from one jump, which bounds the false alarms, or odd hour to the next."""

_FEWEST = 4.0
"""Positives; campaigns with fewer in all hours keep all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class HourWeights:
    """What each hour of each campaign counts.

    weights : (c, h) in [0, 1], the probability that the hour is neither before the last jump of the
        campaign's ratio nor odd; 0 in an outage, and in an hour that is incomplete (`SHORTEST`).
    begun : (c, h) in (0, 1], the probability that the last jump was no later than the hour; never
        falling.
    jumped : (c,), whether there was a jump, more likely than not.
    odd_hours : (c, h), whether the hour is odd, more likely than not.
    outage : (h,), the hours of a tracking outage of all campaigns.
    set_aside : (c,), whether the newest hour weighs nothing because of bots or an outage.
    """

    weights: Floats
    begun: Floats
    jumped: NDArray[np.bool_]
    odd_hours: NDArray[np.bool_]
    outage: NDArray[np.bool_]
    set_aside: NDArray[np.bool_]


def hour_weights(
    expected: Floats,
    observed: Floats,
    ages: Floats,
    *,
    outage: NDArray[np.bool_] | None = None,
    bursts: NDArray[np.bool_] | None = None,
) -> HourWeights:
    """The weights of c campaigns in h hours, oldest hour first.

    expected, observed: (c, h), finite, >= 0; a constant factor between them does not matter. ages:
    (h,), hours from the middle of each to the moment. outage: (h,), the hours of a tracking outage;
    those that these campaigns show if none are given. bursts: (c, h), those of bots, which say
    nothing, see `burst_hours`. But for these, no campaign depends on another.

    A campaign without a jump is said to have jumped once in `_BETWEEN_JUMPS` hours at most, on
    average, if its ratio drifts as `drift_rates` has it: under no change the sum over past hours
    of the likelihood ratios of a jump then, less the hours, is a martingale, and a jump is more
    likely than not when it exceeds `_BETWEEN_JUMPS` (Pollak, Annals of Statistics 13, 1985).
    """
    if outage is None:
        block = CampaignHours.of(expected, observed)
        outage = outage_hours(PlatformHours.of([block]))
    complete = complete_hours(np.maximum(ages, 0.0))
    if bursts is None:
        bursts = np.zeros(expected.shape, bool)
    columns = (expected[:, complete], observed[:, complete], outage[complete])
    begun, odd = _of_complete(*columns, bursts[:, complete])
    late = ((0, 0), (0, len(outage) - complete.stop))
    weights: Floats = np.pad(np.clip(begun - odd, 0.0, 1.0) * ~outage[complete], late)
    return HourWeights(
        weights,
        begun=np.pad(begun, late, constant_values=1.0),
        jumped=begun.min(axis=1, initial=1.0) < 0.5,
        odd_hours=np.pad(odd > 0.5, late),
        outage=outage,
        set_aside=((bursts | outage) & (weights == 0))[:, -1:].any(axis=1),
    )


def _of_complete(
    expected: Floats, observed: Floats, out: NDArray[np.bool_], bursts: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """`_of_block` of all campaigns, in hours that are complete, `out` those of an outage."""
    e, y = _relative(np.where(out, 0.0, expected), np.where(out, 0.0, observed))
    begun, odd = np.ones(e.shape), np.zeros(e.shape)
    rows = np.flatnonzero((y.sum(axis=1) >= _FEWEST) & likelihood_ratio_prefilter(e, y))
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        begun[some], odd[some] = _of_block(e[some], y[some], bursts[some])
    # What others show of a campaign it need not show itself.
    return begun, np.where(bursts, begun, odd)


def _relative(expected: Floats, observed: Floats) -> tuple[Floats, Floats]:
    """Both without what is observed where nothing is expected, the expected in all hours together
    about as many as the observed."""
    y = np.where(expected > 0, observed, 0.0)
    ratios = (y.sum(axis=1) + 1) / (expected.sum(axis=1) + 1)
    return expected * ratios[:, None], y


def _present_runs(expected: Floats, observed: Floats) -> RunLengths:
    drift = drift_rates(expected, observed)
    return run_lengths(expected, observed, drift, 1 / _BETWEEN_JUMPS, 1 / _BETWEEN_ODD)


def jump_levels(expected: Floats, observed: Floats) -> Floats:
    """The log ratios that jumps make in each hour and now, (n, h + 1), of rows that jump and drift
    as campaigns do: that of the hours since the present run began, and that of those before it.
    What has not jumped has none: its level is for others to find."""
    found = np.zeros((len(expected), expected.shape[1] + 1))
    usual, seen = _relative(expected, observed)
    rows = np.flatnonzero(likelihood_ratio_prefilter(usual, seen))
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        runs = _present_runs(usual[some], seen[some])
        inside = runs.begins[:, :, None] <= np.arange(found.shape[1])
        parts = np.stack((inside, ~inside))[..., :-1] * (1 - runs.odd)
        y, e = (np.einsum("pckh,ch->pck", parts, each[some]) for each in (seen, expected))
        since, before = np.log((y + _NEW) / (e + _NEW))[..., None]
        chances = runs.chances * (runs.begins > 0)
        found[some] = np.einsum("ck,ckh->ch", chances, np.where(inside, since, before))
    return found


def _of_block(
    expected: Floats, observed: Floats, bursts: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The probabilities that an hour is in the present run, and that it is odd too, (c, h) each."""
    outliers = outlier_hours(expected, observed) | bursts
    e, y = _relative(np.where(outliers, 0.0, expected), np.where(outliers, 0.0, observed))
    found = _present_runs(e, y)
    covered = np.clip(found.covered(), np.finfo(float).tiny, 1.0)
    return covered, np.where(outliers, covered, found.odd_hours())
