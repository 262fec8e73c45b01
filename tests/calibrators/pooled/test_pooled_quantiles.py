"""Quantiles over blocks, against sorting all values at once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators.pooled.window import quantile

ITEMS = st.tuples(st.floats(-17.5, 17.5), st.sampled_from([0.0, 1.0, 2.0, 5.0]))
BLOCKS = st.lists(st.lists(ITEMS, max_size=12), min_size=1, max_size=4).filter(any)


def columns(blocks: list[list[tuple[float, float]]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    tables = [np.array(block, np.float64).reshape(-1, 2) for block in blocks]
    return [table[:, 0] for table in tables], [table[:, 1] for table in tables]


@given(BLOCKS, st.sampled_from([0.001, 0.25, 0.5, 0.999]))
def test_a_quantile_is_that_of_all_values_sorted(blocks, share):
    """The first value up to which the weight reaches the share; the least without any weight."""
    items = sorted(item for block in blocks for item in block)
    total = sum(weight for _, weight in items)
    reached = np.cumsum([weight for _, weight in items])
    expected = next(
        value for (value, _), w in zip(items, reached, strict=True) if w >= share * total
    )

    assert quantile(*columns(blocks), share) == expected


def test_all_of_the_weight_lies_up_to_the_largest_value():
    """A share that rounds to everything finds the last value, not one behind it."""
    values, weights = columns([[(1.0, 0.1), (1.01, 0.2)], [(1.02, 0.3)]])

    assert quantile(values, weights, 1.0 - 1e-17) == 1.02
