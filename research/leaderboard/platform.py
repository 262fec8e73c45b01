"""Synthetic traffic with known true probabilities: the regimes on which methods are compared.

Scores are wrong in log-odds by campaign (`Curves`, `Stairs`), and levels move from hour to hour
(`Paths`): drift, daily cycle, jumps. New models may replace the one that scores (`Push`). Each of
the REGIMES says how much of it there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import EventTable, Rows
from evaluation.simulation.ad_platform import PlatformHour
from evaluation.simulation.parts import (
    SPREAD,
    START,
    arrivals,
    campaign_names,
    day_cycle,
    outcomes_of,
    times_in,
    zipf_shares,
)

_TOP, _BEND_WIDTH = 1.0, 0.5
_WAVES = 2.2
_FLATTEST, _STEEPEST = -0.35, 0.6
_HIGHEST_WAVE = 0.12
_RUNGS = 6
_RUNG_SLOPES = (0.0, 0.0, 0.4, 1.0, 2.5)


@dataclass(frozen=True, slots=True)
class Distortions:
    """How far scores are from the truth, in log-odds; 0 of each: scores are true.

    level : standard deviation of the campaigns' levels; a tenth of it is everyone's.
    slope : standard deviation of the campaigns' slopes around 1.
    wave : standard deviation of the heights of the campaigns' smooth waves, .12 at most.
    bend : slope lost at the top, where ads win because their score was too high.
    rungs : whether each campaign's curve is a staircase of its own instead: steps, kinks, plateaus.
    common_rungs : whether everyone's curve is such a staircase, over the scores of all campaigns.
    few : how many distinct scores there are, each with an error of its own; 0: any.
    families : slope that half of the campaigns have too little and half too much, over the scores
        of all campaigns.
    drift : height of the campaigns' slow swings.
    walk : standard deviation of an hour's step of everyone's random walk.
    day : height of everyone's daily swing.
    own_day : height of each campaign's own daily swing, whose phase is its own.
    jumps : expected jumps of a campaign's level, in hours 24 to 120.
    jump : standard deviation of such a jump.
    global_jump : size of everyone's jump, between hours 56 and 80.
    pushes : new models, in the order in which they come.
    """

    level: float = 0.0
    slope: float = 0.0
    wave: float = 0.0
    bend: float = 0.0
    rungs: bool = False
    common_rungs: bool = False
    few: int = 0
    families: float = 0.0
    drift: float = 0.0
    walk: float = 0.0
    day: float = 0.0
    own_day: float = 0.0
    jumps: float = 0.0
    jump: float = 0.0
    global_jump: float = 0.0
    pushes: tuple["Push", ...] = ()

    @property
    def stairs(self) -> bool:
        """Whether there are staircases."""
        return self.rungs or self.common_rungs

    def jump_chance(self, hour: int) -> float:
        """That a jump comes in this hour, of each of the `MOST_JUMPS` that has not come before."""
        if not _FIRST_JUMP <= hour < _LAST_JUMP:
            return 0.0
        each = self.jumps / MOST_JUMPS
        return each / (_LAST_JUMP - _FIRST_JUMP - each * (hour - _FIRST_JUMP))


@dataclass(frozen=True, slots=True)
class Push:
    """A new model, whose scores are another function of what the first model's are, in log-odds:

        level + slope z - bend softplus + the campaign's own level,    z from everyone's centre.

    hour : when the first impression is scored by it; lasts : hours until the last is scored by the
    model before; level, slope, bend, own : as above, own being a standard deviation.
    """

    hour: float
    lasts: float = 0.0
    level: float = 0.6
    slope: float = 0.75
    bend: float = 0.25
    own: float = 0.25

    def scored(self, log_odds: Floats, own: Floats) -> Floats:
        """Its log-odds of impressions, (n,), from the first model's, as seen from everyone's
        centre, and from levels of their campaigns, standard normal."""
        bent = self.bend * _BEND_WIDTH * np.logaddexp(0.0, log_odds / _BEND_WIDTH)
        return np.asarray(self.level + self.slope * log_odds - bent + self.own * own)

    def share(self, hours: Floats) -> Floats:
        """Of the impressions of each moment, in hours, how many it scores."""
        return np.clip((hours - self.hour) / max(self.lasts, 1e-9), 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The campaigns' distortions that stay: levels, slopes and wave heights and phases, (c,) each,
    their staircases, if any, one or one each, the slopes of their families, and the few scores
    with their errors, (2, f). Each curve plus the score itself never falls."""

    rules: Distortions
    levels: Floats
    slopes: Floats
    heights: Floats
    phases: Floats
    stairs: "Stairs | None"
    families: Floats
    few: Floats

    @classmethod
    def draw(cls, campaigns: int, rules: Distortions, rng: np.random.Generator) -> Self:
        """Curves of that many campaigns."""
        everyone = rng.choice((-0.1, 0.1)) * rules.level
        return cls(
            rules,
            everyone + rng.normal(0.0, rules.level, campaigns),
            np.clip(rng.normal(0.0, rules.slope, campaigns), _FLATTEST, _STEEPEST),
            np.clip(rng.normal(0.0, rules.wave, campaigns), -_HIGHEST_WAVE, _HIGHEST_WAVE),
            rng.uniform(0.0, 2.0 * np.pi, campaigns),
            Stairs.draw(campaigns if rules.rungs else 1, rng) if rules.stairs else None,
            rules.families * rng.choice((-1.0, 1.0), campaigns),
            _few_scores(rules.few, rng),
        )

    def snapped(self, centres: Floats, deviations: Floats) -> Floats:
        """The deviations, (n,), of the nearest of the few scores, if these are few."""
        if not self.rules.few:
            return deviations
        snapped: Floats = self.few[0][self._nearest(centres + deviations)] - centres
        return snapped

    def _nearest(self, scores: Floats) -> Integers:
        values = self.few[0]
        found: Integers = np.searchsorted((values[1:] + values[:-1]) / 2, scores)
        return found

    def at(self, rows: Integers, centres: Floats, deviations: Floats) -> Floats:
        """What the truth has more than the score, (n,), of scores that are `deviations` from their
        campaign's centre, itself `centres` from everyone's."""
        curved = self.levels[rows] + self._shape(rows, centres, deviations)
        if self.rules.bend:
            above = (centres + deviations - _TOP) / _BEND_WIDTH
            curved -= self.rules.bend * _BEND_WIDTH * np.logaddexp(0.0, above)
        if self.rules.few:
            curved += self.few[1][self._nearest(centres + deviations)]
        return curved + self.families[rows] * (centres + deviations)

    def _shape(self, rows: Integers, centres: Floats, deviations: Floats) -> Floats:
        if self.rules.common_rungs and self.stairs is not None:
            scores = centres + deviations
            return self.stairs.at(np.zeros_like(rows), scores) - scores
        if self.stairs is not None:
            return self.stairs.at(rows, deviations) - deviations
        waves = self.heights[rows] * np.sin(_WAVES * deviations + self.phases[rows])
        return self.slopes[rows] * deviations + waves


_FEW_SPREAD, _FEW_ERROR = 0.95, 0.3


def _few_scores(count: int, rng: np.random.Generator) -> Floats:
    """Distinct scores by their distance from everyone's centre, and their errors, (2, count)."""
    values = _FEW_SPREAD * ndtri((np.arange(count) + 0.5) / max(count, 1))
    return np.stack((values, np.sort(values + rng.normal(0.0, _FEW_ERROR, count)) - values))


@dataclass(frozen=True, slots=True, eq=False)
class Stairs:
    """Staircases that never fall: where each rung begins, (c, r), its height there and its slope,
    (c, r + 1) each; left of the first rung the height counts from it."""

    begins: Floats
    heights: Floats
    slopes: Floats

    @classmethod
    def draw(cls, campaigns: int, rng: np.random.Generator) -> Self:
        """Half of the rungs begin with a step up; two of five are level."""
        begins = np.sort(rng.uniform(-2.0, 2.0, (campaigns, _RUNGS)) * SPREAD, axis=1)
        slopes = rng.choice(_RUNG_SLOPES, (campaigns, _RUNGS + 1))
        steps = rng.uniform(0.2, 0.8, begins.shape) * (rng.random(begins.shape) < 0.5)
        rises = np.diff(begins, axis=1) * slopes[:, 1:-1]
        heights = np.cumsum(steps, axis=1)
        heights[:, 1:] += np.cumsum(rises, axis=1)
        wide = (begins[:, -1:] - begins[:, :1]) / np.maximum(heights[:, -1:], 0.2)
        wide *= rng.uniform(0.7, 1.1, (campaigns, 1))
        heights = np.concatenate([np.zeros((campaigns, 1)), heights], axis=1) * wide
        # Around the middle of each staircase, so that it moves no campaign's level by itself.
        return cls(begins, heights - heights.mean(axis=1, keepdims=True), slopes * wide)

    def at(self, rows: Integers, deviations: Floats) -> Floats:
        """Height of the staircase of each row at its deviation, (n,)."""
        begins = self.begins[rows]
        rungs = (deviations[:, np.newaxis] >= begins).sum(axis=1)
        starts = np.take_along_axis(begins, np.maximum(rungs - 1, 0)[:, np.newaxis], axis=1)[:, 0]
        rises: Floats = self.slopes[rows, rungs] * (deviations - starts)
        heights: Floats = self.heights[rows, rungs]
        return heights + rises


HOURS: Final = 240
"""Hours that a platform has."""

MOST_JUMPS = 2
"""Of a campaign's own level."""
_FIRST_JUMP, _LAST_JUMP = 24, 120
_FIRST_GLOBAL_JUMP, _LAST_GLOBAL_JUMP = 56, 80


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Everyone's level by hour, (HOURS,); the campaigns' swings and jumps, (2, c) each."""

    everyone: Floats
    drift: float
    periods: Floats
    phases: Floats
    own_day: float
    day_phases: Floats
    jump_hours: Integers
    jump_sizes: Floats
    global_jump_hour: int

    @classmethod
    def draw(cls, campaigns: int, rules: Distortions, rng: np.random.Generator) -> Self:
        """Paths of that many campaigns."""
        shape = (MOST_JUMPS, campaigns)
        at = int(rng.integers(_FIRST_GLOBAL_JUMP, _LAST_GLOBAL_JUMP + 1))
        jumped = rng.random(shape) < rules.jumps / MOST_JUMPS
        return cls(
            everyone=_everyone(rules, at, rng),
            drift=rules.drift,
            periods=np.stack((rng.uniform(30, 60, campaigns), rng.uniform(60, 200, campaigns))),
            phases=rng.uniform(0.0, 2.0 * np.pi, shape),
            jump_hours=rng.integers(_FIRST_JUMP, _LAST_JUMP, shape),
            jump_sizes=np.where(jumped, rng.normal(0.0, rules.jump, shape), 0.0),
            global_jump_hour=at,
            own_day=rules.own_day,
            # The last of what is drawn, so that all else is as it was without.
            day_phases=rng.uniform(0.0, 2.0 * np.pi, campaigns),
        )

    def levels(self, hour: int) -> Floats:
        """How far each campaign's level has moved, (c,); ValueError beyond the last hour."""
        if not 0 <= hour < HOURS:
            raise ValueError(f"hour = {hour}: must be at least 0 and below {HOURS}")
        swings = np.sin(2.0 * np.pi * hour / self.periods + self.phases).sum(axis=0)
        days = self.own_day * np.sin(2.0 * np.pi * hour / 24.0 + self.day_phases)
        moved: Floats = self.everyone[hour] + self.drift * swings + self.jumped(hour) + days
        return moved

    def jumped(self, hour: int) -> Floats:
        """How far each campaign's own jumps have taken it, (c,)."""
        jumps = np.where(hour >= self.jump_hours, self.jump_sizes, 0.0)
        return np.asarray(jumps.sum(axis=0))


def _everyone(rules: Distortions, jump_hour: int, rng: np.random.Generator) -> Floats:
    hours = np.arange(HOURS)
    walk = np.cumsum(rng.normal(0.0, rules.walk, HOURS))
    day = rules.day * np.sin(2.0 * np.pi * hours / 24.0 + rng.uniform(0.0, 2.0 * np.pi))
    jump = rng.choice((-1.0, 1.0)) * rules.global_jump * (hours >= jump_hour)
    return np.asarray(walk + day + jump)


_CENTRES = 0.5
_LATE_SHARE, _LATEST_START = 0.15, 48
_STOPPED_SHARE, _FIRST_STOP, _LAST_STOP = 0.1, 48, 96
_NEVER = 1 << 30
_TYPICAL_HOUR = 60
_QUANTILES = 16


@dataclass(frozen=True)
class DriftingPlatform:
    """Campaigns with Zipf traffic whose scores are distorted as a regime says.

    In log-odds, with z a score, c the centre of its campaign's scores and d = z - c:

        true(z) = z + global level (random walk + day + jump) + campaign level (static + drift +
        jumps) + campaign slope d + campaign wave(d) - bend at the top,

    or, with rungs, the campaign's own staircase in d instead of slope and wave. It never falls in
    z within a campaign and hour. 15 % of the campaigns start up to two days late, 10 % stop after
    two to four days, never the first; traffic has a daily cycle. Every hour is drawn from (seed,
    hour) alone.

    Parameters: campaigns, at least 1, the first has the most traffic; impressions_per_hour,
    expected at an average hour when all run; ctr, mean true probability of an impression; seed;
    distortions; start, epoch seconds of hour 0, a whole hour.

    >>> hour = DriftingPlatform(3, 1_000, 0.01, seed=1).hour(5)
    >>> hour.events.campaigns, bool((hour.truth == hour.events.scores).all())
    (('campaign-1', 'campaign-2', 'campaign-3'), True)
    """

    campaigns: int
    impressions_per_hour: float
    ctr: float
    seed: int = 0
    distortions: Distortions = field(default_factory=Distortions)
    start: float = START

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names, padded so that they sort by number."""
        return campaign_names(self.campaigns)

    def hour(self, hour: int) -> PlatformHour:
        """The impressions of one hour, ordered by time; ValueError on an hour it does not have."""
        levels = self.paths.levels(hour)
        rng = np.random.default_rng((self.seed, 1, hour))
        rows = arrivals(self.traffic(hour) * self.impressions_per_hour, rng)
        deviations = rng.normal(0.0, SPREAD, len(rows))
        centres = self._centres[rows]
        deviations = self._curves.snapped(centres, deviations)
        scores = self._level + centres + deviations
        more = self._curves.at(rows.astype(np.int64), centres, deviations) + levels[rows]
        truth = expit(scores + more)
        times = times_in(self.start, hour, len(rows), rng)
        outcomes = outcomes_of(truth, rng)
        scores = self._pushed(scores, rows, (times - self.start) / 3600.0, rng)
        return PlatformHour(EventTable(times, self.names, rows, expit(scores), outcomes), truth)

    def _pushed(
        self, scores: Floats, rows: Rows, hours: Floats, rng: np.random.Generator
    ) -> Floats:
        """The log-odds as the model of each impression's moment has them."""
        found = scores
        for number, push in enumerate(self.distortions.pushes):
            own = np.random.default_rng((self.seed, 5, number)).normal(0.0, 1.0, self.campaigns)
            theirs = self._level + push.scored(scores - self._level, own[rows])
            found = np.where(rng.random(len(rows)) < push.share(hours), theirs, found)
        return found

    def traffic(self, hour: int) -> Floats:
        """Share of an average hour's impressions that each campaign has in this one, (c,)."""
        starts, stops = self._lives
        runs = (hour >= starts) & (hour < stops)
        return np.where(runs, zipf_shares(self.campaigns) * day_cycle(hour), 0.0)

    def own_levels(self, hour: int) -> Floats:
        """Of each campaign, (c,): what its own level is from the start and by its jumps."""
        return np.asarray(self._curves.levels + self.paths.jumped(hour))

    @cached_property
    def paths(self) -> Paths:
        """How the levels move."""
        return Paths.draw(self.campaigns, self.distortions, np.random.default_rng((self.seed, 2)))

    @cached_property
    def _centres(self) -> Floats:
        rng = np.random.default_rng((self.seed, 0))
        return rng.normal(0.0, _CENTRES, self.campaigns)

    @cached_property
    def _lives(self) -> tuple[Floats, Floats]:
        rng = np.random.default_rng((self.seed, 3))
        late = rng.random(self.campaigns) < _LATE_SHARE
        stopped = rng.random(self.campaigns) < _STOPPED_SHARE
        late[0] = stopped[0] = False
        starts = rng.integers(1, _LATEST_START + 1, self.campaigns)
        stops = rng.integers(_FIRST_STOP, _LAST_STOP + 1, self.campaigns)
        return np.where(late, starts, 0), np.where(stopped, stops, _NEVER)

    @cached_property
    def _curves(self) -> Curves:
        return Curves.draw(self.campaigns, self.distortions, np.random.default_rng((self.seed, 4)))

    @cached_property
    def _level(self) -> float:
        """Everyone's log-odds that make the mean true probability the regime's."""
        deviations = SPREAD * ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        rows = np.repeat(np.arange(self.campaigns), _QUANTILES)
        spread = np.tile(deviations, self.campaigns)
        centres = self._centres[rows]
        more = self._curves.at(rows, centres, spread) + self.paths.levels(_TYPICAL_HOUR)[rows]
        shares = self.traffic(_TYPICAL_HOUR)[rows]
        odds = centres + spread + more

        def excess(level: float) -> float:
            return float(np.average(expit(level + odds), weights=shares)) - self.ctr

        typical = float(logit(self.ctr))
        return float(brentq(excess, typical - 9.0, typical + 9.0))


@dataclass(frozen=True, slots=True)
class Regime:
    """A kind of traffic.

    description : what it is, in one line, for the report.
    campaigns, impressions_per_hour, ctr, distortions : as in `DriftingPlatform`.
    first_scored, scored_hours : which hours are scored.
    """

    description: str
    campaigns: int
    impressions_per_hour: float
    ctr: float
    distortions: Distortions
    first_scored: int = 48
    scored_hours: int = 48

    def platform(self, seed: int) -> DriftingPlatform:
        """The platform of one seed."""
        return DriftingPlatform(
            self.campaigns, self.impressions_per_hour, self.ctr, seed, self.distortions
        )


_USUAL = Distortions(
    level=0.15,
    slope=0.1,
    wave=0.04,
    bend=0.15,
    drift=0.05,
    walk=0.012,
    day=0.05,
    jumps=0.2,
    jump=0.3,
    global_jump=0.15,
)
"""Scores are about a quarter off: some 300e-6 of excess log loss at a CTR of 1 %."""

REGIMES: Mapping[str, Regime] = MappingProxyType(
    {
        "mixed": Regime(
            "200 campaigns, CTR 1 %: a little of everything", 200, 25_000, 0.01, _USUAL
        ),
        "sparse": Regime(
            "200 campaigns, CTR 0.1 %: a few clicks a day for most", 200, 40_000, 0.001, _USUAL
        ),
        "dense": Regime(
            "10 campaigns, CTR 10 %: plenty of clicks, smooth drift only",
            10,
            8_000,
            0.1,
            Distortions(level=0.15, slope=0.1, wave=0.06, bend=0.15, drift=0.1, walk=0.01),
        ),
        "jumps": Regime(
            "100 campaigns, CTR 2 %: levels jump, each campaign's and once everyone's",
            100,
            15_000,
            0.02,
            Distortions(
                level=0.25, slope=0.1, wave=0.04, bend=0.2, jumps=1.2, jump=0.7, global_jump=0.5
            ),
        ),
        "cycles": Regime(
            "60 campaigns, CTR 2 %: each has a daily cycle of its own, +-40 %, in its own phase",
            60,
            15_000,
            0.02,
            Distortions(level=0.25, slope=0.1, wave=0.04, bend=0.2, own_day=0.4),
        ),
        "steps": Regime(
            "100 campaigns, CTR 3 %: steps, kinks and plateaus, nothing smooth in log-odds",
            100,
            15_000,
            0.03,
            Distortions(level=0.25, rungs=True, drift=0.06, walk=0.02, day=0.06),
        ),
        "common_steps": Regime(
            "100 campaigns, CTR 3 %: everyone's curve is one staircase",
            100,
            15_000,
            0.03,
            Distortions(level=0.25, common_rungs=True, drift=0.06, walk=0.02, day=0.06),
        ),
        "few_scores": Regime(
            "100 campaigns, CTR 3 %: 12 distinct scores, each with an error of its own",
            100,
            15_000,
            0.03,
            Distortions(level=0.25, few=12, drift=0.06, walk=0.02, day=0.06),
        ),
        "families": Regime(
            "100 campaigns, CTR 3 %: scores of one half are too flat, of the other too steep",
            100,
            15_000,
            0.03,
            Distortions(level=0.1, families=0.45, drift=0.02, walk=0.01),
        ),
        "many": Regime(
            "10,000 campaigns, CTR 2 %: 8 hours scored, most campaigns nearly without clicks",
            10_000,
            60_000,
            0.02,
            _USUAL,
            scored_hours=8,
        ),
        "push": Regime(
            "200 campaigns, CTR 1 %: a new model at 60:30 h, another rolled out from hour 78 on",
            200,
            25_000,
            0.01,
            replace(
                _USUAL, pushes=(Push(60.5), Push(78.0, lasts=3.0, level=-0.4, slope=1.2, bend=0.0))
            ),
        ),
        "calibrated": Regime(
            "200 campaigns, CTR 1 %: every score is true already",
            200,
            25_000,
            0.01,
            Distortions(),
            scored_hours=24,
        ),
    }
)
"""Every regime by name."""
