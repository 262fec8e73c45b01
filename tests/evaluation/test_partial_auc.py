"""Partial AUC: the mean true positive rate over a range of false positive rates."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from evaluation import auc, partial_auc
from tests.evaluation.predictions_of_kind import predictions

RATES = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.5, 0.7, 1.0])


def curve(p, y, weights):
    """(false, true) positive rates of the ROC curve, exactly."""
    totals = [Fraction(int(weights[y == c].sum())) for c in (0, 1)]
    points = [(Fraction(), Fraction())]
    for score in sorted(set(p), reverse=True):
        found = [Fraction(int(weights[(y == c) & (p >= score)].sum())) for c in (0, 1)]
        points.append((found[0] / totals[0], found[1] / totals[1]))
    return points


def area(points, low, high):
    """Trapezoid by trapezoid, each cut at low and high."""
    low, high = Fraction(low), Fraction(high)
    total = Fraction()
    for (f0, t0), (f1, t1) in pairwise(points):
        left, right = max(f0, low), min(f1, high)
        if left < right:
            slope = (t1 - t0) / (f1 - f0)
            total += (right - left) * (t0 + slope * (left + right - 2 * f0) / 2)
    return total / (high - low)


@given(predictions(), RATES, RATES)
def test_equals_exact_trapezoids(samples, low, high):
    """Whole weights, ties, and ranges that begin and end inside a segment."""
    p, y, weights = samples
    assume(low < high and weights[y == 0].sum() and weights[y == 1].sum())

    value = partial_auc(p, y, low, high, sample_weight=weights)

    assert value == pytest.approx(float(area(curve(p, y, weights), low, high)), abs=1e-12)


@given(predictions())
def test_over_all_rates_it_is_auc(samples):
    """And two parts of the range add up to the whole."""
    p, y, weights = samples

    def part(low, high):
        return (high - low) * partial_auc(p, y, low, high, sample_weight=weights)

    expected = auc(p, y, sample_weight=weights)
    assert part(0.0, 1.0) == pytest.approx(expected, nan_ok=True)
    assert part(0.0, 0.3) + part(0.3, 1.0) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("high", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("digits", [1, 17], ids=["ties", "distinct"])
def test_equals_scikit_learn(high, digits):
    """Its max_fpr, with the standardisation by McClish undone."""
    rng = np.random.default_rng(4)
    p, weights = np.round(rng.random(3000), digits), rng.uniform(0, 2, 3000)
    y = (rng.random(3000) < p**2).astype(int)
    standardised = roc_auc_score(y, p, sample_weight=weights, max_fpr=high)
    random, perfect = high**2 / 2, high

    expected = (random + (2 * standardised - 1) * (perfect - random)) / high

    assert partial_auc(p, y, 0.0, high, sample_weight=weights) == pytest.approx(expected)


def test_one_score_for_all_is_the_diagonal():
    """A single segment, interpolated: the mean false positive rate of the range."""
    assert partial_auc([0.3] * 4, [0, 1, 0, 1], 0.1, 0.5) == pytest.approx(0.3)


def test_the_default_is_the_first_tenth():
    """Ten negatives: the positives above the first of them."""
    p, y = [0.9, 0.8, *[0.5] * 9, 0.1], [1, 0, *[0] * 9, 1]

    assert partial_auc(p, y) == partial_auc(p, y, 0.0, 0.1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("low", "high"), [(0.1, 0.1), (0.5, 0.2), (-0.1, 0.5), (0.0, 1.1), (float("nan"), 0.5)]
)
def test_a_range_that_is_none_is_refused(low, high):
    """0 <= low < high <= 1."""
    with pytest.raises(ValueError, match=f"low = {low}, high = {high}: must be 0 <= low < high"):
        partial_auc([0.1, 0.2], [0, 1], low, high)


@given(predictions(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(samples, random):
    """Ties come in random order, not in that of the file."""
    p, y, weights = samples
    order = list(range(len(p)))
    random.shuffle(order)

    shuffled = partial_auc(p[order], y[order], sample_weight=weights[order])

    assert np.array_equal(shuffled, partial_auc(p, y, sample_weight=weights), equal_nan=True)
