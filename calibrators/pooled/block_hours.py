"""Weights and levels of campaigns, a block of them after the other, as if all went together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from calibrators.pooled.campaign_hours import CampaignHours
from calibrators.pooled.drift import HourWeights, hour_weights
from calibrators.pooled.levels import Levels, block_levels, cascade_of
from calibrators.pooled.outages import SaidByHour, outage_hours
from calibrators.samples import Floats, Integers

_BLOCK = 4096
"""Campaigns of a block: enough that a step takes longer than its call, and few enough that what it
takes meanwhile are a few MB."""


class OwnLevels(NamedTuple):
    """What a shape says of its campaigns.

    Attributes
    ----------
    groups : (c,), the group of each, -1 for none.
    fitted, variances : (c,), their own levels, in log-odds, and the prior variances of these.
    """

    groups: Integers
    fitted: Floats
    variances: Floats


def in_blocks(expected: Floats, observed: Floats, levels: OwnLevels) -> list[CampaignHours]:
    """Campaigns whose hours all count, in blocks, one at least; views of the tables, (c, h)."""
    every = np.broadcast_to(1.0, expected.shape)
    firsts = range(0, max(len(expected), 1), _BLOCK)
    return [
        CampaignHours.checked(
            expected[rows],
            observed[rows],
            weights=every[rows],
            begun=every[rows],
            groups=levels.groups[rows],
            fitted=levels.fitted[rows],
            variances=levels.variances[rows],
        )
        for rows in (slice(first, first + _BLOCK) for first in firsts)
    ]


def block_weights(blocks: Sequence[CampaignHours], ages: Floats) -> Iterator[HourWeights]:
    """`hour_weights` of each block, with the outages that all blocks together show."""
    outage = outage_hours(SaidByHour.of(blocks, len(ages)))
    for block in blocks:
        yield hour_weights(block.expected, block.observed, ages, outage=outage)


def levels_of_blocks(blocks: Sequence[CampaignHours], ages: Floats, groups: int) -> Levels:
    """`fit_levels` of the campaigns of one block or more, which has the shifts of all of them in
    their order; the weights are those of these hours, whatever they weighed."""
    weighed = [
        block._replace(weights=found.weights, begun=found.begun)
        for block, found in zip(blocks, block_weights(blocks, ages), strict=True)
    ]
    cascade = cascade_of(weighed, ages, groups=groups)
    parts = [block_levels(cascade, block) for block in weighed]
    return replace(parts[0], shifts=np.concatenate([part.shifts for part in parts]))
