"""Calibration maps: monotone to the last bit, never outside [0, 1], the same by every way in."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import CalibrationMap
from tests.calibrators.strategies import SPECIAL_SCORES, Floats, maps, scores, scores_around

STEP = math.nextafter(0.3, 1)
HARD = {
    "step one ulp wide": ([0.0, 0.3, STEP, 1.0], [0.0, 0.1, 0.9, 1.0]),
    "step of the whole range": ([0.0, 0.3, STEP, 1.0], [0.0, 0.0, 1.0, 1.0]),
    "step at the smallest float": ([0.0, 5e-324, 1.0], [0.0, 1.0, 1.0]),
    "denormal knots": ([0.0, 5e-324, 1e-323, 1e-310, 1.0], [0.0, 0.2, 0.7, 0.8, 0.9]),
    "denormal values": ([0.0, 0.5, 1.0], [0.0, 5e-324, 1e-323]),
    "denormal rise over a wide run": ([0.0, 0.7, 1.0], [0.5, 0.5, math.nextafter(0.5, 1)]),
    "steep end": ([0.0, math.nextafter(1, 0), 1.0], [0.0, 1e-9, 1.0]),
    "flat": ([0.0, 0.2, 0.4, 1.0], [0.3, 0.3, 0.3, 0.3]),
    "identity": ([0.0, 1.0], [0.0, 1.0]),
    "falling": ([0.0, 0.3, STEP, 1.0], [1.0, 0.9, 0.1, 0.0]),
    "zigzag": ([0.0, 5e-324, 0.3, STEP, 1.0], [0.3, 0.9, 0.1, 0.7, 1e-17]),
}


def hard(name: str) -> CalibrationMap:
    return CalibrationMap(*HARD[name])


def assert_bounded(calibration_map: CalibrationMap, sorted_scores: Floats) -> None:
    """Between the values of the knots around each score; never falling where the map is rising."""
    probabilities = calibration_map(sorted_scores)
    knots, values = calibration_map.knots, calibration_map.values
    left = np.searchsorted(knots, sorted_scores, side="right") - 1
    right = np.minimum(left + 1, len(knots) - 1)
    assert (probabilities >= np.minimum(values[left], values[right])).all()
    assert (probabilities <= np.maximum(values[left], values[right])).all()
    if calibration_map.monotone:
        assert (np.diff(probabilities) >= 0).all()


def assert_same_by_every_way(calibration_map: CalibrationMap, scores: Floats) -> None:
    batch = calibration_map(scores)

    assert batch.tobytes() == np.array([calibration_map.at(s) for s in scores.tolist()]).tobytes()
    assert batch.tobytes() == np.array([calibration_map([s])[0] for s in scores]).tobytes()


@pytest.mark.parametrize("name", HARD)
def test_hard_maps_are_monotone_and_bounded_to_the_last_bit(name):
    rng = np.random.default_rng(3)
    calibration_map = hard(name)
    tested = scores_around(calibration_map.knots, rng.random(2000))

    assert_bounded(calibration_map, tested)
    assert_same_by_every_way(calibration_map, tested)
    assert calibration_map(calibration_map.knots).tolist() == calibration_map.values.tolist()


@given(maps(), st.lists(scores))
def test_any_map_is_monotone_and_bounded_to_the_last_bit(drawn, others):
    tested = scores_around(drawn.knots, np.array(others, np.float64))

    assert_bounded(drawn, tested)
    assert_same_by_every_way(drawn, tested)
    assert drawn(drawn.knots).tolist() == drawn.values.tolist()


@pytest.mark.parametrize("size", [2, 3, 50, 5000])
def test_random_maps_of_many_knots_are_monotone_and_bounded(size):
    rng = np.random.default_rng(size)
    for _ in range(20):
        knots = np.unique(np.concatenate(([0.0, 1.0], rng.random(size - 2) ** 4)))
        values = np.sort(rng.random(len(knots)) ** 4)
        assert_bounded(CalibrationMap(knots, values), scores_around(knots, rng.random(1000)))


@given(maps(), scores)
def test_a_probability_lies_on_the_exact_line(drawn, score):
    """Linear interpolation in exact fractions; the error is that of rounding."""
    points = list(zip(map(Fraction, drawn.knots), map(Fraction, drawn.values), strict=True))
    x = Fraction(score)
    (k0, v0), (k1, v1) = next((p, q) for p, q in pairwise(points) if p[0] <= x <= q[0])

    exact = v0 + (v1 - v0) * (x - k0) / (k1 - k0)

    # A slope stops at the largest float, which a rise over denormal knots can exceed.
    if (v1 - v0) / (k1 - k0) < Fraction(10) ** 300:
        assert abs(drawn.at(score) - exact) <= Fraction(1, 10**14)


def test_monotone_says_whether_values_ever_fall():
    assert hard("flat").monotone
    assert hard("identity").monotone
    assert not hard("falling").monotone
    assert not CalibrationMap([0, 0.5, 1], [0.5, math.nextafter(0.5, 0), 1]).monotone


@given(scores)
def test_the_identity_changes_nothing(score):
    identity = CalibrationMap.identity()

    assert identity.at(score) == score
    assert identity([score]).tolist() == [score]
    assert math.copysign(1, identity.at(-0.0)) == 1


@given(st.floats(0, 1e12), scores)
def test_proportional_is_one_ratio_cut_at_1(ratio, score):
    probability = CalibrationMap.proportional(ratio).at(score)

    assert probability == pytest.approx(min(1.0, ratio * score), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("ratio", [0.0, 5e-324, 1.0, math.nextafter(1, 2), 1e300, 1.7e308])
def test_proportional_takes_any_finite_ratio(ratio):
    calibration_map = CalibrationMap.proportional(ratio)

    assert calibration_map.monotone
    assert calibration_map.at(1.0) == min(1.0, ratio)
    assert calibration_map.at(0.0) == 0.0


@pytest.mark.parametrize("ratio", [-1.0, math.inf, math.nan])
def test_proportional_refuses_any_other_ratio(ratio):
    with pytest.raises(ValueError, match=r"ratio = .*must be finite and at least 0"):
        CalibrationMap.proportional(ratio)


@pytest.mark.parametrize("score", [-1e-9, math.nextafter(1, 2), math.nan, math.inf, -math.inf])
def test_a_score_outside_the_unit_interval_is_refused(score):
    with pytest.raises(ValueError, match=r"score = .*must be in \[0, 1\]"):
        CalibrationMap.identity().at(score)
    with pytest.raises(ValueError, match=r"scores\[1\] = .*must be in \[0, 1\]"):
        CalibrationMap.identity()([0.5, score])


@pytest.mark.parametrize(
    ("knots", "values", "rule"),
    [
        ([0.0], [0.0], "at least two"),
        ([], [], "at least two"),
        ([0.1, 1.0], [0.0, 1.0], "the first 0.0"),
        ([0.0, 0.9], [0.0, 1.0], "the last 1.0"),
        ([0.0, 0.5, 0.5, 1.0], [0, 0, 1, 1], r"knots\[2\] = 0.5: knots must increase strictly"),
        ([0.0, 0.5, 0.4, 1.0], [0, 0, 1, 1], r"knots\[2\] = 0.4"),
        ([0.0, math.nan, 1.0], [0, 0, 1], r"knots\[1\] = nan"),
        ([0.0, 1.0], [0.0, 1.1], r"values\[1\] = 1.1"),
        ([0.0, 1.0], [0.0, math.nan], r"values\[1\] = nan"),
        ([0.0, 1.0], [0.0, 0.5, 1.0], "knots has 2, values has 3"),
        ([[0.0, 1.0]], [0.0, 1.0], "one dimension, not 2"),
        (["0", "1"], [0.0, 1.0], "must be numbers"),
    ],
)
def test_bad_knots_and_values_are_refused(knots, values, rule):
    with pytest.raises(ValueError, match=rule):
        CalibrationMap(knots, values)


def test_a_map_is_immutable_and_shares_nothing_with_its_maker():
    knots, values = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.2, 1.0])
    calibration_map = CalibrationMap(knots, values)
    knots[1], values[1] = 0.9, 0.9

    assert calibration_map.at(0.5) == 0.2
    assert knots.flags.writeable
    for column in (calibration_map.knots, calibration_map.values, calibration_map.slopes):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0.5
    with pytest.raises(AttributeError):
        calibration_map.knots = knots  # type: ignore[misc]


def test_maps_are_equal_by_their_knots_and_values():
    one = CalibrationMap([0.0, 1.0], [0.0, 0.5])

    assert one == CalibrationMap([-0.0, 1.0], [-0.0, 0.5])
    assert hash(one) == hash(CalibrationMap.proportional(0.5))
    assert one != CalibrationMap.identity()
    assert one != "map"


@given(maps())
def test_zero_is_never_negative(drawn):
    """An answer of -0.0 would print as a negative probability."""
    probabilities = drawn(SPECIAL_SCORES)

    assert not np.signbit(probabilities).any()
