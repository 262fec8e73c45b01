"""Partial AUC: the mean true positive rate over a range of false positive rates."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evaluation import partial_auc
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
