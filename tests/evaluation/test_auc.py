"""AUC: counted pairs, the mask, and the order of rows."""

from fractions import Fraction
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import auc
from tests.evaluation.predictions_of_kind import predictions


def pairs_counted(p, y, weights):
    """AUC over all pairs, in exact arithmetic; a fraction y is y of a positive."""
    samples = [
        (
            score,
            Fraction(float(w)) * Fraction(float(c)),
            Fraction(float(w)) * (1 - Fraction(float(c))),
        )
        for score, c, w in zip(p, y, weights, strict=True)
    ]
    won = total = Fraction()
    for score, positive, _ in samples:
        for other, _, negative in samples:
            total += positive * negative
            won += positive * negative * (Fraction(int(score > other) + int(score >= other)) / 2)
    return float(won / total) if total else float("nan")


@given(predictions(), st.booleans())
def test_equals_the_count_of_all_pairs(samples, fractional):
    """Ties, whole weights and fractions of outcomes; to the last bit when all are whole."""
    p, y, weights = samples
    y = np.where(weights > 2, 0.25, y) if fractional else y

    value = auc(p, y, sample_weight=weights)

    expected = pairs_counted(p, y, weights)
    assert value == pytest.approx(expected, rel=1e-13, nan_ok=True)
    assert fractional or isnan(expected) or value == expected


@pytest.mark.parametrize("digits", [2, 17], ids=["ties", "distinct"])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_plain_clicks_are_counted_without_rounding(rate, digits):
    """Pairs won and tied as whole numbers, their quotient rounded once."""
    rng = np.random.default_rng(3)
    p, y = np.round(rng.random(20_000), digits), (rng.random(20_000) < rate).astype(float)
    negatives, positives = np.sort(p[y == 0]), p[y == 1]
    twice = sum(
        int(np.searchsorted(negatives, positives, side=side).sum()) for side in ("left", "right")
    )

    assert auc(p, y) == twice / (2 * len(positives) * len(negatives))


@given(predictions(), st.randoms(use_true_random=False))
def test_only_chosen_rows_count(samples, random):
    """A mask is as good as leaving the other rows out."""
    p, y, weights = samples
    chosen = np.array([random.random() < 0.6 for _ in p])

    value = auc(p, y, where=chosen, sample_weight=weights)

    expected = auc(p[chosen], y[chosen], sample_weight=weights[chosen])
    assert np.array_equal(value, expected, equal_nan=True)


def test_no_row_chosen_is_undefined():
    """nan, as without samples."""
    assert isnan(auc([0.3, 0.4], [1, 0], where=[False, False]))
    assert isnan(auc([], [], where=[]))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([1, 0], "where must be booleans of one dimension, not 1-d int64"),
        ([[True, False]], "where must be booleans of one dimension, not 2-d bool"),
        ([True], "equal lengths: probabilities has 2, where has 1"),
    ],
)
def test_a_mask_is_a_boolean_for_each_row(where, message):
    """Indices would be taken for a mask otherwise."""
    with pytest.raises(ValueError, match=message):
        auc([0.3, 0.4], [1, 0], where=where)


def test_rows_left_out_are_checked_all_the_same():
    """What is no probability is an error anywhere in the column."""
    with pytest.raises(ValueError, match=r"probabilities\[1\] = 1.4"):
        auc([0.3, 1.4, 0.2], [1, 0, 0], where=[True, False, True])
