"""The state-space filter of levels: a local level, with a damped trend or a daily cycle or neither.

Which of a few models of how levels move fits the campaigns, and where it puts each of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import NamedTuple, Self

import numpy as np

from calibrators.peers import ALONE, Peers
from calibrators.samples import Floats, Integers

_STEPS = (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)
_TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
_PERSISTENCE = (0.9, 0.95)
_CYCLES = (0.01, 0.04, 0.16)
_STEPS_OF_CYCLES = (0.0, 1e-4, 1.6e-3, 6.4e-3)

DAY = 24.0
"""Hours."""

_TWICE = 1.5 * DAY
"""What has not come twice is no cycle: in less hours none is looked for."""


class LevelModels(NamedTuple):
    """A local level with a damped trend and a daily cycle: n ways of moving, each an array (n, 1).

    steps : variance of an hour's random step of the level, in log ratio.
    trends : variance of an hour's random step of the trend, in log ratio an hour.
    persistence : the share of a trend that is left after an hour, in [0, 1).
    cycles : variance of each of the two amplitudes of the day's wave, in log ratio; 0 for none.

    Source: Harrison and Stevens, JRSS B 38, 1976; damped: Gardner and McKenzie, Management Science
    31, 1985; seasonal effects in Fourier form: West and Harrison, Bayesian Forecasting and Dynamic
    Models, 1997, section 8.6.
    """

    steps: Floats
    trends: Floats
    persistence: Floats
    cycles: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, float]]) -> "LevelModels":
        """From a row (step, trend, persistence, cycle) each."""
        return cls(*np.array(rows, np.float64).reshape(-1, 4).T[:, :, None])

    def chosen(self, rows: Integers) -> "LevelModels":
        """Some of them."""
        return LevelModels(*(column[rows] for column in self))

    @property
    def ordinary(self) -> Floats:
        """The variance of a trend that has gone on for long, (n, 1)."""
        return np.asarray(self.trends / (1 - self.persistence**2))


LEVEL_MODELS = LevelModels.of(
    [
        *((step, 0.0, 0.0, 0.0) for step in _STEPS),
        *((0.0, trend, share, 0.0) for share in _PERSISTENCE for trend in _TRENDS),
        *((step, 0.0, 0.0, cycle) for cycle in _CYCLES for step in _STEPS_OF_CYCLES),
    ]
)
"""First a level that stays, then those that wander by half to 16 percent an hour, then those that
go their way for ten or twenty hours; last those that have a daily cycle besides."""


FARTHEST = 30.0
"""Log ratios beyond which none is looked for: they would overflow, and mean nothing."""

_KNOWN = 1e-15
"""Variance of a log ratio from which on there is nothing to learn: less is rounding."""

_ROUNDS = 4
"""Newton's steps to a level: from above they come down to it, the last by less than noise, if it
is not very far."""

_NOISE = 1e-3

AHEAD = 0.5
"""Hours from the moment to the middle of the hour that is served."""

JUMP = 0.5
"""Variance, at least, of a level that is new after a certain jump, less so the less certain it is:
what has jumped is not one of the campaigns that are all alike, which the variance before the first
hour may be of."""

HARMONICS = 2
"""Waves of a campaign's daily cycle: of a day, and of half a day."""

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
    def before(cls, models: LevelModels, variances: Floats, harmonics: int = HARMONICS) -> Self:
        """What is believed before the first hour, of levels that have these variances, (c,)."""
        shape = (len(models.steps), len(variances))
        states = _WAVES + 2 * harmonics
        covariances = np.zeros((states, states, *shape))
        covariances[_LEVEL, _LEVEL] = variances
        covariances[_TREND, _TREND] = models.ordinary
        for wave in range(_WAVES, states):
            covariances[wave, wave] = models.cycles / (wave // 2) ** 2
        return cls(models, np.zeros((states, *shape)), covariances)

    def pass_time(self, hours: float) -> None:
        """What is believed so many hours later."""
        steps, _, persistence, _ = self.models
        left, ordinary = persistence**hours, self.models.ordinary
        level, trend = self.means[_LEVEL], self.means[_TREND]
        self.means[_LEVEL] = (level + hours * trend).clip(-FARTHEST, FARTHEST)
        self.means[_TREND] = left * trend
        of = self.covariances
        of[_LEVEL] += hours * of[_TREND]
        of[:, _LEVEL] += hours * of[:, _TREND]
        of[_LEVEL, _LEVEL] += hours * steps
        of[_TREND] *= left
        of[:, _TREND] *= left
        of[_TREND, _TREND] += ordinary * (1 - left**2)

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
        moved = np.divide(found - rates, spreads, np.zeros_like(rates), where=spreads > _KNOWN)
        self.means += ties * moved
        gain = ties * (information / (1 + information * spreads))
        self.covariances -= gain[:, None] * ties[None]

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
    function, which Newton's steps from any point above it do not pass."""
    tiny = np.finfo(float).tiny
    seen = np.log(np.maximum(observed, tiny)) - np.log(np.maximum(expected, tiny))
    found: Floats = np.minimum(low + spreads * observed, np.maximum(low, seen))
    found = found.clip(-FARTHEST, FARTHEST)
    for _ in range(_ROUNDS):
        rates = expected * np.exp(found)
        gradients = spreads * (observed - rates) - (found - low)
        steps = gradients / (spreads * rates + 1)
        # Not by np.clip, whose call costs more than the work.
        found = np.minimum(np.maximum(found + steps, -FARTHEST), FARTHEST)
    far = steps < -_NOISE
    if far.any():
        # Far above the zero a step is 1 at most.
        found[far] = _far_modes(low, spreads, observed, expected)[far]
    return found


def _far_modes(low: Floats, spreads: Floats, observed: Floats, expected: Floats) -> Floats:
    """The same in closed form: with b = low + spread * observed the zero is b - w, where
    w + ln w = ln(spread * expected) + b.

    Source: Corless and Jeffrey, The Wright omega function, AISC 2002.
    """
    from scipy.special import wrightomega

    ends, product = low + spreads * observed, np.maximum(spreads * expected, np.finfo(float).tiny)
    found = ends - wrightomega(np.log(product) + ends)
    return np.asarray(found.clip(-FARTHEST, FARTHEST))


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


FOLLOWED = 8
"""Hours in which a level that wanders slowly stays about the same."""

SPANS = (1, 2, 4, 8, 16)
"""Newest hours that are held against those before them: a jump began one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class AveragedFilter:
    """Models, and the belief in each, (n,), their sum 1.

    Each of `EVERY` predicts every hour from those before it (Dawid's prequential principle, JRSS A
    147, 1984). Belief goes with the Poisson likelihood of all hours so predicted; before there are
    any, half of it is that levels stay. The levels of all models are averaged by it (Hoeting et
    al., Statistical Science 14, 1999).
    """

    models: LevelModels
    belief: Floats
    harmonics: int
    evidence: float
    """The logarithm of that likelihood, averaged over all models by what is believed before."""

    @classmethod
    def of(
        cls, series: CampaignSeries, ages: Floats, harmonics: int = HARMONICS, peers: Peers = ALONE
    ) -> Self:
        """What fits these campaigns, found with the `peers`; ages: (h,), of the hours' middles."""
        seen = ages[series.expected.any(axis=0)]
        returns = len(seen) and float(seen[0] - seen[-1]) >= _TWICE
        waves = harmonics if returns else 0
        parts = peers.gather((_gains(piece, ages, waves),) for piece in series.pieces(peers))
        found: Floats = np.sum([gains for (gains,) in parts], axis=0) + _prior_logs(LEVEL_MODELS)
        found[LEVEL_MODELS.cycles[:, 0] > 0] -= 0.0 if returns else np.inf
        belief = np.exp(found - found.max())
        kept = np.flatnonzero(belief > _NEGLIGIBLE)
        evidence = float(found.max() + np.log(belief.sum()))
        shares = belief[kept] / belief[kept].sum()
        # Waves that stay 0 are not carried along.
        models = LEVEL_MODELS.chosen(kept)
        return cls(models, shares, harmonics if models.cycles.any() else 0, evidence)

    def forecast(self, series: CampaignSeries, ages: Floats) -> LevelForecast:
        """Of the hour that is served."""
        found = [self._forecast(piece, ages) for piece in series.pieces()]
        return LevelForecast(*map(np.concatenate, zip(*found, strict=True)))

    def _forecast(self, series: CampaignSeries, ages: Floats) -> LevelForecast:
        begins = [max(len(ages) - span, 0) for span in SPANS]
        before = {0: np.zeros((2, len(series.variances)))}
        for hour, filtered in enumerate(_steps(self.models, series, ages, self.harmonics)):
            if hour in begins and hour < len(ages):
                span = slice(hour, len(ages))
                before[hour] = self._missed(filtered, series, ages, span)[1:3]
        filtered.pass_time(AHEAD + float(ages[-1:].sum()))
        cycles = self._cycles(filtered, np.append(ages, -AHEAD))
        found = self._averaged(filtered, -AHEAD)
        told = np.stack([before[hour].T for hour in begins], axis=2)
        return LevelForecast(*found, cycles[:, :-1] - cycles[:, -1:], told)

    def misses(self, series: CampaignSeries, ages: Floats, peers: Peers = ALONE) -> Floats:
        """`FOLLOWED` hours in turn against what those before them predict, (4, n): positives
        observed and expected, the variance of the predicted level in the middle of them, and the
        positives expected in as many hours before; the first quarter of all hours left out."""
        own = (part for piece in series.pieces(peers) for part in self._misses(piece, ages))
        return np.hstack([np.empty((4, 0)), *(part for (part,) in peers.gather(zip(own)))])

    def _misses(self, series: CampaignSeries, ages: Floats) -> Iterator[Floats]:
        first = -(-len(ages) // 4)
        begins = range(len(ages) - FOLLOWED, first - 1, -FOLLOWED)
        for hour, filtered in enumerate(_steps(self.models, series, ages, self.harmonics)):
            if hour in begins:
                yield self._missed(filtered, series, ages, slice(hour, hour + FOLLOWED))

    def _missed(
        self, filtered: LevelFilter, series: CampaignSeries, ages: Floats, now: slice
    ) -> Floats:
        past = slice(max(now.start - FOLLOWED, 0), now.start)
        middle = float(ages[now].mean())
        then = filtered.later(float(ages[now.start]) - middle)
        waves = np.vstack([_state_weights(age, self.harmonics) for age in ages[now].tolist()])
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

    def cycles(self, series: CampaignSeries, ages: Floats, at: Floats) -> Floats:
        """The daily cycles alone at moments of these ages, (t,): log ratios, (c, t)."""
        if not self.harmonics:
            return np.zeros((len(series.variances), len(at)))
        *_, filtered = _steps(self.models, series, ages, self.harmonics)
        return self._cycles(filtered, at)

    def _cycles(self, filtered: LevelFilter, at: Floats) -> Floats:
        amplitudes = np.einsum("n,snc->cs", self.belief, filtered.means[_WAVES:])
        waves = [_state_weights(age, self.harmonics)[0, _WAVES:] for age in at.tolist()]
        return np.asarray(amplitudes @ np.stack(waves, axis=1))

    def strengths(self) -> dict[str, float]:
        """The likeliest model, in standard deviations; nothing if levels stay."""
        step, trend, persistence, cycle = (
            float(column[np.argmax(self.belief), 0]) for column in self.models
        )
        found = {"campaign_cycle": sqrt(cycle)} if cycle else {}
        if trend:
            return {**found, "campaign_trend": sqrt(trend), "campaign_persistence": persistence}
        return {**found, "campaign_step": sqrt(step)} if step else found


def _prior_logs(models: LevelModels) -> Floats:
    """Half of the belief is that there is no cycle, and half of either that levels stay."""
    cycle, moves = models.cycles[:, 0] > 0, (models.steps + models.trends)[:, 0] > 0
    logs = np.zeros(len(cycle))
    for some in (cycle & moves, cycle & ~moves, ~cycle & moves, ~cycle & ~moves):
        logs[some] = -log(4 * np.count_nonzero(some))
    return logs


def _gains(series: CampaignSeries, ages: Floats, harmonics: int) -> Floats:
    """The Poisson log likelihood of each model, (n,), against levels of 0."""
    gains = np.zeros(len(LEVEL_MODELS.steps))
    steps = _steps(LEVEL_MODELS, series, ages, harmonics)
    told = zip(ages.tolist(), series.observed.T, series.expected.T, strict=True)
    for (age, observed, expected), filtered in zip(told, steps, strict=False):
        found = filtered.at(age)
        gains += found @ observed - np.expm1(found) @ expected
    return gains


def _steps(
    models: LevelModels, series: CampaignSeries, ages: Floats, harmonics: int
) -> Iterator[LevelFilter]:
    """What is believed of each hour before it is told, and after the last."""
    filtered = LevelFilter.before(models, series.variances, harmonics)
    # Hours from the one before to each, none to the first.
    between = -np.diff(ages, prepend=ages[:1])
    for hour, (age, since) in enumerate(zip(ages.tolist(), between.tolist(), strict=True)):
        filtered.pass_time(since)
        filtered.jump(series.jumps[:, hour], series.variances)
        yield filtered
        filtered.learn(series.observed[:, hour], series.expected[:, hour], age)
    yield filtered
