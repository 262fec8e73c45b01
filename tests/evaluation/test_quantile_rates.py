from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import quantile_rates

VALUES = st.lists(st.integers(0, 6), max_size=40)


def brute_force_starts(values, n):
    """Cut by cut, the nearer end of the run that the cut falls into."""
    ordered, size, starts = sorted(values), len(values), set()
    inner = [i for i in range(1, size) if ordered[i - 1] != ordered[i]]
    for k in range(n):
        ends = [0, *inner, size]
        starts.add(min(ends, key=lambda end: (abs(end * n - k * size), -end)))
    return sorted(starts - {size})


@given(VALUES, st.integers(1, 8))
def test_groups_are_those_of_brute_force(values, n):
    found = quantile_rates(values, np.zeros(len(values)), n)

    borders = [*brute_force_starts(values, n), len(values)]
    groups = [sorted(values)[start:end] for start, end in pairwise(borders)]
    assert found.counts.tolist() == [len(group) for group in groups]
    assert found.lowest.tolist() == [group[0] for group in groups]
    assert found.highest.tolist() == [group[-1] for group in groups]
    assert (found.lowest[1:] > found.highest[:-1]).all()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=30))
def test_the_order_of_the_rows_means_nothing(rows):
    values, outcomes = [list(column) for column in zip(*rows, strict=True)] or [[], []]
    forwards = quantile_rates(values, outcomes)
    backwards = quantile_rates(values[::-1], outcomes[::-1])

    np.testing.assert_array_equal(forwards.positives, backwards.positives)
    np.testing.assert_array_equal(forwards.counts, backwards.counts)


def test_distinct_values_fall_into_quintiles_as_even_as_can_be():
    found = quantile_rates(np.arange(1003)[::-1], np.ones(1003))

    assert found.counts.tolist() == [201, 200, 201, 200, 201]
    assert found.rates.tolist() == [1.0] * 5


def test_missing_values_are_counted_and_in_no_group():
    found = quantile_rates([np.nan, 1.0, np.nan, 2.0], [1, 0, 1, 1], 2)

    assert found.missing == 2
    assert found.counts.tolist() == [1, 1]
    assert found.rates.tolist() == [0.0, 1.0]


def test_without_a_value_there_is_no_group():
    assert quantile_rates([np.nan], [1]).counts.tolist() == []


@pytest.mark.parametrize(
    ("values", "outcomes", "n", "confidence", "expected"),
    [
        ([1.0], [1], 0, 0.95, "n = 0"),
        ([1.0], [1], 5, 1.0, "confidence = 1.0: must be between 0 and 1"),
        ([1.0, -np.inf], [1, 0], 5, 0.95, r"values\[1\] = -inf: must be finite"),
        ([1.0], [2], 5, 0.95, r"outcomes\[0\] = 2.0"),
        ([1.0], [1, 0], 5, 0.95, "values has 1, outcomes has 2"),
    ],
)
def test_what_is_wrong_is_named(values, outcomes, n, confidence, expected):
    with pytest.raises(ValueError, match=expected):
        quantile_rates(values, outcomes, n, confidence=confidence)
