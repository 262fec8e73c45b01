"""Blocks: which rows are drawn together."""

import numpy as np
import pytest

from evaluation.bootstrap.blocks import LEAST_BLOCKS, Blocks, effective_number


def test_a_block_is_a_campaign_and_a_day_of_utc():
    """Hour 23 and hour 24 of a campaign lie on two days, hours 24 and 47 on one."""
    campaigns = np.repeat(np.arange(LEAST_BLOCKS), 3)
    hours = np.tile([23, 24, 47], LEAST_BLOCKS)

    blocks = Blocks.of_campaigns(campaigns, hours)

    assert (blocks.unit, blocks.count) == ("campaign-days", 2 * LEAST_BLOCKS)
    assert blocks.codes[:6].tolist() == [0, 1, 1, 2, 3, 3]
    assert blocks.enough


def test_few_campaign_days_give_way_to_campaign_hours():
    """One campaign on one day has 24 of them."""
    blocks = Blocks.of_campaigns(np.zeros(48, int), np.repeat(np.arange(24), 2))

    assert (blocks.unit, blocks.count) == ("campaign-hours", 24)


def test_few_hours_are_few_blocks():
    """Then no interval can be trusted."""
    assert not Blocks.of_campaigns(np.zeros(5, int), np.arange(5)).enough


def test_hours_before_1970_are_hours():
    """Days are counted downwards too."""
    hours = np.array([-1, -24, -25, 0])

    blocks = Blocks.of_campaigns(np.repeat(np.arange(9), 4), np.tile(hours, 9))

    assert blocks.codes[:4].tolist() == [1, 1, 0, 2]


def test_blocks_are_numbered_by_their_names():
    """Not by the order of rows, so that a seed draws the same blocks of any order."""
    keys = np.array(["b", "c", "a", "b"])

    assert Blocks.of(keys).codes.tolist() == [1, 2, 0, 1]
    assert Blocks.of(keys[::-1]).codes.tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1, 1, 1], 4.0), ([5, 5, 0], 2.0), ([1, 0, 0], 1.0), ([], 0.0), ([0, 0], 0.0)],
)
def test_the_effective_number_of_blocks(weights, expected):
    """As many as there are when they are alike, one when all rows are in one."""
    assert effective_number(np.array(weights, float)) == pytest.approx(expected)


def test_the_effective_number_has_no_unit():
    """Nor do giants overflow."""
    weights = np.array([1.0, 2.0, 3.0])

    assert effective_number(weights * 1e300) == pytest.approx(effective_number(weights))
    of_rows = Blocks.of([0, 1, 1]).effective(weights)
    assert of_rows == pytest.approx(effective_number(np.array([1.0, 5.0])))


def test_no_rows_are_no_blocks():
    """Nothing to draw."""
    blocks = Blocks.of_campaigns(np.empty(0, int), np.empty(0, int))

    assert blocks.count == 0
    assert not blocks.enough
