"""COPC, ROPR and prediction error: the sums of promise and outcome, one over the other."""

from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import copc, pcoc, prediction_error, ropr
from tests.evaluation.cal_n_oracle import repeated
from tests.evaluation.predictions_of_kind import predictions
from tests.evaluation.tables_of_paper_001 import PE, TABLES, aggregated

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


@given(predictions(), st.data())
def test_weights_are_repetitions_and_order_is_of_no_effect(samples, data):
    """For all three."""
    p, y, weights = samples
    bids = np.array(data.draw(st.lists(BIDS, min_size=len(p), max_size=len(p))))
    order = data.draw(st.permutations(range(len(repeated(p, y, weights)[0]))))
    rows = [np.repeat(column, weights)[order] for column in (p, y, bids)]

    for metric in (copc, prediction_error):
        weighted = metric(p, y, sample_weight=weights)
        assert metric(rows[0], rows[1]) == pytest.approx(weighted, nan_ok=True)
    assert ropr(*rows) == pytest.approx(ropr(p, y, bids, sample_weight=weights), nan_ok=True)


@pytest.mark.parametrize("table", TABLES)
def test_prediction_error_of_the_tables_of_paper_001(table):
    """From click and no-click counts."""
    tolerance = 5e-4 if table == "3b" else 1e-6
    assert aggregated(prediction_error, table) == pytest.approx(PE[table], abs=tolerance)


def test_prediction_error_of_table_3_in_full():
    """The counts give what the table of figures rounds to 7.485."""
    scores, clicks, no_clicks = (np.array(column) for column in TABLES["3b"])
    promised = scores @ (clicks + no_clicks)

    assert aggregated(prediction_error, "3b") == pytest.approx(promised / 6_600 - 1, abs=1e-12)


def test_what_is_over_0():
    """Clicks without a promise and promises without a click are infinite, neither is nan."""
    assert copc([0.0, 0.0], [0, 1]) == inf
    assert copc([0.5], [0]) == 0.0
    assert isnan(copc([0.0], [0]))
    assert prediction_error([0.5], [0]) == inf
    assert prediction_error([0.0], [1]) == -1.0
    assert isnan(prediction_error([0.0], [0]))
    assert ropr([0.0], [1], [2.0]) == inf
    assert isnan(ropr([0.5], [1], [0.0]))
    assert isnan(ropr([], [], []))


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
