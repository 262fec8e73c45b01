"""The state-space filter of levels: a local level, with a damped trend or a daily cycle or neither.

Which of a few models of how levels move fits the campaigns, and where it puts each of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import product
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from calibrators.peers import ALONE, Peers
from calibrators.samples import Floats, Integers

_STEPS = (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)
_TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
_PERSISTENCE = (0.9, 0.95)
_CYCLES = (0.01, 0.04, 0.16)
_STEPS_OF_CYCLES = (0.0, 1e-4, 1.6e-3, 6.4e-3)


@dataclass(frozen=True, eq=False)
class LevelModels:
    """A local level with a damped trend, or a daily cycle: n ways of moving, each an array (n, 1).

    steps : variance of an hour's random step of the level, in log ratio.
    trends : variance of an hour's random step of the trend, in log ratio an hour.
    persistence : the share of a trend that is left after an hour, in [0, 1).
    cycles : variance of each of the two amplitudes of the day's wave, in log ratio; 0 for none.
    waves : how many the daily cycle has: of a day, of half a day, and so on.
    prior_logs : of the belief in each before any hour, up to a constant, (n,): half of it is that
        there is no cycle, and half of either that levels stay.

    Source: Harrison and Stevens, JRSS B 38, 1976; damped: Gardner and McKenzie, Management Science
    31, 1985; seasonal effects in Fourier form: West and Harrison, Bayesian Forecasting and Dynamic
    Models, 1997, section 8.6.
    """

    steps: Floats
    trends: Floats
    persistence: Floats
    cycles: Floats
    waves: Floats
    prior_logs: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, float, int]]) -> "LevelModels":
        """From a row (step, trend, persistence, cycle, waves) each."""
        columns = np.array(rows, np.float64).reshape(-1, 5).T
        steps, trends, _, cycles, _ = columns
        kinds = 2 * (cycles > 0) + (steps + trends > 0)
        return cls(*[*columns[:, :, None], -np.log(np.bincount(kinds)[kinds])])

    def chosen(self, rows: Integers) -> "LevelModels":
        """Some of them; beliefs beforehand stay as they are among all."""
        return LevelModels(*(getattr(self, each.name)[rows] for each in fields(self)))

    @cached_property
    def ordinary(self) -> Floats:
        """The variance of a trend that has gone on for long, (n, 1)."""
        return np.asarray(self.trends / (1 - self.persistence**2))

    @cached_property
    def trending(self) -> slice:
        """Where all are that have a trend."""
        return _span(self.trends)

    @cached_property
    def cycling(self) -> slice:
        """Where all are that have a cycle."""
        return _span(self.cycles)

    @cached_property
    def most_waves(self) -> int:
        """Of any cycle."""
        return int(self.waves[self.cycling].max(initial=0))


def _span(column: Floats) -> slice:
    """From the first to the last that is not 0."""
    found = np.flatnonzero(column).tolist() or [0, -1]
    return slice(found[0], found[-1] + 1)


def level_models(*waves: int) -> LevelModels:
    """First a level that stays, then those that wander by half to 16 percent an hour, then those
    that go their way for ten or twenty hours; last those that have a daily cycle besides, of each
    of these numbers of waves."""
    cycles = product(waves, _CYCLES, _STEPS_OF_CYCLES)
    return LevelModels.of(
        [
            *((step, 0.0, 0.0, 0.0, 0) for step in _STEPS),
            *((0.0, trend, share, 0.0, 0) for share in _PERSISTENCE for trend in _TRENDS),
            *((step, 0.0, 0.0, cycle, count) for count, cycle, step in cycles),
        ]
    )


OF_CAMPAIGNS = level_models(2)
"""Their daily cycles have waves of a day, and of half a day."""


DAY = 24.0
"""Hours."""

_TWICE = 1.5 * DAY
"""What has not come twice is no cycle: in less hours none is looked for."""


FARTHEST = 30.0
"""Log ratios beyond which none is looked for: they would overflow, and mean nothing."""

_TINY = np.finfo(float).tiny

_KNOWN = 1e-15
"""Variance of a log ratio from which on there is nothing to learn: less is rounding."""

_ROUNDS = 2
"""Halley's steps to a level."""

_NEAR = 0.02
"""The last step, at most, of one that is found: what is left is its third power, about."""

AHEAD = 0.5
"""Hours from the moment to the middle of the hour that is served."""

JUMP = 0.5
"""Variance, at least, of a level that is new after a certain jump, less so the less certain it is:
what has jumped is not one of the campaigns that are all alike, which the variance before the first
hour may be of."""

_LEVEL, _TREND, _WAVES = 0, 1, 2


@dataclass(slots=True)
class LevelFilter:
    """Normal beliefs about the level, the trend and the amplitudes of the daily cycle of c
    campaigns under n models: means (4, n, c), covariances (4, 4, n, c).

    An hour's positives are Poisson around expected * exp(level + cycle at that hour). The belief
    after an hour is taken at its mode, with the curvature there.

    Source: dynamic generalised linear models, West, Harrison and Migon, JASA 80, 1985; posterior
    modes, Fahrmeir, JASA 87, 1992.
    """

    models: LevelModels
    means: Floats
    covariances: Floats

    @classmethod
    def before(cls, models: LevelModels, variances: Floats) -> Self:
        """What is believed before the first hour, of levels that have these variances, (c,)."""
        shape = (len(models.steps), len(variances))
        states = _WAVES + 2 * models.most_waves
        covariances = np.zeros((states, states, *shape))
        covariances[_LEVEL, _LEVEL] = variances
        covariances[_TREND, _TREND] = models.ordinary
        for state in range(_WAVES, states):
            wave = state // 2
            covariances[state, state] = models.cycles / wave**2 * (models.waves >= wave)
        return cls(models, np.zeros((states, *shape)), covariances)

    def pass_time(self, hours: float) -> None:
        """What is believed so many hours later."""
        models, trending = self.models, self.models.trending
        self.covariances[_LEVEL, _LEVEL] += hours * models.steps
        if trending.start == trending.stop:
            return
        left, ordinary = models.persistence[trending] ** hours, models.ordinary[trending]
        level, trend = self.means[:_WAVES, trending]
        level += hours * trend
        level.clip(-FARTHEST, FARTHEST, out=level)
        trend *= left
        (level, both), (again, trend) = self.covariances[:_WAVES, :_WAVES, trending]
        level += hours * (2 * both + hours * trend)
        both += hours * trend
        both *= left
        again[:] = both
        trend *= left**2
        trend += ordinary * (1 - left**2)

    def later(self, hours: float) -> "LevelFilter":
        """What is believed so many hours later; this belief stays."""
        later = LevelFilter(self.models, self.means.copy(), self.covariances.copy())
        later.pass_time(hours)
        return later

    def jump(self, chances: Floats, variances: Floats) -> None:
        """What is believed if each level may be a new one, with these chances, (c,), of the
        variance before the first hour or `JUMP`: the mean and variance of both together."""
        if not chances.any():
            return
        kept, of = 1 - chances, self.covariances
        between = kept * chances * self.means[_LEVEL] ** 2
        fresh = np.maximum(variances, JUMP * chances)
        spread = kept * of[_LEVEL, _LEVEL] + chances * fresh + between
        self.means[_LEVEL : _TREND + 1] *= kept
        of[_LEVEL] *= kept
        of[:, _LEVEL] *= kept
        of[_LEVEL, _LEVEL] = spread

    def learn(self, observed: Floats, expected: Floats, age: float) -> None:
        """What is believed after an hour's positives, (c,) each, whose middle is `age` hours
        before the moment."""
        wave = self._wave(age)
        ties = _weighted(wave, self.covariances)
        spreads, rates = _weighted(wave, ties), self.at(age)
        found = _modes(rates, spreads, np.where(expected > 0, observed, 0.0), expected)
        information = expected * np.exp(found)
        self.means += ties * ((found - rates) / np.maximum(spreads, _KNOWN))
        self._know(ties, ties * (information / (1 + information * spreads)))

    def _know(self, ties: Floats, gain: Floats) -> None:
        """The covariances, less those that are explained. Most models have no waves."""
        of, some = self.covariances, self.models.cycling
        of[:_WAVES, :_WAVES] -= gain[:_WAVES, None] * ties[None, :_WAVES]
        if len(of) > _WAVES:
            waves = of[_WAVES:, :, some]
            waves -= gain[_WAVES:, None, some] * ties[None, :, some]
            of[:_WAVES, _WAVES:, some] = waves[:, :_WAVES].swapaxes(0, 1)

    def at(self, age: float) -> Floats:
        """Log ratios at a moment's time of day, (n, c)."""
        return _weighted(self._wave(age), self.means).clip(-FARTHEST, FARTHEST)

    def spreads_at(self, age: float) -> Floats:
        """Their variances, (n, c)."""
        wave = self._wave(age)
        return _weighted(wave, _weighted(wave, self.covariances))

    def _wave(self, age: float) -> Floats:
        """What each of the states counts in the log ratio, (1, s)."""
        return _state_weights(age, (len(self.means) - _WAVES) // 2)


def _weighted(weights: Floats, states: Floats) -> Floats:
    """The sum of the states, (s, ...), by their weights, (1, s): what `numpy.tensordot` makes of
    them in a third of the time where there are few."""
    return np.asarray(np.dot(weights, states.reshape(len(states), -1)).reshape(states.shape[1:]))


@lru_cache(maxsize=4096)
def _state_weights(age: float, harmonics: int) -> Floats:
    angles = 2 * np.pi * age / DAY * np.arange(1, harmonics + 1)
    waves = np.stack((np.cos(angles), np.sin(angles)), axis=1).reshape(-1)
    weights = np.concatenate(([1.0, 0.0], waves))[None]
    weights.setflags(write=False)
    return weights


def _modes(low: Floats, spreads: Floats, observed: Floats, expected: Floats) -> Floats:
    """The likeliest log ratios, (n, c), given normal beliefs: the zero of a falling concave
    function, from a point above it, by Halley's method; where that is far, in closed form.

    Source: with b = low + spread * observed the zero is b - w, where
    w + ln w = ln(spread * expected) + b; Corless and Jeffrey, The Wright omega function, AISC 2002.
    """
    ends, scale = low + spreads * observed, spreads * expected
    seen = np.log(np.maximum(observed, _TINY)) - np.log(np.maximum(expected, _TINY))
    found: Floats = np.minimum(ends, np.maximum(low, seen))
    np.minimum(found, FARTHEST, out=found)
    for _ in range(_ROUNDS):
        rates = np.exp(found) * scale
        slopes = rates + 1
        step = (ends - found - rates) / slopes
        step /= step * rates / slopes * 0.5 + 1
        # Not by np.clip, whose call costs more than the work.
        found = np.minimum(found + step, FARTHEST)
    far = np.abs(step) > _NEAR
    if far.any():
        from scipy.special import wrightomega  # An API process never gets here.

        end = ends[far]
        found[far] = end - wrightomega(np.log(np.maximum(scale[far], _TINY)) + end)
    return found.clip(-FARTHEST, FARTHEST)


_NEGLIGIBLE = 1e-3
"""Models with less of the belief than this share of the likeliest are left out."""

_MOST = 1_024
"""Campaigns, those with the most positives, of which the models are learnt: all others together
have little to say of an hour's step."""

_AT_ONCE = 256
"""Campaigns that are filtered at once: of each the covariances of all models take kilobytes."""


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
        if len(both.variances) <= _MOST:
            return both
        order = np.argsort(-both.observed.sum(axis=1), kind="stable")[:_MOST]
        return CampaignSeries(*(column[order] for column in both))

    def pieces(self, peers: Peers = ALONE) -> Iterator["CampaignSeries"]:
        """In order, as many at once as are filtered, one piece at least; `peers` have some each."""
        for first in peers.share(range(0, max(len(self.variances), 1), _AT_ONCE)):
            yield CampaignSeries(*(column[first : first + _AT_ONCE] for column in self))


class LevelForecast(NamedTuple):
    """Of c campaigns in the hour that is served: means and variances of the levels, (c,) each, and
    the daily cycles of h hours before it against that of the hour, log ratios, (c, h); and of each
    of `SPANS` what was said before it began, (c, 2, spans): the positives expected in it, and the
    variance of the level in its middle."""

    means: Floats
    variances: Floats
    cycles: Floats
    before: Floats

    @classmethod
    def joined(cls, parts: Iterable["LevelForecast"]) -> "LevelForecast":
        """Of the campaigns of all parts, one at least."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


FOLLOWED = 8
"""Hours in which a level that wanders slowly stays about the same."""

SPANS = (1, 2, 4, 8, 16)
"""Newest hours that are held against those before them: a jump began one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class AveragedFilter:
    """Models, and the belief in each, (n,), their sum 1.

    Each predicts every hour from those before it (Dawid's prequential principle, JRSS A
    147, 1984). Belief goes with the Poisson likelihood of all hours so predicted; before there are
    any, half of it is that levels stay. The levels of all models are averaged by it (Hoeting et
    al., Statistical Science 14, 1999).
    """

    models: LevelModels
    belief: Floats

    @classmethod
    def of(
        cls,
        series: CampaignSeries,
        ages: Floats,
        models: LevelModels = OF_CAMPAIGNS,
        peers: Peers = ALONE,
    ) -> Self:
        """What fits these campaigns, found with the `peers`; ages: (h,), of the hours' middles."""
        models = _possible(models, series, ages)
        parts = peers.gather((_gains(models, piece, ages)[0],) for piece in series.pieces(peers))
        belief = _belief(models, np.sum([gains for (gains,) in parts], axis=0))
        kept = np.flatnonzero(belief)
        return cls(models.chosen(kept), belief[kept])

    def forecast(self, series: CampaignSeries, ages: Floats) -> LevelForecast:
        """Of the hour that is served."""
        return LevelForecast.joined(self._forecast(piece, ages)[0] for piece in series.pieces())

    def tried(
        self, series: CampaignSeries, ages: Floats, peers: Peers = ALONE
    ) -> tuple[Floats, LevelForecast | None]:
        """`FOLLOWED` hours in turn against what those before them predict, (4, n): positives
        observed and expected, the variance of the predicted level in the middle of them, and the
        positives expected in as many hours before; the first quarter of all hours left out. And
        the forecast, of one that has no peers."""
        first = -(-len(ages) // 4)
        turns = range(len(ages) - FOLLOWED, first - 1, -FOLLOWED)
        found = [self._forecast(piece, ages, turns) for piece in series.pieces(peers)]
        parts = peers.gather((missed,) for _, each in found for missed in each)
        missed = np.hstack([np.empty((4, 0)), *(part for (part,) in parts)])
        return missed, None if peers.count > 1 else LevelForecast.joined(each for each, _ in found)

    def _forecast(
        self, series: CampaignSeries, ages: Floats, turns: range = range(0)
    ) -> tuple[LevelForecast, list[Floats]]:
        begins = [max(len(ages) - span, 0) for span in SPANS]
        before, missed = {0: np.zeros((2, len(series.variances)))}, []
        for hour, filtered in enumerate(_steps(self.models, series, ages)):
            if hour in turns:
                missed.append(self._missed(filtered, series, ages, slice(hour, hour + FOLLOWED)))
            if hour in begins and hour < len(ages):
                span = slice(hour, len(ages))
                before[hour] = self._missed(filtered, series, ages, span)[1:3]
        filtered.pass_time(AHEAD + float(ages[-1:].sum()))
        cycles = _cycles(self.belief, filtered, np.append(ages, -AHEAD))
        found = self._averaged(filtered, -AHEAD)
        told = np.stack([before[hour].T for hour in begins], axis=2)
        return LevelForecast(*found, cycles[:, :-1] - cycles[:, -1:], told), missed

    def _missed(
        self, filtered: LevelFilter, series: CampaignSeries, ages: Floats, now: slice
    ) -> Floats:
        past = slice(max(now.start - FOLLOWED, 0), now.start)
        middle = float(ages[now].mean())
        then = filtered.later(float(ages[now.start]) - middle)
        count = self.models.most_waves
        waves = np.vstack([_state_weights(age, count) for age in ages[now].tolist()])
        levels = waves @ (self.belief @ then.means)
        ratios = np.exp(levels.clip(-FARTHEST, FARTHEST))
        expected = (series.expected[:, now] * ratios.T).sum(axis=1)
        followed = series.expected[:, past].sum(axis=1) * ratios.mean(axis=0)
        _, variances = self._averaged(then, middle)
        return np.stack((series.observed[:, now].sum(axis=1), expected, variances, followed))

    def _averaged(self, filtered: LevelFilter, age: float) -> tuple[Floats, Floats]:
        """Mean and variance over all models of the log ratios at a moment's time of day, (c,)."""
        each, spreads = filtered.at(age), filtered.spreads_at(age)
        found: Floats = self.belief @ each
        return found, self.belief @ (spreads + (each - found) ** 2)

    def strengths(self) -> dict[str, float]:
        """The likeliest model, in standard deviations; nothing if levels stay."""
        row, models = int(np.argmax(self.belief)), self.models
        columns = models.steps, models.trends, models.persistence, models.cycles
        step, trend, persistence, cycle = (float(column[row, 0]) for column in columns)
        found = {"campaign_cycle": sqrt(cycle)} if cycle else {}
        if trend:
            return {**found, "campaign_trend": sqrt(trend), "campaign_persistence": persistence}
        return {**found, "campaign_step": sqrt(step)} if step else found


def daily_cycles(
    series: CampaignSeries, ages: Floats, models: LevelModels, at: Floats
) -> tuple[Floats, LevelModels]:
    """The cycles alone, averaged over these models, at moments of these ages, (t,): log ratios,
    (c, t). And the models that are believed."""
    models = _possible(models, series, ages)
    found = [_gains(models, piece, ages) for piece in series.pieces()]
    belief = _belief(models, np.sum([gains for gains, _ in found], axis=0))
    cycles = np.concatenate([_cycles(belief, filtered, at) for _, filtered in found])
    return cycles, models.chosen(np.flatnonzero(belief))


def _cycles(belief: Floats, filtered: LevelFilter, at: Floats) -> Floats:
    amplitudes = np.einsum("n,snc->cs", belief, filtered.means[_WAVES:])
    count = filtered.models.most_waves
    waves = [_state_weights(age, count)[0, _WAVES:] for age in at.tolist()]
    return np.asarray(amplitudes @ np.stack(waves, axis=1))


def _possible(models: LevelModels, series: CampaignSeries, ages: Floats) -> LevelModels:
    """Those without a cycle where these hours are too few to show one."""
    seen = ages[series.expected.any(axis=0)]
    if len(seen) and float(seen[0] - seen[-1]) >= _TWICE:
        return models
    return models.chosen(np.flatnonzero(models.cycles == 0))


def _belief(models: LevelModels, gains: Floats) -> Floats:
    """In each model, (n,), 0 where it is negligible."""
    logs = gains + models.prior_logs
    belief: Floats = np.exp(logs - logs.max())
    belief[belief <= _NEGLIGIBLE] = 0.0
    return np.asarray(belief / belief.sum())


def _gains(models: LevelModels, series: CampaignSeries, ages: Floats) -> tuple[Floats, LevelFilter]:
    """The Poisson log likelihood of each model, (n,), against levels of 0, and what is believed
    after the last hour."""
    gains = np.zeros(len(models.steps))
    for hour, filtered in enumerate(_steps(models, series, ages)):
        if hour < len(ages):
            found = filtered.at(float(ages[hour]))
            gains += found @ series.observed[:, hour] - np.expm1(found) @ series.expected[:, hour]
    return gains, filtered


def _steps(models: LevelModels, series: CampaignSeries, ages: Floats) -> Iterator[LevelFilter]:
    """What is believed of each hour before it is told, and after the last."""
    filtered = LevelFilter.before(models, series.variances)
    # Hours from the one before to each, none to the first.
    between = -np.diff(ages, prepend=ages[:1])
    for hour, (age, since) in enumerate(zip(ages.tolist(), between.tolist(), strict=True)):
        filtered.pass_time(since)
        filtered.jump(series.jumps[:, hour], series.variances)
        yield filtered
        filtered.learn(series.observed[:, hour], series.expected[:, hour], age)
    yield filtered
