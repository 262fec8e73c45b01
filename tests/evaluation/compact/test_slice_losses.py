"""Ratios of sums, and how far chance moves PCOC."""

from math import inf, isnan

import numpy as np
import pytest
from scipy.stats import binomtest

from evaluation.streaming.log_metrics import group_ratios
from evaluation.streaming.rows import SliceSums, Sums


def sums(weight, positives, expected):
    zeros = np.zeros(1)
    return Sums(*(np.array([each], float) for each in (weight, positives, expected)), *[zeros] * 6)


def test_the_interval_of_pcoc_is_that_of_the_rate_upside_down():
    columns = group_ratios(sums(1_000, 50, 60))
    lower, upper = binomtest(50, 1_000).proportion_ci(0.95, method="exact")
    assert columns["pcoc"][0] == pytest.approx(1.2)
    assert columns["pcoc_lower"] == pytest.approx(0.06 / upper)
    assert columns["pcoc_upper"] == pytest.approx(0.06 / lower)


def test_without_positives_pcoc_and_its_upper_end_are_infinite():
    columns = group_ratios(sums(1_000, 0, 60))
    assert columns["pcoc"][0] == inf
    assert columns["pcoc_lower"][0] > 10
    assert columns["pcoc_upper"][0] == inf
    assert columns["prediction_error"][0] == inf


@pytest.mark.parametrize(("positives", "undefined"), [(0, True), (4, True), (2, False)])
def test_one_class_has_no_rig_and_no_nmse(positives, undefined):
    columns = group_ratios(sums(4, positives, 1.5))
    assert isnan(columns["rig"][0]) == isnan(columns["nmse"][0]) == undefined


def test_a_slice_without_samples_has_no_metric_and_no_warning():
    columns = group_ratios(sums(0, 0, 0))
    defined = {name for name, column in columns.items() if not isnan(column[0])}
    assert defined == {"n", "positives", "expected", "bids"}


def test_sums_grow_with_their_slices_and_leave_rows_of_none_out():
    found = SliceSums()
    found.add(np.ones((9, 3)), np.array([0, 2, -1], np.int32))
    found.add(np.ones((9, 1)), np.array([5], np.int32))
    assert found.of(6).weights.tolist() == [1, 0, 1, 0, 0, 1]
    assert found.of(7).bids.tolist() == [1, 0, 1, 0, 0, 1, 0]
