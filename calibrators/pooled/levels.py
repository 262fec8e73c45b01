"""Fast levels: how far the target, its groups and its campaigns have moved from their shape.

Each level of the hierarchy looks at what those above it leave. A level of half-life H and
pseudo-count k says of an hour that it has the ratio

    (k + sum of w Y) / (k + sum of w E),    w = 2 ** -(hours since / H),

over the hours before it: the posterior mean of a Poisson rate with a Gamma(k, k) prior whose past
is discounted (Smith, JRSS B 41, 1979; Harvey and Fernandes, J. Business and Economic Statistics 7,
1989). Each k of a fixed grid predicts every hour from those before it (Dawid's prequential
principle, JRSS A 147, 1984). What it gains in Poisson log likelihood over no shift at all is the
log loss that a served map would have saved, and it adds over hours, campaigns and blocks of them.

Ratios are of rates, and are found in their logarithms; what is added to a score is in log-odds, see
`serving.in_log_odds`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrators.peers import ALONE, Peers
from calibrators.pooled.change_points import HourWeights, hour_weights, jump_levels
from calibrators.pooled.outliers import (
    CampaignHours,
    PlatformHours,
    burst_hours,
    complete_hours,
    outage_hours,
    starts,
)
from calibrators.pooled.serving import in_log_odds, learnt_variance, mixture_variance
from calibrators.pooled.state_space import (
    AHEAD,
    FARTHEST,
    FOLLOWED,
    JUMP,
    OF_CAMPAIGNS,
    AveragedFilter,
    CampaignSeries,
    LevelForecast,
    LevelModels,
    daily_cycles,
    level_models,
)
from calibrators.samples import Floats, scratch_of, sum_at

PSEUDO_COUNTS: Floats = np.append(np.inf, 2.0 ** np.arange(14, -2, -1))
"""In positives, the largest first, so that it wins where all are equal: it allows no shift."""


class LevelModel(NamedTuple):
    """A half-life in hours, and the pseudo-count with which its ratio is drawn to 1."""

    half_life: float
    pseudo_count: float


_BOUND = log(3.0)
"""Log ratio; neither the target's shift, nor a group's against the target's, nor a campaign's
against its group's exceeds it, up or down."""

_HALF_LIVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
"""Hours, of which the data choose one for the target and one for the groups."""


class Movements(NamedTuple):
    """How target, groups and campaigns may move."""

    # Of a target down to waves of four hours, as far as its hours are likelier so: a morning that
    # comes and goes within a few hours. Groups are seen against the target, which has it, and have
    # the clicks for eight hours.
    target: LevelModels = level_models(3, 6)
    groups: LevelModels = level_models(3)
    campaigns: LevelModels = OF_CAMPAIGNS


ALL_MOVEMENTS = Movements()


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What to add to log-odds.

    shifts : (c,), of each campaign, with its target's and group's.
    target_shift : of the target, for campaigns without a map of their own.
    group_shifts : (g,), of each group, with the target's.
    variances : (c,), of each campaign's shift in the hour that is served.
    target_variance, group_variances : of theirs, (g,) for the groups, with the target's.
    frozen : whether the newest hours are taken for a tracking outage: they count nothing.
    set_aside : (c,), whether the newest hour counts nothing because of bots or an outage.
    strengths : the half-lives and pseudo-counts that the data chose, for reports; where the data
        choose no shift, there is none.
    movements : those that are believed.
    """

    shifts: Floats
    target_shift: float
    group_shifts: Floats
    variances: Floats
    target_variance: float
    group_variances: Floats
    frozen: bool
    strengths: Mapping[str, float] = field(default_factory=dict)
    set_aside: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    movements: Movements = ALL_MOVEMENTS

    def of_all(self, peers: Peers) -> "Levels":
        """Those of all workers' campaigns, for the first of them."""
        own = self.shifts, self.variances, self.set_aside
        shifts, variances, set_aside = peers.joined(*own, to_first=True)
        return replace(self, shifts=shifts, variances=variances, set_aside=set_aside)


def levels_of_blocks(
    blocks: Sequence[CampaignHours],
    ages: Floats,
    groups: int,
    peers: Peers = ALONE,
    movements: Movements = ALL_MOVEMENTS,
) -> Levels:
    """The levels of the campaigns of one block or more, in their order; the weights are those of
    these hours, whatever they weighed. `groups`: how many groups there are; `movements`: those that
    are tried."""
    scratch = scratch_of(blocks)
    found = scratch.kept(block_weights(blocks, ages, peers))
    weighed = scratch.kept(
        block._replace(weights=each.weights, begun=each.begun)
        for block, each in zip(blocks, found, strict=True)
    )
    hours = CountedHours.of(found[0].outage, ages)
    levels = LevelHierarchy.of(weighed, hours, groups, peers, movements).levels(weighed)
    return replace(levels, set_aside=np.concatenate([each.set_aside for each in found]))


def block_weights(
    blocks: Sequence[CampaignHours], ages: Floats, peers: Peers = ALONE
) -> Iterator[HourWeights]:
    """`hour_weights` of each block, with the outages and bursts that all blocks together show."""
    outage = outage_hours(PlatformHours.of(blocks, peers))
    for block, bursts in zip(blocks, burst_hours(blocks, peers), strict=True):
        yield hour_weights(block.expected, block.observed, ages, outage=outage, bursts=bursts)


class CountedHours(NamedTuple):
    """The hours that count.

    places : of all hours, those up to the last that counts.
    counted : (h,), of these, those that are no outage.
    ages : (h,), as of the end of the last of them: in an outage, time stands still.
    frozen : whether the hours after them are an outage.
    """

    places: slice
    counted: NDArray[np.bool_]
    ages: Floats
    frozen: bool

    @classmethod
    def of(cls, outage: NDArray[np.bool_], ages: Floats) -> "CountedHours":
        """Leaves out what is incomplete, and the hours of a tracking outage, (h,); ages as
        `complete_hours` has them."""
        ages = np.maximum(ages, 0.0)
        out = outage[complete_hours(ages)]
        behind = int(np.flatnonzero(~out)[-1]) + 1 if not out.all() else 0
        kept = ages[:behind]
        frozen = behind < len(out)
        stood_still = kept[-1:].sum() - 0.5 if frozen else 0.0
        return cls(slice(0, behind), ~out[:behind], kept - stood_still, frozen)

    def of_block(self, block: CampaignHours) -> CampaignHours:
        """A block in these hours, those of an outage without weight."""
        chosen = block.chosen(self.places)
        return chosen._replace(weights=chosen.weights * self.counted)


class Amounts(NamedTuple):
    """Observed and expected positives of n rows in h hours, weighted and capped, (n, h) each."""

    observed: Floats
    expected: Floats

    @classmethod
    def of(cls, block: CampaignHours, factors: Floats) -> "Amounts":
        """A block whose expected positives are multiplied by factors that broadcast to (c, h).

        What an hour has above e ** `_BOUND` of the expected, and three standard deviations of that,
        is cut off: no attack weighs more than a real shift.
        """
        expected = block.expected * factors
        most = np.exp(_BOUND) * expected
        observed = np.minimum(block.observed, most + 3 * np.sqrt(most) + 3)
        return cls(observed * block.weights, expected * block.weights)

    @classmethod
    def of_groups(cls, block: CampaignHours, groups: int) -> "Amounts":
        """Of each group, (groups + 1, h); the last row of campaigns without one."""
        sums = np.zeros((2, groups + 1, block.expected.shape[1]))
        for of_groups, amounts in zip(sums, cls.of(block, np.ones(1)), strict=True):
            np.add.at(of_groups, block.groups, amounts)
        return cls(*sums)

    def ratios(self, weights: Floats, pseudo_count: float) -> Floats:
        """Of the sums over hours with these weights, (h,) or (h, t), as `_ratios` has it."""
        return _ratios(self.observed @ weights, self.expected @ weights, pseudo_count)

    def gains(self, ages: Floats, half_life: float) -> Floats:
        """The Poisson log likelihood of all hours that each pseudo-count gains, (k,), predicting
        each from those that were past when it began."""
        weights = _past_weights(ages, half_life)
        past_observed, past_expected = self.observed @ weights, self.expected @ weights
        seen = (self.observed > 0) | (self.expected > 0)
        columns = (self.observed, self.expected, past_observed, past_expected)
        y, e, past_y, past_e = (column[seen] for column in columns)
        ratios = _ratios(past_y, past_e, PSEUDO_COUNTS[:, None])
        return np.asarray(np.log(ratios) @ y - (ratios - 1) @ e)


def _past_weights(ages: Floats, half_life: float) -> Floats:
    """Of each hour, (h, h), for what is known when another one begins."""
    since = ages[:, None] - starts(ages)[None, :]
    return np.where(since >= 0, np.exp2(-np.maximum(since, 0.0) / half_life), 0.0)


def _ratios(observed: Floats, expected: Floats, pseudo_count: Floats | float) -> Floats:
    """(k + observed) / (k + expected) within `_BOUND` of 1; 1 where k is infinite."""
    shares = 1 / np.asarray(pseudo_count)
    found = (1 + observed * shares) / (1 + expected * shares)
    return np.clip(found, np.exp(-_BOUND), np.exp(_BOUND))


class LevelPath(NamedTuple):
    """The ratios of the target, or of its groups.

    model : what the data chose.
    then : (n, h), in each hour, in hindsight: what the campaigns' past is freed of.
    before : (n, h), as known when each hour began.
    now : (n,), at the moment.
    variances : (n,), of the logarithms of the ratios in the hour that is served.
    cycles : the models of daily cycles that are believed.
    """

    model: LevelModel
    then: Floats
    before: Floats
    now: Floats
    variances: Floats
    cycles: LevelModels

    @classmethod
    def of(cls, amounts: Amounts, ages: Floats, models: LevelModels) -> "LevelPath":
        """Of the half-life and pseudo-count that would have predicted these rows best, once their
        daily cycles, of these models, are taken out of them."""
        cycles, believed = _cycles(amounts, ages, models)
        jumps = jump_levels(amounts.expected * cycles[:, :-1], amounts.observed)
        cycles *= np.exp(jumps.clip(-_BOUND, _BOUND))
        level = Amounts(amounts.observed, amounts.expected * cycles[:, :-1])
        gains = [level.gains(ages, half_life) for half_life in _HALF_LIVES]
        row, column = divmod(int(np.argmax(gains)), len(PSEUDO_COUNTS))
        half_life, count = _HALF_LIVES[row], float(PSEUDO_COUNTS[column])
        between = np.abs(ages[:, None] - ages[None, :])
        then, before, now = (
            level.ratios(weights, count)
            for weights in (
                np.exp2(-between / half_life),
                _past_weights(ages, half_life),
                np.exp2(-ages / half_life),
            )
        )
        most = np.exp(_BOUND)
        served = np.clip(now * cycles[:, -1], 1 / most, most)
        each = cycles[:, :-1]
        variances = _path_variances(level, before, now)
        chosen = LevelModel(half_life, count)
        return cls(chosen, then * each, before * each, served, variances, believed)


_JUMPS_OF_PATHS = (0.01, 0.1)
"""Jumps an hour of the levels of target and groups, and their variance: once in four days, and by
a third."""


def _path_variances(amounts: Amounts, before: Floats, now: Floats) -> Floats:
    """Of the logarithms of the ratios of n rows, (n,): what they missed of each hour, (n, h), the
    first quarter left out, and what the newest hours say against the ratios now, (n,)."""
    first = -(-before.shape[1] // 4)
    observed, expected = (
        table[:, first:].reshape(-1) for table in (amounts.observed, amounts.expected * before)
    )
    missed = learnt_variance(observed, expected, *np.zeros((2, len(expected))))
    served = amounts.expected * now[:, None]
    return mixture_variance(amounts.observed, served, np.full(len(now), missed), *_JUMPS_OF_PATHS)


_ORDINARY = 0.1
"""Variance of a level of target or group before its first hour, in log ratio."""


def _cycles(amounts: Amounts, ages: Floats, models: LevelModels) -> tuple[Floats, LevelModels]:
    """Ratios of the daily cycles of n rows in each hour, and in that which is served, (n, h + 1),
    and the models that are believed."""
    none = np.zeros(amounts.observed.shape)
    if not len(none):
        return np.ones((0, len(ages) + 1)), models
    series = CampaignSeries(*amounts, none, np.full(len(none), _ORDINARY))
    found, believed = daily_cycles(series, ages, models, np.append(ages, -AHEAD))
    return np.exp(found), believed


@dataclass(frozen=True, slots=True, eq=False)
class LevelHierarchy:
    """What the levels of a block of campaigns need to know of all of them.

    hours : those that count.
    target : its path, n = 1.
    groups : theirs against the target's; the last row is that of campaigns without a group, 1.
    rates : mean probabilities of the positives of the groups and, last, of the target.
    campaigns : how they move, against target and group.
    wandering : variance of log ratios by which campaigns wander besides, as far as they are not
        followed.
    jumps : of a campaign's level, an hour.
    forecast : of the campaigns, where there is but one block and `campaigns` learnt of all of it.
    """

    hours: CountedHours
    target: LevelPath
    groups: LevelPath
    rates: Floats
    campaigns: AveragedFilter
    wandering: float
    jumps: float
    forecast: LevelForecast | None = None

    @classmethod
    def of(
        cls,
        blocks: Sequence[CampaignHours],
        hours: CountedHours,
        groups: int = 0,
        peers: Peers = ALONE,
        movements: Movements = ALL_MOVEMENTS,
    ) -> "LevelHierarchy":
        """From all blocks, which are gone through three times; `groups` how many there are,
        `movements` those that are tried."""
        target, of_groups = _paths(blocks, hours, groups, peers, movements)
        own = (_own_series(hours.of_block(block), target, of_groups) for block in blocks)
        busiest = reduce(CampaignSeries.with_more, own, CampaignSeries.none(len(hours.ages)))
        parts = map(CampaignSeries._make, peers.gather([busiest]))
        busiest = reduce(CampaignSeries.with_more, parts)
        campaigns = AveragedFilter.of(busiest, hours.ages, movements.campaigns, peers)
        missed, forecast = campaigns.tried(busiest, hours.ages, peers)
        if len(blocks) != 1 or len(blocks[0].groups) != len(busiest.variances):
            forecast = None
        rates, jumps = _shared_rates(blocks, groups, peers), jump_rate(blocks, peers)
        wandering = learnt_variance(*missed)
        return cls(hours, target, of_groups, rates, campaigns, wandering, jumps, forecast)

    def levels(self, blocks: Iterable[CampaignHours]) -> Levels:
        """Those of the campaigns of these blocks, in their order."""
        found = np.hstack([np.empty((2, 0)), *map(self._shifts, blocks)])
        ratios = np.append(self.target.now[0] * self.groups.now[:-1], self.target.now)
        above = np.append(self.target.variances + self.groups.variances[:-1], self.target.variances)
        shifts, variances = in_log_odds(np.log(ratios), above + self.wandering, self.rates)
        return Levels(
            shifts=found[0],
            target_shift=float(shifts[-1]),
            group_shifts=shifts[:-1],
            variances=found[1],
            target_variance=float(variances[-1]),
            group_variances=variances[:-1],
            frozen=self.hours.frozen,
            strengths=self._strengths(),
            movements=Movements(self.target.cycles, self.groups.cycles, self.campaigns.models),
        )

    def _shifts(self, block: CampaignHours) -> Floats:
        """Shifts and their variances, (2, c)."""
        counted = self.hours.of_block(block)
        own = _own_series(counted, self.target, self.groups)
        forecast = self.forecast or self.campaigns.forecast(own, self.hours.ages)
        moved = np.clip(forecast.means - block.fitted, -_BOUND, _BOUND)
        shifts: Floats = np.log(self.target.now[0] * self.groups.now[block.groups]) + moved
        variances = self._own_variances(own, forecast)
        above = self.target.variances + self.groups.variances[block.groups]
        return np.stack(in_log_odds(shifts, variances + above, block.rates))

    def _own_variances(self, own: CampaignSeries, forecast: LevelForecast) -> Floats:
        """Of the campaigns' levels against those above them, (c,)."""
        served = own.expected * np.exp(forecast.means[:, None] + forecast.cycles)
        followed = served[:, -FOLLOWED:].sum(axis=1)
        wandering = self.wandering / (1 + self.wandering * followed)
        variances = forecast.variances + wandering
        told = (self.jumps, JUMP, forecast.before)
        return mixture_variance(own.observed, served, variances, *told)

    def _strengths(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, model in (("target", self.target.model), ("group", self.groups.model)):
            if isfinite(model.pseudo_count):
                found[f"{name}_half_life"] = model.half_life
                found[f"{name}_strength"] = model.pseudo_count
        return found | self.campaigns.strengths()


def _shared_rates(blocks: Iterable[CampaignHours], groups: int, peers: Peers) -> Floats:
    """See `LevelHierarchy.rates`, (groups + 1,)."""
    sums = peers.sum(_rate_sums(block, groups) for block in blocks)
    sums[:, -1] = sums.sum(axis=1)
    return np.asarray(sums[0] / np.maximum(sums[1], np.finfo(float).tiny))


def _rate_sums(block: CampaignHours, groups: int) -> Floats:
    """Expected positives times their mean probability, and these positives, of each group and,
    last, of campaigns without one, (2, groups + 1)."""
    expected = block.expected.sum(axis=1)
    places = block.groups % (groups + 1)
    return np.stack(
        [sum_at(places, each, groups + 1) for each in (expected * block.rates, expected)]
    )


_FEWEST_OF_JUMPS = 100
"""Positives of a campaign whose jumps are found."""

_HOURS_BEFOREHAND = 360.0
"""Hours of such campaigns in which there was half a jump, before there is anything to go by."""


def jump_rate(blocks: Iterable[CampaignHours], peers: Peers = ALONE) -> float:
    """Jumps an hour of a campaign, from the chances of those that were found."""
    jumps, hours = 0.5, _HOURS_BEFOREHAND
    for (part,) in peers.gather((_jumps(block),) for block in blocks):
        jumps += float(part[0])
        hours += float(part[1])
    return jumps / hours


def _jumps(block: CampaignHours) -> Floats:
    """Jumps of a block, and the hours of campaigns whose jumps are found, (2,)."""
    found = block.observed.sum(axis=1) >= _FEWEST_OF_JUMPS
    hours = np.count_nonzero(found) * block.observed.shape[1]
    return np.array([(1 - block.begun.min(axis=1, initial=1.0)).sum(), hours])


def _own_series(block: CampaignHours, target: LevelPath, groups: LevelPath) -> CampaignSeries:
    """What a block's campaigns leave of the paths of target and groups, before the levels of their
    own that these hours were fitted to."""
    factors = target.then * groups.then[block.groups]
    in_run = block._replace(weights=block.weights / block.begun)
    amounts = Amounts.of(in_run, factors)
    before = amounts.expected * np.exp(-np.clip(block.fitted, -FARTHEST, FARTHEST))[:, None]
    earlier = np.concatenate((block.begun[:, :1], block.begun[:, :-1]), axis=1)
    return CampaignSeries(amounts.observed, before, 1 - earlier / block.begun, block.variances)


def _paths(
    blocks: Iterable[CampaignHours], hours: CountedHours, groups: int, peers: Peers, of: Movements
) -> tuple[LevelPath, LevelPath]:
    counted = map(hours.of_block, blocks)
    each = (np.stack(Amounts.of_groups(block, groups)) for block in counted)
    sums = Amounts(*peers.sum(each))
    whole = Amounts(*(amount.sum(axis=0, keepdims=True) for amount in sums))
    target = LevelPath.of(whole, hours.ages, of.target)
    named = Amounts(sums.observed[:-1], sums.expected[:-1] * target.then)
    found = LevelPath.of(named, hours.ages, of.groups)
    none = np.ones((1, len(hours.ages)))
    then, before = (np.vstack([rows, none]) for rows in (found.then, found.before))
    now, variances = np.append(found.now, 1.0), np.append(found.variances, 0.0)
    return target, LevelPath(found.model, then, before, now, variances, found.cycles)
