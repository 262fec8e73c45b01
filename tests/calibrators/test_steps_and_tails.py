"""Step maps are exact at any float; beyond the anchors a map goes on as its tails say."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrators.maps.calibration_map import Tails, borders_between, knots_with_tails, step_map
from tests.calibrators.strategies import Floats, knots, scores, scores_around


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


ALL: list[Tails] = ["proportional", "clip", "unit", "extend"]
STEP = math.nextafter(0.5, 1)


def served(
    anchors: list[float], values: list[float], tails: Tails, scores: list[float]
) -> list[float]:
    fitted = knots_with_tails(np.array(anchors), np.array(values), tails)
    return [fitted.at(score) for score in scores]


@pytest.mark.parametrize(
    ("tails", "below", "above"),
    [("proportional", 0.05, 0.4), ("clip", 0.1, 0.3), ("unit", 0.05, 0.65), ("extend", 0.05, 0.4)],
)
def test_each_kind_half_way_beyond_the_anchors(tails, below, above):
    assert served([0.2, 0.6], [0.1, 0.3], tails, [0.1, 0.4, 0.8]) == pytest.approx(
        [below, 0.2, above]
    )


def test_extend_goes_on_along_the_outermost_segments():
    assert served([0.4, 0.6], [0.1, 0.5], "extend", [0.0, 0.35, 0.375, 0.8, 0.85, 1.0]) == (
        pytest.approx([0.0, 0.0, 0.05, 0.9, 1.0, 1.0])
    )


@pytest.mark.parametrize("tails", ALL)
def test_one_anchor(tails):
    """Half the score for "extend" too, which has no segment to extend."""
    expected = {"clip": [0.2, 0.2, 0.2], "unit": [0.1, 0.2, 0.6]}

    assert served([0.4], [0.2], tails, [0.2, 0.4, 0.7]) == pytest.approx(
        expected.get(tails, [0.1, 0.2, 0.35])
    )


@pytest.mark.parametrize("tails", ALL)
def test_one_anchor_at_0_or_at_1(tails):
    """At 0 there is no proportion: the map is constant."""
    at_0 = {"unit": [0.3, 0.65, 1.0]}
    at_1 = {"clip": [0.3, 0.3, 0.3]}

    assert served([0.0], [0.3], tails, [0, 0.5, 1]) == pytest.approx(at_0.get(tails, [0.3] * 3))
    assert served([1.0], [0.3], tails, [0, 0.5, 1]) == pytest.approx(
        at_1.get(tails, [0.0, 0.15, 0.3])
    )


def test_the_low_end_of_a_proportional_tail_is_exactly_0():
    rng = np.random.default_rng(1)
    for anchor, value in rng.random((300, 2)):
        assert served([anchor], [value], "proportional", [0.0]) == [0.0]


@pytest.mark.parametrize(
    ("anchors", "values", "tails"),
    [
        ([5e-324], [0.5], "proportional"),
        ([1e-320], [0.5], "proportional"),
        ([0.5, STEP], [0.1, 0.9], "extend"),
        ([5e-324, 1e-323], [0.1, 0.9], "extend"),
    ],
)
def test_a_tail_too_steep_for_floats_is_a_step(anchors, values, tails):
    """The next float above the last anchor is already cut to 1."""
    after = math.nextafter(anchors[-1], 1)

    assert served(anchors, values, tails, [*anchors, after, 1.0]) == [*values, 1.0, 1.0]


@given(st.sets(scores, min_size=1, max_size=6), st.data(), st.sampled_from(ALL))
def test_any_anchors_are_met_and_the_order_is_kept(anchors, data, tails):
    at = np.unique(np.array(list(anchors)) + 0.0)
    drawn = data.draw(st.lists(scores, min_size=len(at), max_size=len(at)))
    values = np.sort(drawn) + 0.0

    fitted = knots_with_tails(at, values, tails)

    assert fitted(at).tolist() == values.tolist()
    assert fitted.monotone
    assume(len(at) > 1 or at[0] > 0)
    if tails == "unit":
        assert fitted.at(0.0) == (values[0] if at[0] == 0 else 0.0)
        assert fitted.at(1.0) == (values[-1] if at[-1] == 1 else 1.0)
