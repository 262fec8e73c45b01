"""The cascade of levels: target, groups, campaigns, each on what those before it leave."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrators.pooled.campaign_hours import CampaignHours, check_ages
from calibrators.pooled.counted_hours import CountedHours
from calibrators.pooled.movement import Courses, Movement
from calibrators.pooled.stages import Amounts, Stage, best_stage, ratios_now, ratios_then
from calibrators.samples import Floats


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


class Course(NamedTuple):
    """The ratios of the target, or of its groups.

    Attributes
    ----------
    stage : what the data chose.
    then : (n, h), in each hour, in hindsight: what the campaigns' past is freed of.
    now : (n,), at the moment.
    """

    stage: Stage
    then: Floats
    now: Floats

    @classmethod
    def of(cls, amounts: Amounts, ages: Floats, rules: LevelRules) -> "Course":
        """The best stage's."""
        stage = best_stage(amounts, ages, rules.half_lives, rules.bound)
        then = ratios_then(amounts, ages, stage, rules.bound)
        return cls(stage, then, ratios_now(amounts, ages, stage, rules.bound))


@dataclass(frozen=True, slots=True, eq=False)
class Cascade:
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
    target: Course
    groups: Course
    campaigns: Movement

    @classmethod
    def of(
        cls, blocks: Iterable[CampaignHours], ages: ArrayLike, groups: int, rules: LevelRules
    ) -> "Cascade":
        """From all blocks, which are gone through three times."""
        hours = CountedHours.of(blocks, check_ages(ages))
        target, of_groups = _courses(blocks, hours, groups, rules)
        busiest = _nothing(len(hours.ages))
        for block in blocks:
            own = _own(hours.of_block(block), target, of_groups, rules)
            busiest = busiest.with_more(own)
        return cls(rules, hours, target, of_groups, Movement.of(busiest, hours.ages))

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


def _own(block: CampaignHours, target: Course, groups: Course, rules: LevelRules) -> Courses:
    """What a block's campaigns leave of the course of target and groups, and what they left before
    the hours told their own levels."""
    factors = target.then * groups.then[block.groups]
    in_run = block._replace(weights=block.weights / block.begun)
    amounts = Amounts.of(in_run, factors, rules.bound)
    before = amounts.expected * np.exp(-block.fitted)[:, None]
    earlier = np.concatenate((block.begun[:, :1], block.begun[:, :-1]), axis=1)
    return Courses(amounts.observed, before, 1 - earlier / block.begun, block.variances)


def _nothing(hours: int) -> Courses:
    observed, expected, jumps = np.empty((3, 0, hours))
    return Courses(observed, expected, jumps, np.empty(0))


def _courses(
    blocks: Iterable[CampaignHours], hours: CountedHours, groups: int, rules: LevelRules
) -> tuple[Course, Course]:
    sums = _group_sums(blocks, hours, groups, rules.bound)
    whole = Amounts(*(amount.sum(axis=0, keepdims=True) for amount in sums))
    target = Course.of(whole, hours.ages, rules)
    named = Amounts(sums.observed[:-1], sums.expected[:-1] * target.then)
    stage, then, now = Course.of(named, hours.ages, rules)
    none = np.ones((1, len(hours.ages)))
    return target, Course(stage, np.vstack([then, none]), np.append(now, 1.0))


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
