"""A synthetic platform of clicks with behaviours, whose conversions come days late."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from scipy.special import expit, logit, ndtr, ndtri

from calibrators.samples import Floats, check_rules
from evaluation.backtest.click_history import ClickStream
from evaluation.backtest.event_table import SECONDS_PER_HOUR, Rows
from evaluation.simulation.parts import (
    SPREAD,
    START,
    arrivals,
    campaign_names,
    day_cycle,
    swings,
    times_in,
    zipf_shares,
)
from pccem import Categorical, Clicks, Column, Features

POST_CLICK_SECONDS = 3600.0
Drawn = Mapping[str, Floats]

_DEVICES = ("desktop", "phone", "tablet")
_DEVICE_SHARES = (0.35, 0.55, 0.10)
_DEVICE_APPEAL = np.array([1.1, -0.75, 0.275])
"""Mean 0 and variance about .75 over the shares."""

_PAST_RATE = 0.8
_UNKNOWN_SHARE = 0.2
_UNTRACKED_SHARE = 0.1
_INTENT_OF_SIGNAL = 0.5
"""How much of what draws a user to click also shows in what they do afterwards."""


@dataclass(frozen=True, slots=True, eq=False)
class Visitors:
    """n users at the moment of their click.

    `signal`, (n,), standard normal or nearly so, is all that a score can know; `features` are the
    part of it that the click event carries.
    """

    signal: Floats
    features: Mapping[str, Column]


def draw_visitors(n: int, rng: np.random.Generator) -> Visitors:
    """n users: device, purchases of the past (unknown for a fifth) and price tell some of it."""
    devices = rng.choice(len(_DEVICES), n, p=_DEVICE_SHARES).astype(np.int32)
    past = rng.poisson(_PAST_RATE, n).astype(np.float64)
    price = rng.normal(0.0, 1.0, n)
    standing = (past - _PAST_RATE) / np.sqrt(_PAST_RATE)
    known_part = 0.4 * _DEVICE_APPEAL[devices] + 0.4 * standing - 0.3 * price
    signal = known_part + 0.78 * rng.normal(0.0, 1.0, n)
    known = np.where(rng.random(n) < _UNKNOWN_SHARE, np.nan, past)
    features: dict[str, Column] = {
        "feature.device": Categorical(devices, _DEVICES),
        "feature.past_purchases": known,
        "feature.price": np.exp(3.0 + 0.8 * price),
    }
    return Visitors(signal, features)


def draw_behaviours(
    signal: Floats, revealed: Floats, delay: Floats, rng: np.random.Generator, strength: float = 1.0
) -> dict[str, Column]:
    """The paper's five behaviours of the first hour, (n,) each, driven by intent.

    Intent = .5 signal + revealed, times the strength. A count of 0 is missing: no such event ever
    came. A tenth of the users cannot be tracked and miss all but purchases, which the shop itself
    reports: the conversions of the hour, and a few orders of something else.
    """
    n = len(signal)
    intent = strength * (_INTENT_OF_SIGNAL * signal + revealed)
    tracked = rng.random(n) >= _UNTRACKED_SHARE
    seconds = np.exp(4.0 + 0.5 * intent + 0.8 * rng.normal(0.0, 1.0, n))
    converted = np.asarray(delay < POST_CLICK_SECONDS, np.int64)
    return {
        "behaviour.session_seconds": _seen(np.minimum(seconds, POST_CLICK_SECONDS), tracked),
        "behaviour.page_views": _seen(1 + _count(0.3 + 0.5 * intent, rng), tracked),
        "behaviour.add_to_cart": _seen(_count(-2.2 + 0.8 * intent, rng), tracked),
        "behaviour.favorites": _seen(_count(-3.0 + 0.6 * intent, rng), tracked),
        "behaviour.purchases": _seen(converted + _count(-5.5 + 0.5 * intent, rng)),
    }


def _count(log_rate: Floats, rng: np.random.Generator) -> Floats:
    return rng.poisson(np.exp(log_rate)).astype(np.float64)


def _seen(values: Floats, tracked: np.ndarray | bool = True) -> Floats:
    return np.where((values > 0) & tracked, values, np.nan)


ATTRIBUTION_SECONDS = 7 * 86_400.0

_REVEALED = 1.2
"""Log-odds that one standard deviation of what only behaviours reveal is worth."""

_OVERESTIMATE, _OVERESTIMATE_SPREAD = np.log(5.0), 0.3

_LOG_DELAY, _LOG_DELAY_SPREAD = 7.785, 3.758
"""Of log hours: of the delays under 7 days, 8 % are then under 1 h and 17 % over 100 h."""


@dataclass(frozen=True, slots=True, eq=False)
class ClickHour:
    """Clicks, and the probability with which each conversion was drawn, shape (n,).

    That probability knows each user's intent, so it is better than any function of the score.
    """

    stream: ClickStream
    truth: Floats


@dataclass(frozen=True)
class ClickPlatform:
    """Campaigns whose conversion scores predict several times too much, each in its own way.

    With s the standard normal signal that the score knows, and e what only behaviours reveal,

        score = expit(level + over + .8 s),   over about log 5,
        truth = expit(level' + slope .8 s + 1.2 e + closing),   e normal around the hour's intent.

    Two things drift, by campaign. *Intent*, the mean of e: a swing of .1 in log-odds over the day
    and of .35 over 8 to 20 days. The score does not see it, behaviours do: it makes a map of last
    week stale. *Closing*, how readily the same intent buys (season, stock, price): .05 for all
    campaigns together and .05 for each, over 10 to 20 days. Nothing but conversions shows it: it
    puts a post-click model that learnt a week ago off by some 10 %.

    Delays are log-normal, cut at 7 days: 8 % of the conversions come within the hour, 17 % after
    100 hours (paper 004, figure 3); a campaign's may be some 20 % longer or shorter. Traffic is
    1 / k for campaign k, with a daily cycle. What users are like and do is in
    `draw_visitors` and `draw_behaviours`.

    Every hour is drawn from (seed, hour) alone: the same in any order, process or subset.

    campaigns : how many, at least 1; the first has the most traffic.
    clicks_per_hour : expected at an average hour, above 0.
    cvr : conversion rate of a typical campaign, between 0 and 1.
    seed : at least 0.
    drift : size of the swings; 0 keeps everything as it is at hour 0.
    start : epoch seconds at which hour 0 begins, a whole hour.
    behaviour : how strongly intent shows in what users do after the click, at least 0.

    >>> stream = ClickPlatform(campaigns=3, clicks_per_hour=1_000, seed=1).hour(5).stream
    >>> stream.clicks.campaigns, len(stream.delay) == len(stream)
    (('campaign-1', 'campaign-2', 'campaign-3'), True)
    """

    campaigns: int = 8
    clicks_per_hour: float = 2_400
    cvr: float = 0.03
    seed: int = 0
    drift: float = 1.0
    start: float = START
    behaviour: float = 1.0

    def __post_init__(self) -> None:
        check_rules(
            self,
            campaigns=(self.campaigns >= 1, "at least 1"),
            clicks_per_hour=(0 < self.clicks_per_hour < np.inf, "above 0, finite"),
            cvr=(0 < self.cvr < 1, "between 0 and 1"),
            seed=(self.seed >= 0, "at least 0"),
            drift=(0 <= self.drift < np.inf, "at least 0, finite"),
            start=(self.start % SECONDS_PER_HOUR == 0, "a whole hour in epoch seconds"),
            behaviour=(0 <= self.behaviour < np.inf, "at least 0, finite"),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names, padded so that they sort by number."""
        return campaign_names(self.campaigns)

    def hour(self, hour: int) -> ClickHour:
        """The clicks of one hour, hour 0 being the first; ordered by time."""
        if hour < 0:
            raise ValueError(f"hour = {hour}: must be at least 0")
        rng = np.random.default_rng((self.seed, 3, hour))
        rows = arrivals(self._profiles.share * day_cycle(hour) * self.clicks_per_hour, rng)
        times = times_in(self.start, hour, len(rows), rng)
        return self._draw(hour, rows, times, rng)

    def hours(self, first: int, behind: int) -> ClickHour:
        """The clicks of the hours [first, behind) as one stream."""
        parts = [self.hour(hour) for hour in range(first, behind)]
        stream = ClickStream.concatenate([part.stream for part in parts])
        return ClickHour(stream, np.concatenate([np.empty(0), *(part.truth for part in parts)]))

    def _draw(self, hour: int, rows: Rows, times: Floats, rng: np.random.Generator) -> ClickHour:
        profiles, n = self._profiles, len(rows)
        visitors = draw_visitors(n, rng)
        revealed = profiles.intent(hour, self.drift)[rows] + rng.normal(0.0, 1.0, n)
        closing, drawn = self._closing(hour, rows, rng)
        truth = profiles.truth(rows, visitors.signal, revealed, closing)
        converts = rng.random(n) < truth
        delay = np.where(converts, self._delays(hour, rows, times, drawn, rng), np.nan)
        behaviours = draw_behaviours(visitors.signal, revealed, delay, rng, self.behaviour)
        columns: dict[str, Column] = {**visitors.features, **behaviours, **drawn}
        features, scores = Features(columns, n), profiles.scores(rows, visitors.signal)
        return ClickHour(
            ClickStream(Clicks(times, self.names, rows, scores, features), delay), truth
        )

    def _closing(self, hour: int, rows: Rows, rng: Generator) -> tuple[Floats, Drawn]:
        """What an hour's clicks add to the log-odds of a conversion, (n,); and columns of features
        that come with it."""
        return self._profiles.closing(hour, self.drift)[rows], {}

    def _delays(self, hour: int, rows: Rows, times: Floats, drawn: Drawn, rng: Generator) -> Floats:
        """Seconds to each conversion, (n,), given those columns; nan where it does not count."""
        return self._profiles.delays(rows, rng)

    @cached_property
    def _profiles(self) -> "_Profiles":
        rng = np.random.default_rng((self.seed, 2))
        return _Profiles(self.campaigns, float(logit(self.cvr)), rng)


class _Profiles:
    """What distinguishes the campaigns, shape (campaigns,) each; swings have a period in hours and
    a phase, shape (swings, campaigns)."""

    def __init__(self, campaigns: int, level: float, rng: np.random.Generator) -> None:
        """Draws campaigns whose true conversion rates lie around `level` in log-odds."""
        slow = rng.uniform(192.0, 480.0, campaigns)
        season = np.full(campaigns, rng.uniform(240.0, 480.0))
        season_phase = np.full(campaigns, rng.uniform(0.0, 2.0 * np.pi))
        self.share = zipf_shares(campaigns)
        self.level = level + rng.normal(0.0, 0.4, campaigns)
        self.over = rng.normal(_OVERESTIMATE, _OVERESTIMATE_SPREAD, campaigns)
        self.slope = 0.9 * np.exp(rng.normal(0.0, 0.15, campaigns))
        self.log_delay = rng.normal(_LOG_DELAY, 0.2, campaigns)
        self.intent_periods = np.stack((np.full(campaigns, 24.0), slow))
        self.intent_phases = rng.uniform(0.0, 2.0 * np.pi, (2, campaigns))
        self.closing_periods = np.stack((season, rng.uniform(240.0, 480.0, campaigns)))
        closing_phase = rng.uniform(0.0, 2.0 * np.pi, campaigns)
        self.closing_phases = np.stack((season_phase, closing_phase))

    def intent(self, hour: int, drift: float) -> Floats:
        """Mean of what behaviours reveal, in standard deviations of it."""
        moved = swings(self.intent_periods, self.intent_phases, hour)
        return np.asarray(drift * (0.1 * moved[0] + 0.35 * moved[1]) / _REVEALED)

    def closing(self, hour: int, drift: float) -> Floats:
        """By how much the same intent converts more or less than at hour 0, in log-odds."""
        moved = swings(self.closing_periods, self.closing_phases, hour)
        return np.asarray(drift * 0.05 * (moved[0] + moved[1]))

    def scores(self, rows: Rows, signal: Floats) -> Floats:
        """What the upstream model predicts."""
        centre = self.level + self.over - SPREAD**2 / 2.0
        return np.asarray(expit(centre[rows] + SPREAD * signal))

    def truth(self, rows: Rows, signal: Floats, revealed: Floats, closing: Floats) -> Floats:
        """The probability of a conversion, given all that there is to know."""
        strength = SPREAD * self.slope
        centre = self.level - (strength**2 + _REVEALED**2) / 2.0
        return np.asarray(
            expit(centre[rows] + strength[rows] * signal + _REVEALED * revealed + closing)
        )

    def delays(self, rows: Rows, rng: np.random.Generator) -> Floats:
        """Seconds from click to conversion, under 7 days, (n,)."""
        mean = self.log_delay[rows]
        behind = ndtr((np.log(ATTRIBUTION_SECONDS / SECONDS_PER_HOUR) - mean) / _LOG_DELAY_SPREAD)
        # From 1 down, never 0, which would be no delay at all.
        chance = 1.0 - rng.random(len(rows))
        hours = np.exp(mean + _LOG_DELAY_SPREAD * ndtri(chance * behind))
        return np.asarray(np.minimum(hours * SECONDS_PER_HOUR, ATTRIBUTION_SECONDS - 1.0))
