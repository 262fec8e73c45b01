"""A stage of levels: the ratio of the last hours, drawn to 1 where they have few positives."""

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
    found = [_gains(amounts, ages, half_life, bound) for half_life in half_lives]
    row, column = divmod(int(np.argmax(found)), len(STRENGTHS))
    return Stage(half_lives[row], float(STRENGTHS[column]))


def ratios_now(amounts: Amounts, ages: Floats, stage: Stage, bound: float) -> Floats:
    """What a stage says at the moment, (n,)."""
    weights = np.exp2(-ages / stage.half_life)
    return ratio(amounts.observed @ weights, amounts.expected @ weights, stage.strength, bound)


def ratios_then(amounts: Amounts, ages: Floats, stage: Stage, bound: float) -> Floats:
    """What a stage says of each hour in hindsight, (n, h)."""
    weights = near_weights(ages, stage.half_life)
    return ratio(amounts.observed @ weights, amounts.expected @ weights, stage.strength, bound)


def _gains(amounts: Amounts, ages: Floats, half_life: float, bound: float) -> Floats:
    """What each strength gains, (k,)."""
    weights = past_weights(ages, starts(ages), half_life)
    observed, expected = amounts
    return gains(observed, expected, observed @ weights, expected @ weights, bound)
