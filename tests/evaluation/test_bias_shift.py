"""The shift of log-odds that makes the sum of the promises right."""

import sys
from math import log

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import expit, log_expit, logsumexp

from evaluation import bias_shift
from evaluation.metrics.calibration import log_odds
from tests.evaluation.cal_n_oracle import repeated
from tests.evaluation.predictions_of_kind import predictions

EXTREMES = st.sampled_from([0.0, 1e-300, 1e-12, 1e-6, 0.3, 0.5, 1 - 1e-6, 1 - 1e-12, 1.0])
ENDS = pytest.mark.parametrize("p", [1e-12, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-12])


def shifted(p, c):
    return expit(log_odds(np.asarray(p, float)) - c)


def both_classes(y, weights):
    return 0 < weights @ y < weights.sum()


def miss(p, y, weights, c):
    """By which share of itself the rarer class's sum is missed at c.

    `bias_shift` meets that sum to 1e-12 of itself, so two of its answers to one question differ by
    up to 2e-12 in sum, and by 2e-12 / (d ln(sum) / dc) in c: by anything where the promises are
    certain, as the slope is a mean of q (1 - q). Hence answers are compared by their sums.
    """
    side = 1 if weights @ y <= weights @ (1 - y) else -1
    promised = weights @ expit(side * (log_odds(p) - c))
    return abs(promised / (weights @ (y if side == 1 else 1 - y)) - 1)


@given(predictions(min_size=2))
def test_the_promises_sum_to_the_outcomes(samples):
    """To 1e-8 of them, and so do the promises of nothing."""
    p, y, weights = samples
    if not both_classes(y, weights):
        return

    q = shifted(p, bias_shift(p, y, sample_weight=weights))

    assert weights @ q == pytest.approx(weights @ y, rel=1e-8)
    assert weights @ (1 - q) == pytest.approx(weights @ (1 - y), rel=1e-8)


@given(
    st.lists(st.tuples(EXTREMES, st.sampled_from([0.0, 1.0]), st.floats(-280, 280)), max_size=12)
)
def test_even_at_the_ends_and_with_lopsided_weights(rows):
    """Probabilities of 1e-12 and 1 - 1e-12, weights from 1e-280 to 1e280."""
    rows = [(0.0, 1.0, 0.0), (0.0, 0.0, 0.0), *rows]
    p, y, exponents = (np.array(column) for column in zip(*rows, strict=True))
    weights = 10.0**exponents

    odds = log_odds(p) - bias_shift(p, y, sample_weight=weights)

    # In logarithms, where nothing is too large or too small.
    promised = logsumexp(np.log(weights) + log_expit(odds))
    promised_not = logsumexp(np.log(weights) + log_expit(-odds))
    assert promised == pytest.approx(logsumexp(np.log(weights), b=y), abs=1e-8)
    assert promised_not == pytest.approx(logsumexp(np.log(weights), b=1 - y), abs=1e-8)


@ENDS
def test_of_one_probability_it_is_the_difference_of_log_odds(p):
    """Also at both ends, where it is large."""
    c = bias_shift([p] * 4, [0, 1, 0, 0])

    assert c == pytest.approx(float(log_odds(np.array([p]))[0]) + log(3), abs=1e-9)


@given(predictions(min_size=2))
@example((np.array([0.9375, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]), np.array([1, 4, 3])))
def test_weights_are_repetitions(samples):
    """And have no scale."""
    p, y, weights = samples
    if not both_classes(y, weights):
        return

    # Found with their logarithms, about 700 for the second, which are rounded by 1e-13.
    for c in (
        bias_shift(*repeated(p, y, weights)),
        bias_shift(p, y, sample_weight=weights * 1e300),
    ):
        assert miss(p, y, weights, c) < 2e-12


def test_fractions_are_parts_of_both_classes():
    """Outcome 1/4 with weight 4 is one positive and three negatives; all alike is no obstacle."""
    assert bias_shift([0.5, 0.5], [0.25, 0.25]) == pytest.approx(log(3))


def test_two_camps_of_certainty():
    """Half near 0, half near 1: Newton's step leaves the bracket, bisection brings it home."""
    p = np.repeat([1e-12, 1 - 1e-12], 500)
    y = np.zeros(1_000)
    y[:3] = 1

    c = bias_shift(p, y)

    assert shifted(p, c).sum() == pytest.approx(3.0, rel=1e-8)


def test_it_ends_where_floats_end(monkeypatch):
    """When rounding leaves the sum farther off than asked for, no float is tried twice."""
    monkeypatch.setattr(sys.modules["evaluation.metrics.calibration"], "_CLOSE", -1.0)
    p, y = [0.1, 0.2, 0.7], [0, 1, 0]

    c = bias_shift(p, y)

    assert shifted(p, c).sum() == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_class_has_no_finite_shift(outcome):
    """The error says so, and what to do; rows without weight do not count."""
    message = rf"outcomes are all {outcome} \(2 samples\): the shift .* is infinite; fit it on samp"
    with pytest.raises(ValueError, match=message):
        bias_shift([0.2, 0.4, 0.9], [outcome, outcome, 1 - outcome], sample_weight=[1, 2, 0])
