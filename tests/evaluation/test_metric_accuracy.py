"""Metric accuracy: the share of pairs of runs that a metric ranks rightly."""

from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from evaluation import metric_accuracy

RUNS = st.lists(st.integers(0, 6), min_size=1, max_size=12)
TIES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def double_loop(a, b, ties):
    """What each run of A scores against each of B, (m_A, m_B)."""
    return np.array([[1.0 if x < y else ties if x == y else 0.0 for y in b] for x in a])


@given(RUNS, RUNS, TIES)
def test_sorting_equals_the_double_loop(a, b, ties):
    """Over all pairs, with ties."""
    assert metric_accuracy(a, b, ties=ties).value == pytest.approx(double_loop(a, b, ties).mean())


@given(RUNS, RUNS, TIES)
def test_the_standard_error_is_delongs(a, b, ties):
    """Variances of the rows' and of the columns' means of the double loop."""
    pairs = double_loop(a, b, ties)
    error = metric_accuracy(a, b, ties=ties).standard_error
    if min(len(a), len(b)) < 2:
        assert isnan(error)
        return
    variance = sum(pairs.mean(axis=axis).var(ddof=1) / pairs.shape[1 - axis] for axis in (0, 1))

    assert isnan(error) if variance < 1e-20 else error == pytest.approx(np.sqrt(variance))


@given(RUNS, RUNS, TIES)
def test_the_interval_holds_the_value_and_has_a_width(a, b, ties):
    """However few the runs, and all ways of ties."""
    accuracy = metric_accuracy(a, b, ties=ties)

    assert 0.0 <= accuracy.lower <= accuracy.value <= accuracy.upper <= 1.0
    assert accuracy.upper - accuracy.lower > 0.1


@given(RUNS, RUNS)
def test_turned_round_it_is_the_rest(a, b):
    """P(A < B) + P(B < A) = 1 when ties are halves; intervals mirror each other."""
    one, other = metric_accuracy(a, b), metric_accuracy(b, a)

    assert one.value + other.value == pytest.approx(1.0)
    assert one.lower + other.upper == pytest.approx(1.0)
    assert one.standard_error == pytest.approx(other.standard_error, nan_ok=True)


@given(RUNS, RUNS, st.randoms(use_true_random=False))
def test_order_of_runs_is_of_no_effect(a, b, random):
    """Nor is any rising change of the metric."""
    expected = metric_accuracy(a, b)
    random.shuffle(a)

    value = metric_accuracy(np.exp(a), np.exp(b))

    assert (value.value, value.lower) == pytest.approx((expected.value, expected.lower))


@pytest.mark.parametrize("runs", [1, 2, 10, 100])
def test_all_pairs_one_way_still_leave_doubt(runs):
    """A value of 1 has the interval from tail^(1/m), that of 0 its mirror image."""
    low, high = np.zeros(runs), np.ones(2 * runs)
    bound = 0.025 ** (1 / runs)

    surely, never = metric_accuracy(low, high), metric_accuracy(high, low)

    assert (surely.value, surely.lower, surely.upper) == (1.0, pytest.approx(bound), 1.0)
    assert (never.value, never.lower, never.upper) == (0.0, 0.0, pytest.approx(1 - bound))
    assert isnan(surely.standard_error)


def test_nearly_all_pairs_are_no_better_known_than_all():
    """The lower end of a value just below 1 is not above that of 1."""
    a, b = np.arange(20.0), np.arange(20.0) + 18.5

    assert metric_accuracy(a, b).value > 0.99
    assert metric_accuracy(a, b).lower <= metric_accuracy(a, b + 100).lower


def test_all_tied_is_one_half_and_unknown():
    """No standard error, and Wilson's interval of as many pairs."""
    accuracy = metric_accuracy([3.0] * 10, [3.0] * 12)

    assert accuracy.value == 0.5
    assert isnan(accuracy.standard_error)
    assert (accuracy.lower, accuracy.upper) == pytest.approx((0.2366, 0.7634), abs=1e-4)


@pytest.mark.parametrize(("runs_a", "runs_b"), [(5, 5), (10, 60), (60, 60)])
@pytest.mark.parametrize("truth", [0.5, 0.8, 0.95, 0.999])
def test_the_interval_covers_what_it_says(truth, runs_a, runs_b):
    """More than 93 % of 600 experiments: 95 % less two standard errors."""
    rng = np.random.default_rng(11)
    gap = ndtri(truth) * np.sqrt(2)
    experiments = (
        metric_accuracy(rng.normal(0, 1, runs_a), rng.normal(gap, 1, runs_b)) for _ in range(600)
    )

    covered = np.mean([each.lower <= truth <= each.upper for each in experiments])

    assert covered > 0.93


def test_the_standard_error_is_that_of_repeated_experiments():
    """Not that of independent pairs, which is several times smaller."""
    rng = np.random.default_rng(12)
    results = [metric_accuracy(rng.normal(0, 1, 40), rng.normal(1, 1, 40)) for _ in range(1_000)]
    spread = np.std([each.value for each in results])

    assert np.mean([each.standard_error for each in results]) == pytest.approx(spread, rel=0.1)
    assert spread > 4 * np.sqrt(0.76 * 0.24 / 40**2)


def test_many_runs_are_sorted_not_paired():
    """300,000 of each: pairs would not fit in memory."""
    rng = np.random.default_rng(13)
    accuracy = metric_accuracy(rng.normal(0, 1, 300_000), rng.normal(0, 1, 300_000))

    assert accuracy.value == pytest.approx(0.5, abs=0.005)
    assert accuracy.upper - accuracy.lower < 0.005


def test_an_infinite_metric_is_the_worst():
    """Cal-N may be infinite."""
    assert metric_accuracy([1.0, inf], [2.0, inf]).value == 0.625


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([], [])])
def test_without_runs_it_is_undefined(a, b):
    """nan, all of it."""
    accuracy = metric_accuracy(a, b)

    assert isnan(accuracy.value)
    assert isnan(accuracy.standard_error)
    assert isnan(accuracy.lower)
    assert isnan(accuracy.upper)


@pytest.mark.parametrize(
    ("a", "options", "message"),
    [
        ([0.5, nan], {}, r"a\[1\] = nan: every run must have a metric"),
        ([[0.5]], {}, "a must have one dimension, not 2"),
        (["low"], {}, "a must be numbers"),
        ([0.5], {"ties": 1.5}, r"ties = 1.5: must be in \[0, 1\]"),
        ([0.5], {"ties": nan}, r"ties = nan: must be in \[0, 1\]"),
        ([0.5], {"confidence": 1.0}, "confidence = 1.0: must be between 0 and 1"),
    ],
)
def test_bad_arguments_are_named(a, options, message):
    """ValueError with argument, place, value and rule."""
    with pytest.raises(ValueError, match=message):
        metric_accuracy(a, [0.5, 0.6], **options)


def test_a_bad_run_of_b_is_named():
    """Either list."""
    with pytest.raises(ValueError, match=r"b\[0\] = nan"):
        metric_accuracy([1.0], [nan])
