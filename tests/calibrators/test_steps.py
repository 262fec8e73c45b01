"""Step maps: every float up to a border has the lower value, every float above it the next."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators.maps.calibration_map import borders_between, step_map
from tests.calibrators.strategies import Floats, knots, scores_around


def distinct_scores(drawn: Floats, outer: tuple[bool, bool]) -> Floats:
    """Some of the drawn knots, with or without 0 and 1."""
    return drawn[int(outer[0]) : len(drawn) - int(outer[1])]


@given(knots(), st.tuples(st.booleans(), st.booleans()), st.data())
def test_a_step_map_is_exact_at_every_float(drawn, outer, data):
    scores = distinct_scores(drawn, outer)
    if not len(scores):
        return
    values = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=len(scores), max_size=len(scores)))
    )
    borders = borders_between(scores)

    calibration_map = step_map(borders, values)

    asked = scores_around(calibration_map.knots, np.concatenate((scores, borders)))
    expected = values[np.searchsorted(borders, asked, side="left")]
    assert calibration_map(asked).tolist() == expected.tolist()
    assert calibration_map(scores).tolist() == values.tolist()


@given(knots())
def test_a_border_lies_halfway_and_below_the_next_score(scores):
    borders = borders_between(scores)

    assert (scores[:-1] <= borders).all()
    assert (borders < scores[1:]).all()
    wide = np.diff(scores) > 1e-9
    halfway = (scores[:-1] + scores[1:]) / 2
    assert np.allclose(borders[wide], halfway[wide], rtol=1e-12, atol=0)


def test_steps_of_one_value_are_one_step():
    calibration_map = step_map(np.array([0.2, 0.4, 0.6]), np.array([0.1, 0.1, 0.5, 0.5]))

    expected = [0.0, 0.4, math.nextafter(0.4, 1.0), 1.0]
    assert calibration_map.knots.tolist() == expected
    assert calibration_map.values.tolist() == [0.1, 0.1, 0.5, 0.5]


def test_a_single_step_is_a_constant():
    calibration_map = step_map(np.empty(0), np.array([0.7]))

    assert calibration_map([0.0, 0.5, 1.0]).tolist() == [0.7, 0.7, 0.7]
