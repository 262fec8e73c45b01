"""A synthetic ad platform: traffic whose true probabilities are known."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logit

from calibrators.fields.columns import FieldColumns
from calibrators.fields.sums import FieldColumn
from calibrators.samples import Floats, check_rules
from evaluation.backtest.event_table import SECONDS_PER_HOUR, EventTable, Rows
from evaluation.simulation.parts import (
    SPREAD,
    START,
    Field,
    arrivals,
    campaign_names,
    day_cycle,
    outcomes_of,
    swings,
    times_in,
    value_codes,
    value_shares,
    zipf_shares,
)

_LATE_SHARE, _LATEST_START = 0.15, 48
_FIELD_VALUES, _FIELD_EFFECT = 6, 0.3


@dataclass(frozen=True, slots=True, eq=False)
class PlatformHour:
    """Impressions, and the probability with which each outcome was drawn, shape (n,)."""

    events: EventTable
    truth: Floats


@dataclass(frozen=True)
class Platform:
    """Campaigns with Zipf traffic whose scores are wrong, each in its own drifting way.

    In log-odds, with c the centre of a campaign's scores z,

        true(z) = c + shift + slope (z - c) - bend softplus((z - c) / spread - 1):

    a level, an over- or under-confident slope, and a curve that flattens the top (ads win because
    their score was too high). Shift and slope swing with the day and over several days. The map
    always increases, so the ranking inside a campaign is never wrong. 15 % of the campaigns start
    up to two days late; traffic has a daily cycle. Each of the `fields` has six values, which
    campaigns mix in their own ways; what they add to the true log-odds has a standard deviation of
    0.3 and a mean of 0, and the scores know nothing of it.

    Every hour is drawn from (seed, hour) alone: the same in any order, process or subset.

    campaigns : how many, at least 1; the first has the most traffic.
    impressions_per_hour : expected at an average hour when all campaigns run, above 0.
    ctr : click rate of a typical campaign, between 0 and 1; they differ by a factor of two or so.
    seed : at least 0.
    drift : size of the swings; 0 keeps every miscalibration as it is at hour 0.
    start : epoch seconds at which hour 0 begins, a whole hour.
    fields : names of fields, such as device, each once.

    >>> hour = Platform(campaigns=3, impressions_per_hour=1_000, seed=1).hour(5)
    >>> hour.events.campaigns, len(hour.truth) == len(hour.events)
    (('campaign-1', 'campaign-2', 'campaign-3'), True)
    """

    campaigns: int = 20
    impressions_per_hour: float = 20_000
    ctr: float = 0.02
    seed: int = 0
    drift: float = 1.0
    start: float = START
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rules(
            self,
            campaigns=(self.campaigns >= 1, "at least 1"),
            impressions_per_hour=(0 < self.impressions_per_hour < np.inf, "above 0, finite"),
            ctr=(0 < self.ctr < 1, "between 0 and 1"),
            seed=(self.seed >= 0, "at least 0"),
            drift=(0 <= self.drift < np.inf, "at least 0, finite"),
            start=(self.start % SECONDS_PER_HOUR == 0, "a whole hour in epoch seconds"),
            fields=(len(set(self.fields)) == len(self.fields), "names, each once"),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names, padded so that they sort by number."""
        return campaign_names(self.campaigns)

    def hour(self, hour: int) -> PlatformHour:
        """The impressions of one hour, hour 0 being the first; ordered by time."""
        if hour < 0:
            raise ValueError(f"hour = {hour}: must be at least 0")
        rng = np.random.default_rng((self.seed, 1, hour))
        rows = arrivals(self._profiles.traffic(hour) * self.impressions_per_hour, rng)
        scores, truth = self._profiles.scores_and_truth(rows, hour, self.drift, rng)
        fields, truth = self._with_fields(rows, hour, truth)
        times = times_in(self.start, hour, len(rows), rng)
        outcomes = outcomes_of(truth, rng)
        events = EventTable(times, self.names, rows, scores, outcomes, fields=fields)
        return PlatformHour(events, truth)

    def hours(self, first: int, behind: int) -> PlatformHour:
        """The impressions of the hours [first, behind) as one table."""
        parts = [self.hour(hour) for hour in range(first, behind)]
        events = EventTable.concatenate([part.events for part in parts])
        return PlatformHour(events, np.concatenate([np.empty(0), *(part.truth for part in parts)]))

    def _with_fields(
        self, rows: Rows, hour: int, truth: Floats
    ) -> tuple[FieldColumns | None, Floats]:
        """Fields of the impressions of an hour, and the truth that they make of this one."""
        if not self.fields:
            return None, truth
        rng = np.random.default_rng((self.seed, 5, hour))
        columns, odds = {}, logit(truth)
        for field, mix, effects in self._fields:
            codes = value_codes(mix, rows, rng)
            columns[field.name] = FieldColumn(field.value_names, codes)
            odds = odds + effects[codes]
        return columns, expit(odds)

    @cached_property
    def _fields(self) -> list[tuple[Field, Floats, Floats]]:
        """Each with the log-shares of its values by campaign, (c, v), and their effects, (v,)."""
        rng = np.random.default_rng((self.seed, 4))
        fields = [Field(name, _FIELD_VALUES, _FIELD_EFFECT) for name in self.fields]
        mixes = [field.mix(self.campaigns, rng) for field in fields]
        return [
            (field, mix, field.effects(value_shares(mix), rng))
            for field, mix in zip(fields, mixes, strict=True)
        ]

    @cached_property
    def _profiles(self) -> "_Profiles":
        rng = np.random.default_rng((self.seed, 0))
        return _Profiles(self.campaigns, float(logit(self.ctr)), rng)


class _Profiles:
    """What distinguishes the campaigns, shape (campaigns,) each; swings have shape (2, campaigns):
    by the day, and over several days."""

    def __init__(self, campaigns: int, level: float, rng: np.random.Generator) -> None:
        """Draws campaigns whose true click rates lie around `level` in log-odds."""
        late = rng.random(campaigns) < _LATE_SHARE
        late[0] = False
        self.shift = rng.normal(0.2, 0.5, campaigns)
        self.slope = 0.85 * np.exp(rng.normal(0.0, 0.2, campaigns))
        spread_out = (self.slope * SPREAD) ** 2 / 2.0
        self.share = zipf_shares(campaigns)
        self.starts = np.where(late, rng.integers(1, _LATEST_START + 1, campaigns), 0)
        self.centre = level + rng.normal(0.0, 0.4, campaigns) - self.shift - spread_out
        self.bend = np.abs(rng.normal(0.0, 0.2, campaigns))
        self.periods = np.stack((np.full(campaigns, 24.0), rng.uniform(50.0, 200.0, campaigns)))
        self.shift_phases = rng.uniform(0.0, 2.0 * np.pi, (2, campaigns))
        self.slope_phases = rng.uniform(0.0, 2.0 * np.pi, (2, campaigns))

    def traffic(self, hour: int) -> Floats:
        """Share of an average hour's impressions that each campaign has in this one."""
        return np.where(hour >= self.starts, self.share * day_cycle(hour), 0.0)

    def scores_and_truth(
        self, rows: Rows, hour: int, drift: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Scores of impressions of the campaigns `rows`, and their true probabilities."""
        deviation = rng.normal(0.0, SPREAD, len(rows))
        shift = self.shift + 0.25 * drift * self._swing(self.shift_phases, hour)
        slope = self.slope * np.exp(0.1 * drift * self._swing(self.slope_phases, hour))
        bend = np.minimum(self.bend, 0.8 * slope * SPREAD)[rows]
        curve = bend * np.logaddexp(0.0, deviation / SPREAD - 1.0)
        centre = self.centre[rows]
        truth = expit(centre + shift[rows] + slope[rows] * deviation - curve)
        return expit(centre + deviation), truth

    def _swing(self, phases: Floats, hour: int) -> Floats:
        """How far each campaign has swung from where it was at hour 0, shape (campaigns,)."""
        return np.asarray(swings(self.periods, phases, hour).sum(axis=0))
