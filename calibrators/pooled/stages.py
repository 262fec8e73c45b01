"""Stages of levels: each shrunk to the one before it, on a shorter half-life."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calibrators.pooled.campaign_hours import CampaignHours, starts
from calibrators.pooled.strengths import STRENGTHS, gains, near_weights, past_weights, ratio
from calibrators.samples import Floats


class Stage(NamedTuple):
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


def best_stage(amounts: Amounts, ages: Floats, half_lives: Sequence[float], bound: float) -> Stage:
    """The half-life and strength that would have predicted these rows best."""
    found = [stage_gains(amounts, ages, (), half_life, bound) for half_life in half_lives]
    row, column = divmod(int(np.argmax(found)), len(STRENGTHS))
    return Stage(half_lives[row], float(STRENGTHS[column]))


def stage_gains(
    amounts: Amounts, ages: Floats, before: Sequence[Stage], half_life: float, bound: float
) -> Floats:
    """What each strength of a further stage gains, (k,): additive over rows."""
    begun = starts(ages)
    found = np.ones_like(amounts.expected)
    for stage in before:
        weights = past_weights(ages, begun, stage.half_life)
        found = _next(amounts, found, weights, stage.strength, bound)
    weights = past_weights(ages, begun, half_life)
    return gains(
        amounts.observed,
        amounts.expected * found,
        amounts.observed @ weights,
        (amounts.expected @ weights) * found,
        bound,
    )


def ratios_now(amounts: Amounts, ages: Floats, stages: Sequence[Stage], bound: float) -> Floats:
    """What the stages together say at the moment, (n,)."""
    found = np.ones((len(amounts.expected), 1))
    for stage in stages:
        weights = np.exp2(-ages / stage.half_life)[:, None]
        found = _next(amounts, found, weights, stage.strength, bound)
    now: Floats = found[:, 0]
    return now


def ratios_then(amounts: Amounts, ages: Floats, stage: Stage, bound: float) -> Floats:
    """What a stage says of each hour in hindsight, (n, h)."""
    weights = near_weights(ages, stage.half_life)
    return _next(amounts, np.ones_like(amounts.expected), weights, stage.strength, bound)


def _next(
    amounts: Amounts, found: Floats, weights: Floats, strength: float, bound: float
) -> Floats:
    further = ratio(
        amounts.observed @ weights, (amounts.expected @ weights) * found, strength, bound
    )
    return np.clip(found * further, np.exp(-bound), np.exp(bound))
