"""Slopes never carry a map past its next knot, and are found in finite time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.maps.calibration_map import segment_slopes
from tests.calibrators.strategies import knots, scores


@given(knots(), st.data())
def test_a_slope_reaches_its_next_value_and_never_passes_it(at, data):
    values = np.array(data.draw(st.lists(scores, min_size=len(at), max_size=len(at)))) + 0.0

    slopes = segment_slopes(at, values)

    reached = values[:-1] + slopes[:-1] * np.diff(at)
    rising = np.diff(values) >= 0
    assert (np.where(rising, reached <= values[1:], reached >= values[1:])).all()
    assert (np.where(rising, slopes[:-1] >= 0, slopes[:-1] <= 0)).all()
    assert np.isfinite(slopes).all()
    # Short of it by no more than rounding, but where the slope had to stop at the largest float.
    unclipped = np.abs(slopes[:-1]) < 1e300
    np.testing.assert_allclose(reached[unclipped], values[1:][unclipped], rtol=0, atol=1e-15)
    assert slopes[-1] == 0.0


@pytest.mark.parametrize("first", [6e-17, 0.00123, 1 / 3, 0.1])
def test_the_seam_between_two_maps_has_no_slope(first):
    """The knots fall back from 1 to 0 there; looking for a slope used to go on for ever."""
    slopes = segment_slopes(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.75, first, 0.5]))

    assert slopes[[1, 3]].tolist() == [0.0, 0.0]
    assert slopes[[0, 2]].tolist() == pytest.approx([0.75, 0.5 - first])


def test_a_step_over_denormal_knots_has_the_largest_slope():
    slopes = segment_slopes(np.array([0.0, 5e-324, 1.0]), np.array([0.0, 1.0, 0.0]))

    assert slopes.tolist() == [np.finfo(float).max, -1.0, 0.0]
    assert math.isfinite(slopes[0] * 5e-324)
