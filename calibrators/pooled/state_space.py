"""The state-space filter of campaigns' levels: a local level with a damped trend, or without one.

Which of a few models of how levels move fits the campaigns, and where it puts each of them.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple, Self

import numpy as np

from calibrators.samples import Floats, Integers

_STEPS = (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)
_TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
_PERSISTENCE = (0.9, 0.95)


class TrendModels(NamedTuple):
    """A local level with a damped trend: n ways of moving, each an array (n, 1).

    steps : variance of an hour's random step of the level, in log ratio.
    trends : variance of an hour's random step of the trend, in log ratio an hour.
    persistence : the share of a trend that is left after an hour, in [0, 1).

    Source: Harrison and Stevens, JRSS B 38, 1976; damped: Gardner and McKenzie, Management
    Science 31, 1985.
    """

    steps: Floats
    trends: Floats
    persistence: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float]]) -> "TrendModels":
        """From a row (step, trend, persistence) each."""
        return cls(*np.array(rows, np.float64).reshape(-1, 3).T[:, :, None])

    def chosen(self, rows: Integers) -> "TrendModels":
        """Some of them."""
        return TrendModels(*(column[rows] for column in self))

    @property
    def ordinary(self) -> Floats:
        """The variance of a trend that has gone on for long, (n, 1)."""
        return np.asarray(self.trends / (1 - self.persistence**2))


TREND_MODELS = TrendModels.of(
    [
        *((step, 0.0, 0.0) for step in _STEPS),
        *((0.0, trend, share) for share in _PERSISTENCE for trend in _TRENDS),
    ]
)
"""First a level that stays, then those that wander by half to 16 percent an hour, then those that
go their way for ten or twenty hours."""


_FARTHEST = 30.0
"""Log ratios beyond which none is looked for: they would overflow, and mean nothing."""

_ROUNDS = 4
"""Newton's steps to a level: from above they come down to it, the last by less than noise."""

AHEAD = 0.5
"""Hours from the moment to the middle of the hour that is served."""


@dataclass(slots=True)
class LevelFilter:
    """Normal beliefs about levels and trends of c campaigns under n models, (n, c) each.

    An hour's positives are Poisson around expected * exp(level). The belief after an hour is taken
    at its mode, with the curvature there.

    Source: dynamic generalised linear models, West, Harrison and Migon, JASA 80, 1985; posterior
    modes, Fahrmeir, JASA 87, 1992.

    levels, trends : means; log ratios, and log ratios an hour.
    spreads, ties, drifts : the levels' variances, their covariances with the trends, the trends'
        variances.
    """

    models: TrendModels
    levels: Floats
    trends: Floats
    spreads: Floats
    ties: Floats
    drifts: Floats

    @classmethod
    def before(cls, models: TrendModels, variances: Floats) -> Self:
        """What is believed before the first hour, of levels that have these variances, (c,)."""
        shape = (len(models.steps), len(variances))
        return cls(
            models,
            np.zeros(shape),
            np.zeros(shape),
            np.broadcast_to(variances, shape).copy(),
            np.zeros(shape),
            np.broadcast_to(models.ordinary, shape).copy(),
        )

    def pass_time(self, hours: float) -> None:
        """What is believed so many hours later."""
        steps, _, persistence = self.models
        left, ordinary = persistence**hours, self.models.ordinary
        self.levels = np.clip(self.levels + hours * self.trends, -_FARTHEST, _FARTHEST)
        self.trends = left * self.trends
        ties = self.ties + hours * self.drifts
        self.spreads = self.spreads + hours * (self.ties + ties + steps)
        self.ties = left * ties
        self.drifts = left**2 * (self.drifts - ordinary) + ordinary

    def jump(self, chances: Floats, variances: Floats) -> None:
        """What is believed if each level may be a new one, with these chances, (c,), of the
        variance before the first hour: the mean and variance of both together."""
        kept = 1 - chances
        between = kept * chances * self.levels**2
        self.levels, self.trends = kept * self.levels, kept * self.trends
        self.spreads = kept * self.spreads + chances * variances + between
        self.ties = kept * self.ties

    def learn(self, observed: Floats, expected: Floats) -> None:
        """What is believed after an hour's positives, (c,) each."""
        found = self._modes(np.where(expected > 0, observed, 0.0), expected)
        information = expected * np.exp(found)
        left = 1 / (1 + information * self.spreads)
        moved = (found - self.levels) / np.maximum(self.spreads, np.finfo(float).tiny)
        self.trends = self.trends + self.ties * np.where(self.spreads > 0, moved, 0.0)
        self.levels = found
        self.drifts = self.drifts - information * left * self.ties**2
        self.ties = left * self.ties
        self.spreads = left * self.spreads

    def _modes(self, observed: Floats, expected: Floats) -> Floats:
        """The likeliest levels, (n, c): the zero of a falling concave function, which Newton's
        steps from any point above it do not pass."""
        low, tiny = self.levels, np.finfo(float).tiny
        seen = np.log(np.maximum(observed, tiny)) - np.log(np.maximum(expected, tiny))
        found: Floats = np.minimum(low + self.spreads * observed, np.maximum(low, seen))
        found = np.clip(found, -_FARTHEST, _FARTHEST)
        for _ in range(_ROUNDS):
            rates = expected * np.exp(found)
            gradients = self.spreads * (observed - rates) - (found - low)
            found = np.maximum(found + gradients / (self.spreads * rates + 1), -_FARTHEST)
        return found


_NEGLIGIBLE = 1e-3
"""Models with less of the belief than this share of the likeliest are left out."""

_MOST = 1_024
"""Campaigns, those with the most positives, of which the models are learnt: all others together
have little to say of an hour's step."""


class CampaignSeries(NamedTuple):
    """What is known of c campaigns in h hours: positives observed and expected before any level of
    their own, and the chance that each hour began after a jump, (c, h) each; and the variances of
    the levels, (c,)."""

    observed: Floats
    expected: Floats
    jumps: Floats
    variances: Floats

    @classmethod
    def none(cls, hours: int) -> "CampaignSeries":
        """Of no campaign."""
        observed, expected, jumps = np.empty((3, 0, hours))
        return cls(observed, expected, jumps, np.empty(0))

    def with_more(self, other: "CampaignSeries") -> "CampaignSeries":
        """The campaigns of both with the most positives, so many as models are learnt of."""
        both = CampaignSeries(*map(np.concatenate, zip(self, other, strict=True)))
        order = np.argsort(-both.observed.sum(axis=1), kind="stable")[:_MOST]
        return CampaignSeries(*(column[order] for column in both))


@dataclass(frozen=True, slots=True, eq=False)
class AveragedFilter:
    """Models, and the belief in each, (n,), their sum 1.

    Each of `EVERY` predicts every hour from those before it (Dawid's prequential principle, JRSS A
    147, 1984). Belief goes with the Poisson likelihood of all hours so predicted; before there are
    any, half of it is that levels stay. The levels of all models are averaged by it (Hoeting et
    al., Statistical Science 14, 1999).
    """

    models: TrendModels
    belief: Floats

    @classmethod
    def of(cls, series: CampaignSeries, ages: Floats) -> Self:
        """What fits these campaigns; ages: (h,), of the hours' middles."""
        found = _gains(series, ages)
        found[1:] -= log(len(found) - 1)
        belief = np.exp(found - found.max())
        kept = np.flatnonzero(belief > _NEGLIGIBLE)
        return cls(TREND_MODELS.chosen(kept), belief[kept] / belief[kept].sum())

    def levels(self, series: CampaignSeries, ages: Floats) -> Floats:
        """Levels to expect in the hour that is served, (c,)."""
        filtered = LevelFilter.before(self.models, series.variances)
        for hour, since in enumerate(_since(ages)):
            filtered.pass_time(since)
            filtered.jump(series.jumps[:, hour], series.variances)
            filtered.learn(series.observed[:, hour], series.expected[:, hour])
        filtered.pass_time(AHEAD + float(ages[-1:].sum()))
        levels: Floats = self.belief @ filtered.levels
        return levels

    def strengths(self) -> dict[str, float]:
        """The likeliest model, in standard deviations; nothing if levels stay."""
        step, trend, persistence = (
            float(column[np.argmax(self.belief), 0]) for column in self.models
        )
        if trend:
            return {"campaign_trend": sqrt(trend), "campaign_persistence": persistence}
        return {"campaign_step": sqrt(step)} if step else {}


def _gains(series: CampaignSeries, ages: Floats) -> Floats:
    """The Poisson log likelihood of each model, (n,), against levels of 0."""
    filtered = LevelFilter.before(TREND_MODELS, series.variances)
    gains = np.zeros(len(TREND_MODELS.steps))
    for hour, since in enumerate(_since(ages)):
        observed, expected = series.observed[:, hour], series.expected[:, hour]
        filtered.pass_time(since)
        filtered.jump(series.jumps[:, hour], series.variances)
        gains += filtered.levels @ observed - np.expm1(filtered.levels) @ expected
        filtered.learn(observed, expected)
    return gains


def _since(ages: Floats) -> list[float]:
    """Hours from the one before to each, none to the first."""
    between: list[float] = (-np.diff(ages, prepend=ages[:1])).tolist()
    return between
