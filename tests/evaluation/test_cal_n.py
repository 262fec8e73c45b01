"""Cal-N by its definition."""

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cal_n, gc_n
from tests.evaluation.cal_n_oracle import cal_n_oracle, repeated
from tests.evaluation.predictions_of_kind import predictions

EMPTY = st.sampled_from(["inf", "skip", "merge", "smooth"])
EXAMPLE_1 = ([0.2, 0.8], [0.4, 0.6])


def same(expected, actual):
    return actual == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("n", "expected"), [(2, sqrt(5) / 3), (3, 0.6086), (4, 0.7454), (5, 0.6667)]
)
def test_example_1_of_the_paper(n, expected):
    """20,000 samples: .2 with rate .4, .8 with rate .6; the paper prints 2.4 for N = 2."""
    value = cal_n(*EXAMPLE_1, n, sample_weight=[10_000, 10_000])

    assert value == pytest.approx(expected, abs=1e-9 if n == 2 else 5e-5)


@given(predictions(), st.integers(1, 8), EMPTY)
def test_equals_the_definition(samples, n, empty):
    """Vectorised and exact rational Cal-N agree, under every rule for empty bins."""
    p, y, weights = samples

    actual = cal_n(p, y, n, empty=empty, sample_weight=weights)

    assert same(cal_n_oracle(*repeated(p, y, weights), n, empty), actual)


def test_a_cut_splits_a_fractional_sample():
    """Weights 1.5 and 3: the cut at 2.25 gives the first bin a quarter of the second sample."""
    errors = np.array([(0.3 * 1.5 + 0.6 * 0.75) / (0.4 * 1.5 + 0.5 * 0.75), 0.6 / 0.5])
    errors = np.maximum(errors, 1 / errors) - 1

    value = cal_n([0.3, 0.6], [0.4, 0.5], 2, sample_weight=[1.5, 3.0])

    assert value == pytest.approx(np.sqrt(np.mean(errors**2)))


@pytest.mark.parametrize(
    ("empty", "expected"),
    [
        ("inf", inf),
        ("skip", sqrt(1.5**2 / 2)),
        ("merge", sqrt(0.2**2 / 2)),
        ("smooth", sqrt(((2 / 1.4 - 1) ** 2 + (1.8 - 1) ** 2) / 3)),
    ],
)
def test_a_bin_without_positives(empty, expected):
    """The bins promise .4, .8 and 2 clicks; 1, 0 and 2 come."""
    value = cal_n([0.2, 0.4, 1.0], [0.5, 0.0, 1.0], 3, empty=empty, sample_weight=[2, 2, 2])

    assert value == pytest.approx(expected)


@pytest.mark.parametrize(("empty", "expected"), [("inf", inf), ("skip", nan), ("merge", nan)])
def test_no_positives_at_all(empty, expected):
    """Strictly infinite, else undefined."""
    assert cal_n([0.1, 0.2], [0, 0], 2, empty=empty) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("n", [1, 3])
def test_fewer_samples_than_bins_is_undefined(n):
    """nan, never 0."""
    assert isnan(cal_n([], [], n))
    assert isnan(cal_n([0.5, 0.5], [1, 0], 3))
    assert isnan(cal_n([0.5], [0.5], 3, sample_weight=[0.9]))


def test_a_heavy_cell_is_many_samples():
    """One cell of 300 samples has room for three bins."""
    assert cal_n([0.5], [0.25], 3, sample_weight=[300]) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [0, -1, 2.5, nan])
def test_a_number_of_bins_is_whole_and_at_least_1(n):
    """Of campaigns, too."""
    with pytest.raises(ValueError, match=f"n = {n}: the number of bins must be whole"):
        cal_n([0.5], [1], n)
    with pytest.raises(ValueError, match=f"n = {n}: the number of bins must be whole"):
        gc_n([0.5], [1], ["a"], n)


def test_an_unknown_rule_for_empty_bins_is_refused():
    """Named, with those there are."""
    with pytest.raises(ValueError, match="empty = 'drop': must be one of inf, skip, merge, smooth"):
        cal_n([0.5], [1], 1, empty="drop")
