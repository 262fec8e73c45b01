"""Fast levels: how far the target, its groups and its campaigns have moved from their shape.

The cascade of levels: target, groups, campaigns, each on what those before it leave.
A stage of levels: the ratio of the last hours, drawn to 1 where they have few positives.
How strongly a level is drawn to the level above it: chosen by how well it would have predicted.

A level of half-life H and strength k says of an hour that it has the ratio

    (k + sum of w Y) / (k + sum of w E),    w = 2 ** -(hours since / H),

over the hours before it: the posterior mean of a Poisson rate with a Gamma(k, k) prior whose past
is discounted (Smith, JRSS B 41, 1979; Harvey and Fernandes, J. Business and Economic Statistics 7,
1989). Each k of a fixed grid predicts every hour from those before it (Dawid's prequential
principle, JRSS A 147, 1984). What it gains in Poisson log likelihood over no shift at all is the
log loss that a served map would have saved, and it adds over hours, campaigns and blocks of them.
Which hours count in the levels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.pooled.campaign_hours import CampaignHours, check_ages, complete_hours, starts
from calibrators.pooled.change_points import hour_weights
from calibrators.pooled.outliers import PlatformHours, outage_hours
from calibrators.pooled.state_space import AveragedFilter, CampaignSeries
from calibrators.samples import Floats

PSEUDO_COUNTS: Floats = np.append(np.inf, 2.0 ** np.arange(14, -2, -1))
"""In positives, the strongest first, so that it wins where all are equal: it allows no shift."""


def past_weights(ages: Floats, starts: Floats, half_life: float) -> Floats:
    """What hour s counts in a prediction of hour t that is made when t begins, (h, h) by s and t:
    0 unless s is past then."""
    since = ages[:, None] - starts[None, :]
    return np.where(since >= 0, np.exp2(-np.maximum(since, 0.0) / half_life), 0.0)


def near_weights(ages: Floats, half_life: float) -> Floats:
    """What hour s counts in hindsight at hour t, (h, h)."""
    return np.exp2(-np.abs(ages[:, None] - ages[None, :]) / half_life)


def ratio(observed: Floats, expected: Floats, strength: float, bound: float) -> Floats:
    """(k + observed) / (k + expected), between exp(-bound) and exp(bound)."""
    if not np.isfinite(strength):
        return np.ones_like(observed)
    found = (strength + observed) / (strength + expected)
    return np.clip(found, np.exp(-bound), np.exp(bound))


def gains(
    observed: Floats, expected: Floats, past_observed: Floats, past_expected: Floats, bound: float
) -> Floats:
    """The Poisson log likelihood of any number of cells that each strength gains, (k,): all four
    arrays are of one shape, the past ones discounted sums."""
    seen = (observed > 0) | (expected > 0)
    y, e, past_y, past_e = (a[seen] for a in (observed, expected, past_observed, past_expected))
    ratios = (ratio(past_y, past_e, strength, bound) for strength in PSEUDO_COUNTS.tolist())
    return np.array([float(y @ np.log(r) - e @ (r - 1)) for r in ratios])


class LevelModel(NamedTuple):
    """A half-life in hours, and the strength with which its ratio is drawn to 1."""

    half_life: float
    strength: float


class Amounts(NamedTuple):
    """Observed and expected positives of n rows in h hours, weighted and capped, (n, h) each."""

    observed: Floats
    expected: Floats

    @classmethod
    def of(cls, block: CampaignHours, factors: Floats, bound: float) -> "Amounts":
        """A block whose expected positives are multiplied by factors that broadcast to (c, h).

        What an hour has above e ** bound of the expected, and three standard deviations of that,
        is cut off: no attack weighs more than a real shift.
        """
        expected = block.expected * factors
        most = np.exp(bound) * expected
        observed = np.minimum(block.observed, most + 3 * np.sqrt(most) + 3)
        return cls(observed * block.weights, expected * block.weights)


def best_level_model(
    amounts: Amounts, ages: Floats, half_lives: Sequence[float], bound: float
) -> LevelModel:
    """The half-life and strength that would have predicted these rows best."""
    found = [_gains(amounts, ages, half_life, bound) for half_life in half_lives]
    row, column = divmod(int(np.argmax(found)), len(PSEUDO_COUNTS))
    return LevelModel(half_lives[row], float(PSEUDO_COUNTS[column]))


def ratios_now(amounts: Amounts, ages: Floats, stage: LevelModel, bound: float) -> Floats:
    """What a stage says at the moment, (n,)."""
    weights = np.exp2(-ages / stage.half_life)
    return ratio(amounts.observed @ weights, amounts.expected @ weights, stage.strength, bound)


def ratios_then(amounts: Amounts, ages: Floats, stage: LevelModel, bound: float) -> Floats:
    """What a stage says of each hour in hindsight, (n, h)."""
    weights = near_weights(ages, stage.half_life)
    return ratio(amounts.observed @ weights, amounts.expected @ weights, stage.strength, bound)


def _gains(amounts: Amounts, ages: Floats, half_life: float, bound: float) -> Floats:
    """What each strength gains, (k,)."""
    weights = past_weights(ages, starts(ages), half_life)
    observed, expected = amounts
    return gains(observed, expected, observed @ weights, expected @ weights, bound)


class CountedHours(NamedTuple):
    """The hours that count.

    Attributes
    ----------
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
    def of(cls, blocks: Iterable[CampaignHours], ages: Floats) -> "CountedHours":
        """Leaves out what is incomplete, and tracking outages."""
        complete = complete_hours(ages)
        out = outage_hours(PlatformHours.of(blocks, len(ages)))[complete]
        behind = int(np.flatnonzero(~out)[-1]) + 1 if not out.all() else 0
        kept = ages[:behind]
        frozen = behind < len(out)
        stood_still = kept[-1:].sum() - 0.5 if frozen else 0.0
        return cls(slice(0, behind), ~out[:behind], kept - stood_still, frozen)

    def of_block(self, block: CampaignHours) -> CampaignHours:
        """A block in these hours, those of an outage without weight."""
        chosen = block.chosen(self.places)
        return chosen._replace(weights=chosen.weights * self.counted)


@dataclass(frozen=True, slots=True)
class LevelRules:
    """Bounds and scales of the levels: none depends on the traffic.

    Attributes
    ----------
    bound : log ratio; neither the target's shift, nor a group's against the target's, nor a
        campaign's against its group's exceeds it, up or down.
    half_lives : hours, of which the data choose one for the target and one for the groups.
    """

    bound: float = log(3.0)
    half_lives: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 24.0)


class LevelPath(NamedTuple):
    """The ratios of the target, or of its groups.

    Attributes
    ----------
    stage : what the data chose.
    then : (n, h), in each hour, in hindsight: what the campaigns' past is freed of.
    now : (n,), at the moment.
    """

    stage: LevelModel
    then: Floats
    now: Floats

    @classmethod
    def of(cls, amounts: Amounts, ages: Floats, rules: LevelRules) -> "LevelPath":
        """The best stage's."""
        stage = best_level_model(amounts, ages, rules.half_lives, rules.bound)
        then = ratios_then(amounts, ages, stage, rules.bound)
        return cls(stage, then, ratios_now(amounts, ages, stage, rules.bound))


@dataclass(frozen=True, slots=True, eq=False)
class LevelHierarchy:
    """What the levels of a block of campaigns need to know of all of them.

    Attributes
    ----------
    hours : those that count.
    target : its course, n = 1.
    groups : theirs against the target's; the last row is that of campaigns without a group, 1.
    campaigns : how they move, against target and group.
    """

    rules: LevelRules
    hours: CountedHours
    target: LevelPath
    groups: LevelPath
    campaigns: AveragedFilter

    @classmethod
    def of(
        cls, blocks: Iterable[CampaignHours], ages: ArrayLike, groups: int, rules: LevelRules
    ) -> "LevelHierarchy":
        """From all blocks, which are gone through three times."""
        hours = CountedHours.of(blocks, check_ages(ages))
        target, of_groups = _courses(blocks, hours, groups, rules)
        busiest = _nothing(len(hours.ages))
        for block in blocks:
            own = _own(hours.of_block(block), target, of_groups, rules)
            busiest = busiest.with_more(own)
        return cls(rules, hours, target, of_groups, AveragedFilter.of(busiest, hours.ages))

    def shifts(self, block: CampaignHours) -> Floats:
        """Of the campaigns of a block, (c,), with their target's and group's."""
        own = _own(self.hours.of_block(block), self.target, self.groups, self.rules)
        levels = self.campaigns.levels(own, self.hours.ages) - block.fitted
        moved = np.clip(levels, -self.rules.bound, self.rules.bound)
        shifts: Floats = np.log(self.target.now[0] * self.groups.now[block.groups]) + moved
        return shifts

    def strengths(self) -> dict[str, float]:
        """The half-lives and strengths of the stages that say anything."""
        named = {"target": self.target.stage, "group": self.groups.stage}
        spoken = {name: stage for name, stage in named.items() if isfinite(stage.strength)}
        found = {
            f"{name}_{field}": value
            for name, stage in spoken.items()
            for field, value in stage._asdict().items()
        }
        return found | self.campaigns.strengths()


def _own(
    block: CampaignHours, target: LevelPath, groups: LevelPath, rules: LevelRules
) -> CampaignSeries:
    """What a block's campaigns leave of the course of target and groups, and what they left before
    the hours told their own levels."""
    factors = target.then * groups.then[block.groups]
    in_run = block._replace(weights=block.weights / block.begun)
    amounts = Amounts.of(in_run, factors, rules.bound)
    before = amounts.expected * np.exp(-block.fitted)[:, None]
    earlier = np.concatenate((block.begun[:, :1], block.begun[:, :-1]), axis=1)
    return CampaignSeries(amounts.observed, before, 1 - earlier / block.begun, block.variances)


def _nothing(hours: int) -> CampaignSeries:
    observed, expected, jumps = np.empty((3, 0, hours))
    return CampaignSeries(observed, expected, jumps, np.empty(0))


def _courses(
    blocks: Iterable[CampaignHours], hours: CountedHours, groups: int, rules: LevelRules
) -> tuple[LevelPath, LevelPath]:
    sums = _group_sums(blocks, hours, groups, rules.bound)
    whole = Amounts(*(amount.sum(axis=0, keepdims=True) for amount in sums))
    target = LevelPath.of(whole, hours.ages, rules)
    named = Amounts(sums.observed[:-1], sums.expected[:-1] * target.then)
    stage, then, now = LevelPath.of(named, hours.ages, rules)
    none = np.ones((1, len(hours.ages)))
    return target, LevelPath(stage, np.vstack([then, none]), np.append(now, 1.0))


def _group_sums(
    blocks: Iterable[CampaignHours], hours: CountedHours, groups: int, bound: float
) -> Amounts:
    """Of each group, (groups + 1, h); the last row of campaigns without one."""
    observed, expected = np.zeros((2, groups + 1, len(hours.ages)))
    for block in blocks:
        amounts = Amounts.of(hours.of_block(block), np.ones(1), bound)
        np.add.at(observed, block.groups, amounts.observed)
        np.add.at(expected, block.groups, amounts.expected)
    return Amounts(observed, expected)


USUAL = LevelRules()


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Log ratios to add in log-odds.

    Attributes
    ----------
    shifts : (c,), of each campaign, with its target's and group's.
    target_shift : of the target, for campaigns without a map of their own.
    group_shifts : (g,), of each group, with the target's.
    frozen : whether the newest hours are taken for a tracking outage: they count nothing.
    strengths : the half-lives and strengths that the data chose, for reports; where the data
        choose no shift, there is no strength.
    """

    shifts: Floats
    target_shift: float
    group_shifts: Floats
    frozen: bool
    strengths: Mapping[str, float] = field(default_factory=dict)


def fit_levels(
    expected: ArrayLike,
    observed: ArrayLike,
    ages: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    begun: ArrayLike | None = None,
    fitted: ArrayLike | None = None,
    variances: ArrayLike | None = None,
    rules: LevelRules = USUAL,
) -> Levels:
    """The levels of c campaigns, from their positives in h hours, oldest hour first.

    expected, observed: (c, h), finite, >= 0, what the shape expects and what was seen. ages: (h,),
    hours from the middle of each hour (of what has passed of it) to the moment. groups: (c,),
    counted from 0, -1 for none. weights, begun: (c, h), those of `hour_weights` if no weights are
    given; without `begun` there was no jump. fitted, variances: (c,), the level of each campaign's
    own that is in the expected, and its variance before these hours told it; 0 if none are given.
    Raises ValueError on anything else.

    Campaigns that come in blocks go through `cascade_of` and `block_levels`: this in two steps.
    """
    if weights is None:
        found = hour_weights(expected, observed, ages)
        weights, begun = found.weights, found.begun
    block = CampaignHours.checked(
        expected,
        observed,
        weights=weights,
        begun=begun,
        groups=groups,
        fitted=fitted,
        variances=variances,
    )
    count = int(block.groups.max(initial=-1)) + 1
    return block_levels(cascade_of([block], ages, groups=count, rules=rules), block)


def cascade_of(
    blocks: Iterable[CampaignHours],
    ages: ArrayLike,
    *,
    groups: int = 0,
    rules: LevelRules = USUAL,
) -> LevelHierarchy:
    """What the levels of each block need to know of all: sums over the blocks, which are gone
    through a few times. `groups`: how many groups there are."""
    return LevelHierarchy.of(blocks, ages, groups, rules)


def block_levels(cascade: LevelHierarchy, block: CampaignHours) -> Levels:
    """The levels of one block of the campaigns of which the cascade was made."""
    return Levels(
        shifts=cascade.shifts(block),
        target_shift=float(np.log(cascade.target.now[0])),
        group_shifts=np.log(cascade.target.now[0] * cascade.groups.now[:-1]),
        frozen=cascade.hours.frozen,
        strengths=cascade.strengths(),
    )
