"""Labels: what clicks count as, before their attribution window is over, in a refit.

The service's worker and the offline backtest both call `label`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from pccem.arrays import (
    Flags,
    Floats,
    Index,
    Rows,
    check_equal_lengths,
    check_finite,
    check_flags,
    check_rows,
    check_unit_interval,
)
from pccem.attribution import Attribution
from pccem.calendar import HOUR
from pccem.conversion_drift import PRIOR_COUNT, corrected, drift_ratios
from pccem.delays import DelayDistribution
from pccem.pace import Cohorts, ConversionPace

Mode = Literal["posterior", "paper"]

# Conversions' worth of belief in the rate of all clicks that older ones have told.
_RATE_KNOWN: Final = 400.0
# Of a campaign's share of conversions that has come by now, as a part of what is to come.
_SHARE_ERROR: Final = 0.05
# Conversions that a silence must miss to be their feed's, and per one due before: a calendar errs.
_SILENCE: Final = 20.0
_UNSURE: Final = 0.1


def expected_conversions(
    p: ArrayLike,
    converted: ArrayLike,
    seen_share: ArrayLike | None = None,
    *,
    mode: Mode = "posterior",
) -> Floats:
    """The outcome that each click is expected to end with.

    `paper`: the model's probability p, whatever has been seen. `posterior`: a conversion that has
    been seen is 1; a click that has not converted after the time in which a share F of all
    conversions comes is, by Bayes' rule,

        P(converts later | not yet) = p (1 - F) / (1 - p F),

    which falls from p at F = 0 to 0 at F = 1. This holds the delay to be independent of p among
    clicks that convert.

    p : (n,) probabilities of a conversion inside the attribution window, in [0, 1].
    converted : (n,) booleans, whether a conversion has been seen.
    seen_share : (n,) share of conversions that have come by the click's age, in [0, 1]; only mode
        "posterior" reads it, and needs it.
    mode : "posterior" or "paper".

    Returns (n,) in [0, 1].

    Raises ValueError when a value breaks its rule, the columns differ in length, or the share is
    missing.

    Source: Deng et al. (paper 004), Algorithm 2 for `paper`; `posterior` is ours.

    >>> expected_conversions([0.5, 0.5, 0.5], [True, False, False], [0.5, 0.5, 1.0]).round(4)
    array([1.    , 0.3333, 0.    ])
    >>> expected_conversions([0.5, 0.5], [True, False], mode="paper")
    array([0.5, 0.5])
    """
    probabilities = check_unit_interval("p", p)
    seen = check_flags("converted", converted)
    check_equal_lengths(p=len(probabilities), converted=len(seen))
    if mode == "paper":
        return probabilities.copy()
    if mode != "posterior":
        raise ValueError(f"mode = {mode!r}: must be 'posterior' or 'paper'")
    if seen_share is None:
        raise ValueError("seen_share = None: mode 'posterior' needs it")
    share = check_unit_interval("seen_share", seen_share)
    check_equal_lengths(p=len(probabilities), seen_share=len(share))
    return np.where(seen, 1.0, _still_to_come(probabilities, share))


def _still_to_come(p: Floats, share: Floats) -> Floats:
    unseen = 1.0 - p * share
    # Sure to convert and out of time: 0 / 0. What was seen, nothing, wins over what was predicted.
    still: Floats = np.divide(p * (1.0 - share), unseen, out=np.zeros_like(p), where=unseen > 0.0)
    return np.minimum(still, 1.0, out=still)


@dataclass(frozen=True, slots=True)
class LabelRules:
    """How clicks are labelled before their attribution window is over.

    mode : see `expected_conversions`.
    drift_correction : whether the conversions seen so far correct the probabilities first.
    post_click : seconds after its click in which a conversion is decided before the probabilities
        are asked for: they are those of a later one, of a click that has none yet, as a model of
        `TrainingRules` with the same `post_click` gives them. 0 for probabilities that know nothing
        of what follows the click, such as scores.
    """

    mode: Mode = "posterior"
    drift_correction: bool = True
    post_click: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode = {self.mode!r}: must be one of {get_args(Mode)}")
        if not self.post_click >= 0.0:
            raise ValueError(f"post_click = {self.post_click}: must be at least 0 seconds")


def label(
    p: ArrayLike,
    attribution: Attribution,
    delays: DelayDistribution | None,
    rows: ArrayLike,
    campaigns: Sequence[str],
    rules: LabelRules,
    clicked_at: ArrayLike | None = None,
) -> Floats:
    """Expected conversions of n clicks with everything known at the moment of the attribution.

    A click that converted within the post-click window of the rules counts 1. Of the others, the
    probabilities are first corrected by the drift ratios, when the rules say so, then turned into
    expected conversions. Without a delay distribution nobody knows how many conversions should
    have been seen by now: mode "paper" then goes without a correction.

    The share of conversions seen by age t is that of those which come after the post-click window
    w, (F(t) - F(w)) / (1 - F(w)). With F(t) itself the conversions of the window would count twice:
    the probabilities, which know of them, have them already.

    p : (n,) probabilities of a conversion inside the attribution window, in [0, 1]; those of
        clicks that converted within the post-click window mean nothing.
    attribution : what is known of the n clicks.
    delays : the delay distribution for the same attribution window; None only in mode "paper".
    rows : (n,) integers, each click's index into `campaigns`.
    campaigns : names of the campaigns.
    rules : mode, correction and post-click window.
    clicked_at : (n,) epoch seconds. With them the calendar of the delays is heeded, and the
        correction knows the pace of the conversions (`pccem.pace`); without them a click's age is
        all that counts, and conversions that come faster are taken for more.

    Returns (n,) in [0, 1].

    Raises ValueError when mode "posterior" has no delay distribution, the windows differ, a value
    breaks its rule, or the columns differ in length.

    Source: Deng et al. (paper 004), section 3.3 and Algorithm 2; drift and posterior are ours.
    """
    clicks = _Labelled.of(p, attribution, delays, rows, campaigns, rules, clicked_at)
    if delays is not None and rules.mode == "posterior":
        clicks = clicks.before_silence(delays)
    probabilities, share = clicks.p, clicks.share
    # In a week's batch are clicks of a week: their rate is not that of a day's. Scores need it.
    weekly = delays is not None and delays.calendar is not None and delays.calendar.weekly
    if delays is not None and rules.drift_correction and not (weekly and rules.post_click):
        prior, error = PRIOR_COUNT, 0.0
        if (moved := clicks.at_their_pace(delays)) is not None:
            (probabilities, share), prior, error = moved, _RATE_KNOWN, _SHARE_ERROR
        assert share is not None
        columns = probabilities, clicks.converted, share, rows
        ratios = drift_ratios(*columns, len(campaigns), prior=prior, share_error=error)
        probabilities = corrected(probabilities, ratios, rows)
    labels = expected_conversions(probabilities, clicks.converted, share, mode=rules.mode)
    return np.where(clicks.decided, 1.0, labels)


def conversions_due(
    p: ArrayLike,
    attribution: Attribution,
    delays: DelayDistribution,
    rows: ArrayLike,
    campaigns: Sequence[str],
    rules: LabelRules,
    clicked_at: ArrayLike | None = None,
) -> float:
    """Conversions that uncorrected probabilities let expect to have been seen by the moment.

    Those of the post-click window, and the sum of p F over the other clicks; see `label` for the
    parameters and the errors.
    """
    clicks = _Labelled.of(p, attribution, delays, rows, campaigns, rules, clicked_at)
    assert clicks.share is not None
    return float(np.count_nonzero(clicks.decided) + clicks.p @ clicks.share)


@dataclass(frozen=True, slots=True, eq=False)
class _Labelled:
    """n clicks as the probabilities see them.

    `decided` are the conversions of the post-click window: they have p = 0 and no conversion of the
    others' kind, so they weigh nothing in any sum. `share` is None without a delay distribution.
    `paused` are clicks as of a pause of the conversions that has ended.
    """

    p: Floats
    decided: Flags
    converted: Flags
    share: Floats | None
    attribution: Attribution
    clicked_at: Floats | None
    rows: Rows
    campaigns: Sequence[str]
    post_click: float
    paused: bool = False

    @classmethod
    def of(
        cls,
        p: ArrayLike,
        attribution: Attribution,
        delays: DelayDistribution | None,
        rows: ArrayLike,
        campaigns: Sequence[str],
        rules: LabelRules,
        clicked_at: ArrayLike | None,
    ) -> Self:
        probabilities = check_unit_interval("p", p)
        check_equal_lengths(p=len(probabilities), attribution=len(attribution))
        times = None if clicked_at is None else check_finite("clicked_at", clicked_at)
        if times is not None:
            check_equal_lengths(p=len(probabilities), clicked_at=len(times))
        decided = attribution.delay < rules.post_click
        clicks = cls(
            np.where(decided, 0.0, probabilities),
            decided,
            attribution.converted & ~decided,
            None,
            attribution,
            times,
            check_rows("rows", rows, 0, len(campaigns)),
            campaigns,
            rules.post_click,
        )
        share = None if delays is None else np.maximum(clicks._share(delays, None), 0.0)
        return replace(clicks, share=share)

    def before_silence(self, delays: DelayDistribution) -> Self:
        """As of the hour in which the longest pause of their conversions began, which may have
        ended, if more were due in it than chance misses and have not come since."""
        known, clicked_at = self.attribution, self.clicked_at
        if self.share is None or clicked_at is None or not len(clicked_at):
            return self
        at, now = clicked_at + known.delay, float((clicked_at + known.age).max())
        came = np.sort(np.concatenate(([clicked_at.min(), now], at[known.converted])))
        longest = int(np.diff(came).argmax())
        last, behind = np.ceil(came[longest] / HOUR) * HOUR, came[longest + 1]
        then, end = (self._as_of(moment, clicked_at) for moment in (last, behind))
        share, by_end = (each._share(delays, None) for each in (then, end))
        due, until = (float(np.maximum(each, 0.0) @ self.p) for each in (share, by_end))
        rate = (1.0 + np.count_nonzero(then.converted)) / (1.0 + due)
        missed, since = rate * (until - due), rate * (float(self.share @ self.p) - until)
        come = np.count_nonzero(self.converted & (at >= behind)) - since
        # A rate that has fallen makes fewer due, and so does a calendar that is sharper than known.
        if missed <= max(_SILENCE, 2.0 * come, _UNSURE * (rate * due + since)):
            return self
        # Nothing is known of a click whose post-click window was in it: Bayes' rule, backwards.
        p = _still_to_come(self.p, np.where(clicked_at < behind, np.minimum(share, 0.0), 0.0))
        return replace(then, p=p, share=np.maximum(share, 0.0), paused=bool(behind < now))

    def _as_of(self, moment: float, clicked_at: Floats) -> Self:
        """What was known at an earlier moment, but for the shares."""
        known = self.attribution
        seen, age = clicked_at + known.delay <= moment, np.minimum(known.age, moment - clicked_at)
        known = replace(known, age=age, delay=np.where(seen, known.delay, np.nan))
        return replace(self, converted=self.converted & seen, attribution=known)

    def at_their_pace(self, delays: DelayDistribution) -> tuple[Floats, Floats] | None:
        """Probabilities at the rate, and shares at the pace, of the clicks' cohorts; None where
        nothing tells."""
        if self.clicked_at is None or self.decided.all():
            return None
        known, post_click = self.attribution, self.post_click
        times = (self.clicked_at, known.age, known.delay)
        live = Cohorts.of(self.p, *times, window=known.window, post_click=post_click)
        parts = [live]
        # Of a training since the pause began they would lack what came late.
        older = None if self.paused else delays.cohorts
        if older is not None and older.post_click == post_click:
            parts.insert(0, older.before(int(live.numbers[0])))
        pace = ConversionPace(Cohorts.concatenate(parts), delays.curve(), len(live))
        places = live.places(self.clicked_at)
        share = np.maximum(self._share(delays, (pace, places)), 0.0)
        return corrected(self.p, pace.rates, places), share

    def _share(self, delays: DelayDistribution, pace: tuple[ConversionPace, Rows] | None) -> Floats:
        """Share of the conversions after the post-click window that have come by each age."""
        if delays.window != self.attribution.window:
            raise ValueError(
                f"delays.window = {delays.window}: must equal attribution.window ="
                f" {self.attribution.window}"
            )
        if pace is None:
            return self._of_moments(delays, slice(None))
        share, (found, places) = np.empty(len(self.p)), pace
        for place, weights in enumerate(found.weights):
            chosen = np.flatnonzero(places == place)
            share[chosen] = self._of_moments(delays.at_paces(weights), chosen)
        return share

    def _of_moments(self, delays: DelayDistribution, chosen: Index) -> Floats:
        """The share of some of the clicks, each with the calendar of its hour."""
        age, rows = self.attribution.age[chosen], self.rows[chosen]
        if self.clicked_at is None or delays.calendar is None:
            each, n = np.arange(len(self.campaigns)), len(self.campaigns)
            within = delays.share(np.full(n, self.post_click or -1.0), each, self.campaigns)[rows]
            share = delays.share(age, rows, self.campaigns)
        else:
            share, within = self._by_calendar(delays, self.clicked_at[chosen], age, rows)
        # Where everything comes within the window, nothing is left to come.
        left = 1.0 - within
        return np.divide(share - within, left, out=np.ones_like(share), where=left > 0.0)

    def _by_calendar(
        self, delays: DelayDistribution, clicked_at: Floats, age: Floats, rows: Rows
    ) -> Floats:
        """Shares of all conversions by each age and by the end of the post-click window, (2, n)."""
        curve, levels = delays.curve(), delays.levels(self.campaigns)[rows]
        hours, shares = np.floor(clicked_at / HOUR), np.empty((2, len(age)))
        for hour in np.unique(hours):
            at = np.flatnonzero(hours == hour)
            # One age for all: the moment of knowing, which may be that of a batch, is one.
            ages = np.array((age[at].mean(), self.post_click))
            shares[:, at] = curve.by(delays.shares, clicked_at[at].mean(), ages)[levels[at]].T
        return shares
