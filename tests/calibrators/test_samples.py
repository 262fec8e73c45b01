"""What calibrators and bins accept, and how they say what is wrong."""

import math

import numpy as np
import pytest

from calibrators.samples import as_vector, check_samples, check_unit_interval


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        (0.0, 1.0),
        [False, True],
        np.array([0, 1], np.uint8),
        np.array([0, 1], np.float16),
        np.array([0, 1], np.longdouble),
        np.array([0, 9, 1, 9.0])[::2],
    ],
)
def test_any_numbers_become_float64(values):
    checked = check_unit_interval("scores", values)

    assert checked.tolist() == [0.0, 1.0]
    assert checked.dtype == np.float64


def test_no_samples_are_accepted():
    assert [len(column) for column in check_samples([], [])] == [0, 0, 0]
    assert as_vector("scores", np.array([], dtype=str)).dtype == np.float64


def test_the_weight_of_a_sample_is_1_unless_given():
    assert check_samples([0.5, 0.5], [0, 1])[-1].tolist() == [1.0, 1.0]
    assert check_samples([0.5, 0.5], [0, 1], [2, 0])[-1].tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("scores", "outcomes", "weights", "rule"),
    [
        ([0.1, math.nan], [0, 0], None, r"scores\[1\] = nan: every value must be in \[0, 1\]"),
        ([-0.1], [0], None, r"scores\[0\] = -0.1"),
        ([0.1, math.nextafter(1, 2)], [0, 0], None, r"scores\[1\] = 1.0000000000000002"),
        ([0.1], [2], None, r"outcomes\[0\] = 2.0"),
        ([0.1], [math.nan], None, r"outcomes\[0\] = nan"),
        ([0.1], [0], [-1], r"sample_weight\[0\] = -1.0: every value must be finite and at least 0"),
        ([0.1], [0], [math.inf], r"sample_weight\[0\] = inf"),
        ([0.1], [0], [math.nan], r"sample_weight\[0\] = nan"),
        ([0.1, 0.2], [0, 0], [1.7e308] * 2, "sum of sample_weight = inf"),
        ([0.1], [0, 1], None, "scores has 1, outcomes has 2"),
        ([0.1], [0], [1, 1], "sample_weight has 2"),
        (["0.1"], [0], None, "scores must be numbers, not <U3"),
        ([None], [0], None, "scores must be numbers, not object"),
        ([1j], [0], None, "scores must be numbers, not complex128"),
        ([[0.1]], [0], None, "scores must have one dimension, not 2"),
        (0.1, [0], None, "scores must have one dimension, not 0"),
        (np.array(["2020-01-01"], "M8[D]"), [0], None, "scores must be numbers"),
    ],
)
def test_anything_else_is_refused_by_name(scores, outcomes, weights, rule):
    with pytest.raises(ValueError, match=rule):
        check_samples(scores, outcomes, weights)
