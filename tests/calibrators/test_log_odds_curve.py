"""The sampled curve of the parametric calibrators keeps its tolerance at every score."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import expit

from calibrators import CalibrationMap
from calibrators.methods.logistic import LogOddsCurve
from tests.calibrators.strategies import Floats

slopes = st.one_of(
    st.sampled_from([0.0, 1.0]),
    st.floats(0.2, 3.0),
    st.floats(-9, 5).map(lambda power: 10.0**power),
)
levels = st.one_of(st.sampled_from([0.0, -18.0, 30.0]), st.floats(-8, 8), st.floats(-700, 700))


def scores_everywhere(calibration_map: CalibrationMap, rng: np.random.Generator) -> Floats:
    """Random scores of every order of magnitude, and inside every chord."""
    knots = calibration_map.knots
    chord = rng.integers(0, len(knots) - 1, 5000)
    drawn = np.concatenate(
        (
            10 ** -rng.uniform(0, 300, 3000),
            1 - 10 ** -rng.uniform(0, 16, 1000),
            knots[chord] + rng.random(5000) * (knots[chord + 1] - knots[chord]),
            np.nextafter(knots, 0.0),
            np.nextafter(knots, 1.0),
        )
    )
    return np.append(np.clip(drawn, 1e-300, 1.0), 0.0)


@given(slopes, slopes, levels)
@example(0.01, 0.01, -7.0)
@example(1e5, 1e5, 1e5)
@example(0.0, 1e5, -1e5)
def test_the_map_keeps_its_tolerance(a, b, c):
    curve = LogOddsCurve(a, b, c)
    calibration_map = curve.sampled()
    scores = scores_everywhere(calibration_map, np.random.default_rng(0))

    exact = curve(scores)

    assert (np.abs(calibration_map(scores) - exact) <= np.maximum(1e-3 * exact, 1e-9)).all()
    assert calibration_map.monotone


@pytest.mark.parametrize(
    ("a", "b", "c", "most"),
    [
        (1, 1, 0, 10),
        (0, 0, -3, 10),
        (1, 1, -2, 80),
        (0.9, 1.2, -0.3, 110),
        (1.3, 0, 0.5, 150),
        (2, 2, 1, 180),
        (0.6, 0.6, -2, 220),
    ],
)
def test_a_realistic_curve_needs_few_knots(a, b, c, most):
    assert len(LogOddsCurve(a, b, c).sampled().knots) <= most


def test_the_identity_is_exact():
    scores = np.linspace(0, 1, 1001)

    assert LogOddsCurve(1, 1, 0).sampled()(scores) == pytest.approx(scores, rel=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "at_0", "at_1"),
    [(1, 1, 0, 1), (0, 2, expit(-1), 1), (2, 0, 0, expit(-1)), (0, 0, expit(-1), expit(-1))],
)
def test_a_slope_of_0_keeps_its_end_off_the_edge(a, b, at_0, at_1):
    curve = LogOddsCurve(a, b, -1)

    expected = pytest.approx([at_0, at_1], rel=1e-12)
    assert curve(np.array([0.0, 1.0])) == expected
    assert curve.sampled()([0.0, 1.0]) == expected
