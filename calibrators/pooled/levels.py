"""Fast levels: how far the target, its groups and its campaigns have moved from their shape."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from calibrators.pooled.campaign_hours import CampaignHours
from calibrators.pooled.cascade import Cascade, LevelRules
from calibrators.pooled.drift import hour_weights
from calibrators.samples import Floats

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
) -> Cascade:
    """What the levels of each block need to know of all: sums over the blocks, which are gone
    through a few times. `groups`: how many groups there are."""
    return Cascade.of(blocks, ages, groups, rules)


def block_levels(cascade: Cascade, block: CampaignHours) -> Levels:
    """The levels of one block of the campaigns of which the cascade was made."""
    return Levels(
        shifts=cascade.shifts(block),
        target_shift=float(np.log(cascade.target.now[0])),
        group_shifts=np.log(cascade.target.now[0] * cascade.groups.now[:-1]),
        frozen=cascade.hours.frozen,
        strengths=cascade.strengths(),
    )
