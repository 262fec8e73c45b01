"""Bins by hour, and windows of them."""

from collections.abc import Mapping

import numpy as np
import pytest

from calibrators import BinsTable, History


def table(counts: Mapping[str, int]) -> BinsTable:
    """So many impressions of each campaign, a tenth of them clicked."""
    rows = np.repeat(np.arange(len(counts)), list(counts.values()))
    size = len(rows)
    scores, ones = np.full(size, 0.1), np.ones(size)
    return BinsTable.from_columns(list(counts), rows, scores, ones, ones / 10)


BLOCKS = [
    {4: table({"a": 1, "b": 2}), 5: table({"b": 3})},
    {5: table({"c": 4}), 6: BinsTable.empty()},
]


@pytest.mark.parametrize(("as_of", "newest"), [(6.0, 5), (5.25, 5), (5.0, 4)])
def test_the_newest_hour_is_the_last_that_has_begun(as_of, newest):
    assert History(as_of, []).newest == newest


@pytest.mark.parametrize(("first", "behind"), [(4, 7), (5, 6), (4, 5), (7, 9)])
def test_a_window_is_the_sum_of_its_hours(first, behind):
    found = list(History(7.0, BLOCKS).windows(first, behind))

    assert found == [
        BinsTable.merge(each for hour, each in block.items() if first <= hour < behind)
        for block in BLOCKS
    ]
