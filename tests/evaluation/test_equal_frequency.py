"""Equal-frequency bins of many groups at once, against exact arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.metrics.cal_n import EqualFrequencyBins
from evaluation.metrics.predictions import Runs
from tests.evaluation.bin_sums_oracle import bin_sums_oracle

WHOLE = st.integers(1, 9).map(float)
ANY = st.floats(0.01, 9.0)
MAGNITUDES = st.sampled_from([1e-200, 1e-9, 0.1, 1.0, 8.0, 1e6, 2.0**40, 1e200])


@st.composite
def weighted_groups(draw):
    """Weights of the runs of each group, some groups without any."""
    return [
        [draw(MAGNITUDES) * weight for weight in draw(st.lists(kind, max_size=8))]
        if draw(st.booleans())
        else draw(st.lists(kind, max_size=8))
        for kind in draw(st.lists(st.sampled_from([WHOLE, ANY]), min_size=1, max_size=5))
    ]


def runs_of(groups):
    """Runs of these weights, probabilities ascending inside each group."""
    sizes = [len(weights) for weights in groups]
    codes = np.repeat(np.arange(len(groups)), sizes)
    probabilities = np.concatenate([np.arange(size) / 10 for size in sizes])
    return Runs.of(probabilities, np.concatenate(groups).astype(float), codes, len(groups))


def check_bins(groups, n, values=None):
    """The sums of every group equal the exact ones, but for cuts snapped to a run's end."""
    runs = runs_of(groups)
    values = runs.weights if values is None else values
    sums = EqualFrequencyBins(runs, n).sums(values)
    parts = np.split(values, np.cumsum([len(weights) for weights in groups])[:-1])
    assert sums.shape == (len(groups), n)
    for weights, part, actual in zip(groups, parts, sums, strict=True):
        expected = bin_sums_oracle(weights, part, n)
        assert actual == pytest.approx(expected, rel=0, abs=2e-9 * sum(part) + 1e-300)


@given(weighted_groups(), st.integers(1, 9))
def test_equals_exact_arithmetic(groups, n):
    """Empty groups, groups of one run, fewer samples than bins, giants beside dwarfs."""
    check_bins(groups, n)


def test_precision_is_that_of_the_group():
    """A campaign of thousandths after one of 1e15 is cut as if it were alone, to 15 digits."""
    rng = np.random.default_rng(11)
    small = rng.random(50) / 1000

    beside = EqualFrequencyBins(runs_of([[1e15, 3e15], small, [7e15]]), 4)
    sums = beside.sums(np.concatenate(([1e15, 3e15], small, [7e15])))

    assert sums[1] == pytest.approx(bin_sums_oracle(small, small, 4), rel=1e-14)
    assert sums[0] == pytest.approx([1e15] * 4, rel=1e-14)


def test_runs_too_light_to_count_stay_in_their_group():
    """Of the first or last run of a group 1e-30 of it is left to its outer bin."""
    groups = [[1.0, 1e-30], [1e-30, 1.0, 1.0, 1e-30], [1e-30, 1.0]]
    runs = runs_of(groups)
    light = (runs.weights < 0.5) * 1.0

    sums = EqualFrequencyBins(runs, 2).sums(light)

    assert sums.tolist() == [[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-7, 12_345.0])
def test_cuts_at_the_ends_of_runs_split_nothing(scale):
    """Bins that whole runs fill: one without positives sums to exactly 0."""
    runs = runs_of([[scale] * 6, [2 * scale, scale, 3 * scale] * 3])
    values = np.array([0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0], float)

    bins = EqualFrequencyBins(runs, 3)

    assert not bins.shares.any()
    assert bins.sums(values).tolist() == [[0.0, 2.0, 0.0], [0.0, 3.0, 0.0]]


def test_a_bin_without_positives_is_exactly_zero_beside_large_sums():
    """Each bin is added up on its own, never as a difference of large sums."""
    rng = np.random.default_rng(12)
    runs = runs_of([rng.random(999) * 1e12, [1.0] * 9, rng.random(9)])
    values = np.concatenate((rng.random(999) * 1e12, [0.1] * 3, [0.0] * 3, [0.1] * 3, [0.0] * 9))

    sums = EqualFrequencyBins(runs, 3).sums(values)

    assert sums[1] == pytest.approx([0.3, 0.0, 0.3], rel=1e-15)
    assert sums[1, 1] == 0.0
    assert not sums[2].any()


def test_one_run_in_each_group():
    """A run alone gives every bin its share, whole samples where there are fewer than bins."""
    check_bins([[10.0], [2.0], [0.3], [1.0]], 4)

    sums = EqualFrequencyBins(runs_of([[10.0], [2.0]]), 4).sums(np.array([10.0, 2.0]))

    assert sums[0] == pytest.approx([3, 3, 2, 2])
    assert sums[1] == pytest.approx([1, 1, 0, 0])


def test_no_runs_at_all():
    """Groups of nothing have bins of nothing."""
    runs = Runs.of(np.empty(0), np.empty(0), np.empty(0, np.int64), 3)

    assert EqualFrequencyBins(runs, 2).sums(np.empty(0)).tolist() == [[0.0, 0.0]] * 3


def test_rows_that_come_sorted_are_not_copied():
    """Sums over runs of one row each are a view of the rows' own values."""
    groups, p = np.array([0, 0, 1]), np.array([0.1, 0.2, 0.1])
    values = np.array([1.0, 2.0, 3.0])

    runs = Runs.of(p, np.ones(3), groups, 2)

    assert np.shares_memory(runs.sums(values), values)
    assert np.shares_memory(runs.probabilities, p)


@given(st.randoms(use_true_random=False), st.booleans())
def test_runs_are_the_same_from_rows_in_any_order(random, gaps):
    """Sorted or not, with rows without weight or not: the same runs, the same sums."""
    size = 30
    order = list(range(size))
    random.shuffle(order)
    groups, p = np.repeat([0, 2, 3], 10), np.tile(np.repeat([0.1, 0.4, 0.7, 0.7, 0.9], 2), 3)
    weights = np.arange(size) % 3 + (0.0 if gaps else 1.0)

    tidy = Runs.of(p, weights, groups, 5)
    mixed = Runs.of(p[order], weights[order], groups[order], 5)

    for name in ("bounds", "row_counts", "probabilities", "weights"):
        assert np.array_equal(getattr(tidy, name), getattr(mixed, name))
    assert mixed.sums((weights * p)[order]) == pytest.approx(tidy.sums(weights * p))
    assert tidy.row_counts.tolist()[1::3] == [0, 0]
