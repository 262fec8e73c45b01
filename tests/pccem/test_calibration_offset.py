import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from pccem.training import deviation, log_loss, log_odds_offset

clicks = st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=2, max_size=30)


@given(clicks)
def test_the_offset_makes_the_sums_equal(drawn):
    log_odds = np.array([each for each, _ in drawn])
    outcomes = np.array([float(each) for _, each in drawn])
    outcomes[:2] = 0.0, 1.0

    offset = log_odds_offset(log_odds, outcomes)

    assert expit(log_odds + offset).sum() == pytest.approx(outcomes.sum(), abs=1e-8)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_one_kind_of_outcome_has_no_offset(outcome):
    with pytest.raises(ValueError, match="must have both kinds"):
        log_odds_offset(np.zeros(3), np.full(3, outcome))


def test_log_loss_is_that_of_the_probabilities():
    log_odds, outcomes = np.array([-2.0, 0.5, 3.0]), np.array([0.0, 1.0, 0.0])
    p = expit(log_odds)

    expected = -np.mean(outcomes * np.log(p) + (1 - outcomes) * np.log(1 - p))
    assert log_loss(log_odds, outcomes) == pytest.approx(expected, rel=1e-14)
    assert log_loss(np.array([1000.0]), np.array([0.0])) == 1000.0


def test_deviation_counts_standard_errors():
    p, outcomes = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 1.0, 1.0, 1.0])

    assert deviation(p, outcomes) == pytest.approx(2.0 / math.sqrt(0.09 + 0.16 + 0.21 + 0.24))
    assert deviation(p, np.zeros(4)) < 0


@pytest.mark.parametrize(
    ("p", "outcome", "expected"), [(0, 0, 0), (0, 1, math.inf), (1, 0, -math.inf)]
)
def test_deviation_from_certainty(p, outcome, expected):
    assert deviation(np.array([float(p)]), np.array([float(outcome)])) == expected
    assert deviation(np.empty(0), np.empty(0)) == 0.0
