"""The platform of a contest: known true probabilities, far more ways to be wrong."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from calibrators.samples import Floats
from evaluation.contest.distortions import SPREAD, Curves, Distortions
from evaluation.contest.paths import Paths
from evaluation.event_table import SECONDS_PER_HOUR, EventTable
from evaluation.platform import PlatformHour

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
    start: float = 1_735_689_600.0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names, padded so that they sort by number."""
        width = len(str(self.campaigns))
        return tuple(f"campaign-{number:0{width}d}" for number in range(1, self.campaigns + 1))

    def hour(self, hour: int) -> PlatformHour:
        """The impressions of one hour, ordered by time; ValueError on an hour it does not have."""
        levels = self.paths.levels(hour)
        rng = np.random.default_rng((self.seed, 1, hour))
        counts = rng.poisson(self.traffic(hour) * self.impressions_per_hour)
        rows = rng.permutation(np.repeat(np.arange(self.campaigns, dtype=np.int32), counts))
        deviations = rng.normal(0.0, SPREAD, len(rows))
        centres = self._centres[rows]
        scores = self._level + centres + deviations
        more = self._curves.at(rows.astype(np.int64), centres, deviations) + levels[rows]
        truth = expit(scores + more)
        times = self.start + SECONDS_PER_HOUR * (hour + np.sort(rng.random(len(rows))))
        outcomes = (rng.random(len(rows)) < truth).astype(np.float64)
        return PlatformHour(EventTable(times, self.names, rows, expit(scores), outcomes), truth)

    def traffic(self, hour: int) -> Floats:
        """Share of an average hour's impressions that each campaign has in this one, (c,)."""
        starts, stops = self._lives
        shares = 1.0 / np.arange(1, self.campaigns + 1)
        day_cycle = 1.0 + 0.4 * np.sin(2.0 * np.pi * (hour - 9) / 24.0)
        runs = (hour >= starts) & (hour < stops)
        return np.where(runs, shares / shares.sum() * day_cycle, 0.0)

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
