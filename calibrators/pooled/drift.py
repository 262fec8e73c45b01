"""Drift: which hours of a campaign still speak for it after a jump, and which are odd."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.pooled.campaign_hours import CampaignHours, check_ages, complete_hours
from calibrators.pooled.implausible_hours import implausible_hours
from calibrators.pooled.ordinary_drift import drift_variances
from calibrators.pooled.outages import SaidByHour, outage_hours
from calibrators.pooled.runs import runs_of
from calibrators.pooled.suspicion import suspicious
from calibrators.samples import Floats

_BLOCK = 512
"""Campaigns that are filtered at once: what is kept of them meanwhile are a few MB."""


@dataclass(frozen=True, slots=True)
class DriftRules:
    """How often things happen; nothing that depends on the traffic.

    Attributes
    ----------
    between_jumps, between_odd : hours, of one campaign, from one jump or odd hour to the next. The
        first bounds the false alarms: see `hour_weights`.
    fewest : positives; campaigns with fewer in all hours keep all of them.
    """

    between_jumps: float = 720.0
    between_odd: float = 720.0
    fewest: float = 4.0


USUAL = DriftRules()


@dataclass(frozen=True, slots=True, eq=False)
class HourWeights:
    """What each hour of each campaign counts.

    Attributes
    ----------
    weights : (c, h) in [0, 1], the probability that the hour is neither before the last jump of the
        campaign's ratio nor odd; 0 in an outage, and in an hour that is incomplete (`SHORTEST`).
    begun : (c, h) in (0, 1], the probability that the last jump was no later than the hour; never
        falling.
    jumped : (c,), whether there was a jump, more likely than not.
    odd_hours : (c, h), whether the hour is odd, more likely than not.
    outage : (h,), the hours of a tracking outage of all campaigns.
    """

    weights: Floats
    begun: Floats
    jumped: NDArray[np.bool_]
    odd_hours: NDArray[np.bool_]
    outage: NDArray[np.bool_]


def hour_weights(
    expected: ArrayLike,
    observed: ArrayLike,
    ages: ArrayLike,
    rules: DriftRules = USUAL,
    *,
    outage: ArrayLike | None = None,
) -> HourWeights:
    """The weights of c campaigns in h hours, oldest hour first.

    expected, observed: (c, h), finite, >= 0; a constant factor between them does not matter. ages:
    (h,), hours from the middle of each to the moment. outage: (h,), the hours of a tracking outage;
    those that these campaigns show if none are given. But for these, each campaign is judged for
    itself. Raises ValueError on anything else.

    A campaign without a jump is said to have jumped once in `between_jumps` hours at most, on
    average, if its ratio moves as `drift_variances` says: under no change the sum over past hours
    of the likelihood ratios of a jump then, less the hours, is a martingale, and a jump is more
    likely than not when it exceeds `between_jumps` (Pollak, Annals of Statistics 13, 1985).
    """
    seen = CampaignHours.checked(expected, observed)
    complete = complete_hours(check_ages(ages, seen.expected.shape[1]))
    gone = _outage(seen) if outage is None else np.asarray(outage, bool)
    found = _complete(seen.chosen(complete), gone[complete], rules)
    late = ((0, 0), (0, len(gone) - complete.stop))
    weights: Floats = np.pad(found.weights, late)
    begun: Floats = np.pad(found.begun, late, constant_values=1.0)
    odd: NDArray[np.bool_] = np.pad(found.odd_hours, late)
    return HourWeights(weights, begun, found.jumped, odd, gone)


def _complete(seen: CampaignHours, out: NDArray[np.bool_], rules: DriftRules) -> HourWeights:
    e, y = _relative(np.where(out, 0.0, seen.expected), np.where(out, 0.0, seen.observed))
    begun, odd = np.ones(e.shape), np.zeros(e.shape)
    rows = np.flatnonzero((y.sum(axis=1) >= rules.fewest) & suspicious(e, y))
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        begun[some], odd[some] = _of_block(e[some], y[some], rules)
    jumped = begun.min(axis=1, initial=1.0) < 0.5
    weights = np.clip(begun - odd, 0.0, 1.0) * ~out
    return HourWeights(weights, begun, jumped, odd > 0.5, out)


def _outage(seen: CampaignHours) -> NDArray[np.bool_]:
    return outage_hours(SaidByHour.of([seen], seen.expected.shape[1]))


def _relative(expected: Floats, observed: Floats) -> tuple[Floats, Floats]:
    """Both without what is observed where nothing is expected, the expected in all hours together
    about as many as the observed."""
    y = np.where(expected > 0, observed, 0.0)
    ratios = (y.sum(axis=1) + 1) / (expected.sum(axis=1) + 1)
    return expected * ratios[:, None], y


def _of_block(expected: Floats, observed: Floats, rules: DriftRules) -> tuple[Floats, Floats]:
    """The probabilities that an hour is in the present run, and that it is odd too, (c, h) each."""
    implausible = implausible_hours(expected, observed)
    e, y = _relative(np.where(implausible, 0.0, expected), np.where(implausible, 0.0, observed))
    drift = drift_variances(e, y)
    found = runs_of(e, y, drift, 1 / rules.between_jumps, 1 / rules.between_odd)
    covered = np.clip(found.covered(), np.finfo(float).tiny, 1.0)
    return covered, np.where(implausible, covered, found.odd_hours())
