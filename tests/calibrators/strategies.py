"""Hypothesis strategies for scores, samples and calibration maps, hard values first."""

import math

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibrators import CalibrationMap
from calibrators.bins.model_versions import SEPARATOR

Floats = NDArray[np.float64]

SPECIAL_SCORES = [
    0.0,
    -0.0,
    5e-324,
    2.2250738585072014e-308,
    1e-10,
    math.nextafter(2.0**-24, 0),
    2.0**-24,
    math.nextafter(0.25, 0),
    0.25,
    0.5,
    math.nextafter(1.0, 0),
    1.0,
]

scores = st.one_of(st.sampled_from(SPECIAL_SCORES), st.floats(0.0, 1.0))
outcomes = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
weights = st.one_of(st.sampled_from([0.0, 1.0, 3.0, 1e-9, 1e6]), st.floats(0.0, 1e6))
samples = st.tuples(scores, outcomes, weights)


@st.composite
def knots(draw: st.DrawFn) -> Floats:
    """Knots of a map: anywhere, one ulp apart, or in the denormals."""
    inner = draw(st.lists(scores, max_size=12))
    steps = [math.nextafter(score, 1.0) for score in inner if draw(st.booleans())]
    return np.unique(np.array([0.0, 1.0, *inner, *steps]) + 0.0)


@st.composite
def maps(draw: st.DrawFn, monotone: bool | None = None) -> CalibrationMap:
    """Calibration maps; monotone ones only if asked for."""
    at = draw(knots())
    values = draw(st.lists(scores, min_size=len(at), max_size=len(at)))
    ordered = draw(st.booleans()) if monotone is None else monotone
    return CalibrationMap(at, sorted(values) if ordered else values)


@st.composite
def maps_of_sets(draw: st.DrawFn) -> list[CalibrationMap]:
    """Maps in any order, at least two of each of one to three sets of knots."""
    sets = draw(st.lists(knots(), min_size=1, max_size=3))
    more = draw(st.lists(st.sampled_from(range(len(sets))), max_size=6))
    found = []
    for number in draw(st.permutations([*range(len(sets)), *range(len(sets)), *more])):
        size = len(sets[number])
        values = draw(st.lists(scores, min_size=size, max_size=size))
        found.append(CalibrationMap(sets[number], values))
    return found


def scores_around(knots: Floats, others: Floats) -> Floats:
    """Sorted scores: the knots, three floats to each side of every knot, and others."""
    near = [knots, others]
    for edge in (0.0, 1.0):
        step = knots
        for _ in range(3):
            step = np.nextafter(step, edge)
            near.append(step)
    return np.sort(np.concatenate(near))


plain_texts = st.text().filter(lambda text: SEPARATOR not in text)
names = st.one_of(
    st.sampled_from(["", "a", "b", "spring sale", "été", "广告", "\x00"]), plain_texts
)
