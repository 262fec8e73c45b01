"""Cal-N by its definition, and its noise floor: Cal-N of the truth itself."""

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cal_n, cal_n_floor, gc_n
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


@pytest.mark.parametrize(("positives", "expected"), [(20, 0.26), (50, 0.15), (200, 0.067)])
def test_floor_is_about_one_over_root_positives_a_bin(positives, expected):
    """The medians of the study: .26 at 20 positives a bin, .067 at 200; the mean is near."""
    p = np.linspace(0.0099, 0.0101, 500)
    rng = np.random.default_rng(3)

    floor = cal_n_floor(p, 5, rng=rng, draws=2_000, sample_weight=np.full(500, positives))

    assert floor == pytest.approx(expected, rel=0.12)


def test_equals_drawing_the_labels_of_rows():
    """Counts drawn by bin and labels drawn by row have the same mean, within 4 of its errors."""
    rng = np.random.default_rng(4)
    p = np.sort(rng.uniform(0.05, 0.4, 600))
    by_row = [cal_n(p, rng.random(600) < p, 3, empty="merge") for _ in range(400)]

    floor = cal_n_floor(p, 3, rng=rng, draws=400)

    assert floor == pytest.approx(np.mean(by_row), abs=4 * np.std(by_row) * np.sqrt(2 / 400))


def test_the_same_generator_gives_the_same_floor():
    """Randomness is an argument, and row order is none."""
    p = np.array([0.3, 0.1, 0.2, 0.3])
    weights = np.array([40.0, 60.0, 80.0, 20.0])
    order = [2, 0, 3, 1]

    first = cal_n_floor(p, 2, rng=np.random.default_rng(5), sample_weight=weights)
    second = cal_n_floor(p[order], 2, rng=np.random.default_rng(5), sample_weight=weights[order])

    assert first == second


def test_a_fractional_weight_is_a_partial_sample():
    """A half weight at probability 1 always adds half a positive: no noise, floor 0."""
    assert cal_n_floor([1.0, 1.0], 2, rng=np.random.default_rng(6), sample_weight=[0.5, 2.5]) == 0.0


def test_undefined_floor():
    """nan without samples enough, or when no draw has a positive."""
    rng = np.random.default_rng(7)

    assert isnan(cal_n_floor([0.5], 2, rng=rng))
    assert isnan(cal_n_floor([0.0, 0.0], 2, rng=rng))


def test_bad_draws_are_refused():
    """At least one draw."""
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match="draws = 0"):
        cal_n_floor([0.5], 1, rng=rng, draws=0)
