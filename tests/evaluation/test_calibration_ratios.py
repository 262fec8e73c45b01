"""COPC, ROPR and prediction error: the sums of promise and outcome, one over the other."""

from functools import partial
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cal_n, copc, pcoc, prediction_error, ropr
from evaluation.metrics.predictions import GroupSums
from tests.evaluation.predictions_of_kind import predictions

BIDS = st.sampled_from([0.0, 0.5, 1.0, 7.0])


def test_three_of_two_promised():
    """Two clicks promised, three came."""
    p, y = [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 0]

    assert copc(p, y) == 1.5
    assert prediction_error(p, y) == pytest.approx(-1 / 3)


@given(predictions())
def test_prediction_error_is_pcoc_less_1_and_the_inverse_of_copc_less_1(samples):
    """PE = PCOC - 1 = 1 / COPC - 1, where there are clicks and promises."""
    p, y, weights = samples
    if (weights @ p) * (weights @ y) == 0:
        return
    error = prediction_error(p, y, sample_weight=weights)

    assert error == pytest.approx(pcoc(p, y, sample_weight=weights) - 1)
    assert error == pytest.approx(1 / copc(p, y, sample_weight=weights) - 1)


@given(predictions(), st.sampled_from([1e-300, 0.01, 1.0, 3.0, 1e308]))
def test_ropr_of_equal_bids_is_copc(samples, bid):
    """Whatever they are; 1e308 does not overflow."""
    p, y, weights = samples

    value = ropr(p, y, np.full(len(p), bid), sample_weight=weights)

    assert value == pytest.approx(copc(p, y, sample_weight=weights), nan_ok=True)


@given(predictions(), st.data())
def test_ropr_is_copc_with_clicks_weighted_by_bid(samples, data):
    """Bids in the sums are weights of the samples."""
    p, y, weights = samples
    bids = np.array(data.draw(st.lists(BIDS, min_size=len(p), max_size=len(p))))

    value = ropr(p, y, bids, sample_weight=weights)

    assert value == pytest.approx(copc(p, y, sample_weight=weights * bids), nan_ok=True)


approx = partial(pytest.approx, nan_ok=True)

OVER_0 = {
    # (predicted, came): PCOC, prediction error, COPC, Cal-1
    (0.5, 0.0): (inf, inf, 0.0, inf),
    (0.0, 1.0): (0.0, -1.0, inf, inf),
    (0.0, 0.0): (nan, nan, nan, nan),
    (None, None): (nan, nan, nan, nan),
}


@pytest.mark.parametrize(("sums", "expected"), OVER_0.items())
def test_what_is_over_0(sums, expected):
    """One rule for all ratios, of samples and of groups: infinite, and nan for 0 over 0."""
    p, y = ([], []) if sums[0] is None else ([sums[0]] * 3, [sums[1]] * 3)
    n, predicted, came = float(len(p)), sum(p), sum(y)
    group = GroupSums(*(np.array([each]) for each in (n, came, predicted, 0.0, 0.0)))

    assert [f(p, y) for f in (pcoc, prediction_error, copc)] + [cal_n(p, y, 1)] == approx(expected)
    of_group = (group.pcoc, group.prediction_error, group.copc, group.cal_1)
    assert [each[0] for each in of_group] == approx(expected)
    assert ropr(p, y, [2.0] * len(p)) == approx(expected[2])
    assert isnan(ropr(p, y, [0.0] * len(p)))


def test_a_row_without_weight_has_no_bid():
    """Not even one that would leave the range of floats."""
    assert ropr([0.5, 0.5], [1, 0], [1e-300, 1e308], sample_weight=[1, 0]) == 2.0


@pytest.mark.parametrize("bid", [-1.0, float("nan"), float("inf")])
def test_a_bad_bid_is_named(bid):
    """ValueError with column, row, value and rule."""
    with pytest.raises(ValueError, match=rf"bids\[1\] = {bid}: every value must be finite and"):
        ropr([0.5, 0.5], [0, 1], [1.0, bid])


def test_a_bid_for_each_probability():
    """Unequal lengths are an error, not broadcast."""
    with pytest.raises(ValueError, match="equal lengths: probabilities has 2, bids has 1"):
        ropr([0.5, 0.5], [0, 1], [1.0])
