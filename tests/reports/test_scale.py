"""Axes hold what they must hold, with round numbers along them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reports.scale import Scale, linear_scale, log_scale, ratio_scale

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20)
SIZES = st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=20)


def are_sound(scale: Scale) -> bool:
    ticks = list(scale.ticks)
    inside = all(scale.low <= tick <= scale.high for tick in ticks)
    return inside and ticks == sorted(set(ticks)) and len(ticks) == len(scale.labels) <= 6


@given(VALUES)
def test_a_linear_axis_holds_all_values(values):
    scale = linear_scale([np.array(values)])

    assert scale.inside(np.array(values)).all()
    assert are_sound(scale)


@given(SIZES)
def test_a_logarithmic_axis_holds_all_values(values):
    scale = log_scale([np.array(values)])

    assert scale.inside(np.array(values)).all()
    assert are_sound(scale)
    assert scale.logarithmic


@given(SIZES)
def test_ratios_are_drawn_around_one(values):
    scale = ratio_scale([np.array(values)])

    assert scale.low < 0.81
    assert scale.high > 1.24
    assert are_sound(scale)


def test_bars_begin_exactly_at_zero():
    assert linear_scale([np.array([1, 2])], include=(0.0,), end_on=(0.0,)).low == 0.0
    assert linear_scale([np.array([-1, -2])], include=(0.0,), end_on=(0.0,)).high == 0.0


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf], [1e300], [0.0], [5e-324]])
def test_an_axis_of_nothing_is_still_an_axis(values):
    for scale in (linear_scale, log_scale, ratio_scale):
        found = scale([np.array(values)])

        assert math.isfinite(found.low)
        assert math.isfinite(found.high)
        assert found.low < found.high


def test_what_has_no_place_is_below_or_above():
    """An undefined value is neither."""
    scale = log_scale([np.array([1.0, 10.0])])
    values = np.array([0.0, 5.0, math.inf, math.nan, -math.inf])

    assert scale.below(values).tolist() == [True, False, False, False, True]
    assert scale.inside(values).tolist() == [False, True, False, False, False]
    assert scale.above(values).tolist() == [False, False, True, False, False]


def test_a_value_far_out_does_not_press_the_others_together():
    scale = ratio_scale([np.array([0.9, 1.1, 1e9])])

    assert scale.high == pytest.approx(100, rel=0.4)


def test_ticks_are_round():
    assert linear_scale([np.array([0.0, 1.0])]).labels == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert log_scale([np.array([0.01, 1.0])]).labels == ["0.01", "0.03", "0.1", "0.3", "1"]
    assert log_scale([np.array([0.57, 1.45])]).labels == ["0.6", "0.8", "1", "1.2", "1.5"]
    assert ratio_scale([np.array([1.0])]).labels == ["0.8", "0.9", "1", "1.1", "1.2"]
