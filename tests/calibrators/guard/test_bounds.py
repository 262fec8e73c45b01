"""How far what serves a campaign may move in one refit, and lie from the target's map."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calibrators import Atlas, CalibrationMap
from calibrators.guard import GuardRules, guard
from calibrators.guard.bounds import MARGIN, Bounds, bounded, sketched
from calibrators.maps.calibration_map import MapColumns
from tests.calibrators import strategies
from tests.calibrators.guard.hours import SCORES, atlas, hour, shifted
from tests.calibrators.strategies import Floats, scores_around

ROUNDING = 1e-9


def at_most(better: Floats, than: Floats, factor: float) -> bool:
    """Whether odds are at most so many times others, but for the margin."""
    bound = factor * than / (1.0 + (factor - 1.0) * than) + MARGIN
    return bool((better <= bound + ROUNDING).all())


def all_scores(*maps: CalibrationMap) -> Floats:
    """Around all knots and between; halves of the smallest floats are not what they should be."""
    knots = np.concatenate([each.knots for each in maps])
    scores = scores_around(knots, np.linspace(0.0, 1.0, 499)).clip(0.0, 1.0)
    known = scores > 1e-300
    return scores[known | (scores == 0.0) & (knots[knots > 0.0].min() > 1e-300)]


@given(strategies.maps(), strategies.maps(), st.sampled_from([2, 6, 64]))
def test_nothing_moves_by_more_than_the_step(wanted, served, knots):
    """At any score, whatever the maps, of however few knots."""
    bounds = Bounds(Atlas.build({"a": served}), np.array([1]), 3.0)

    moved = bounded(MapColumns.of_maps([wanted]), bounds, knots).maps

    now = CalibrationMap(moved.knots, moved.values) if len(moved) else wanted
    scores = all_scores(now, served, wanted)
    assert at_most(now(scores), served(scores), 3.0)
    assert at_most(1.0 - now(scores), 1.0 - served(scores), 3.0)


@given(
    strategies.maps(monotone=True),
    strategies.maps(monotone=True),
    strategies.maps(monotone=True),
    strategies.maps(monotone=True),
    st.sampled_from([2, 6, 64]),
)
@example(
    CalibrationMap([0.0, 1.0], [0.25, 0.25]),
    CalibrationMap([0.0, 1.0], [0.0, 6e-8]),
    CalibrationMap([*np.linspace(0.0, 0.7, 12), 0.75, 1.0], [*[0.0] * 12, 1e-10, 0.25]),
    CalibrationMap([0.0, 1e-10, 0.8125, 0.875, 0.9375, 1.0], [0.0] * 6),
    64,
)
def test_everything_stays_in_reach_and_increasing(wanted, served, shared, before, knots):
    """A campaign's map, against the target's that goes out with it, of however few knots; of more
    than sixteen as it is drawn through sixteen."""
    candidate, in_force = Atlas.build({"a": wanted}, shared), Atlas.build({"a": served}, before)

    decided = guard(candidate, candidate, in_force, [], GuardRules(knots=knots))

    now, parent = decided.atlas.map_of("a"), sketched(decided.atlas.map_of("without"))
    scores = all_scores(now, parent)
    assert at_most(now(scores), parent(np.minimum(2.0 * scores, 1.0)), 27.0)
    assert at_most(1.0 - now(scores), 1.0 - parent(scores / 2.0), 27.0)
    assert now.monotone


def test_a_jump_takes_as_many_refits_as_it_has_steps():
    """log(odds ratio) / log(3), rounded up: 5 times the odds are reached in 2, 20 times in 3."""
    for factor, refits in ((5.0, 2), (1 / 5.0, 2), (20.0, 3)):
        wanted = atlas({"a": np.log(factor)})
        served, taken = atlas({"a": 0.0}), 0
        while served.map_of("a") != wanted.map_of("a"):
            served, taken = guard(wanted, wanted, served, []).atlas, taken + 1
        assert taken == refits


def test_a_bounded_candidate_is_told_where_there_is_traffic():
    candidate, in_force = atlas({"a": 2.0, "idle": 2.0}), atlas({"a": 0.0, "idle": 0.0})

    decided = guard(candidate, candidate, in_force, [hour({"a": 2.0}, 100)])

    assert decided.decisions == {"a": "bounded"}
    assert decided.counts == {"passed": 1, "kept": 0, "parent": 0, "bounded": 1}
    for name in ("a", "idle"):
        odds = logit(decided.atlas.map_of(name)(SCORES)) - logit(SCORES)
        assert odds == pytest.approx(np.log(3.0), abs=0.01)


def test_a_first_map_moves_from_what_served_before():
    """The target's map in force stands in."""
    decided = guard(atlas({"a": 3.0}), atlas({}), atlas({}), [])

    odds = logit(decided.atlas.map_of("a")(SCORES)) - logit(SCORES)
    assert odds == pytest.approx(np.log(3.0), abs=0.01)


def test_a_lost_map_leaves_in_steps():
    """A campaign whose map is far from the target's does not fall onto it at once."""
    served, taken = atlas({"a": 3.0}), 0

    while served.campaigns:
        served, taken = guard(atlas({}), atlas({}), served, []).atlas, taken + 1

    assert taken == 3


def test_a_map_that_is_nil_leaves_nil():
    """From the margin on, threefold each time: 1 % within 10 refits."""
    nil = Atlas.build({}, CalibrationMap([0.0, 1.0], [0.0, 0.0]))
    served, taken = nil, 0

    while served.map_of("a").at(0.01) < 0.01 - 1e-12:
        served, taken = guard(atlas({}), atlas({}), served, []).atlas, taken + 1

    assert taken <= 10


def test_a_mended_map_has_no_more_knots_than_fit_a_block():
    rng = np.random.default_rng(1)
    knots = [np.unique(np.concatenate(([0.0, 1.0], rng.random(60) ** 3))) for _ in range(3)]
    wanted, served, shared = (
        CalibrationMap(each, np.append(expit(logit(np.clip(each[:-1], 1e-4, 1)) + shift), 1.0))
        for each, shift in zip(knots, (2.5, 0.0, 0.3), strict=True)
    )
    candidate, in_force = Atlas.build({"a": wanted}, shared), Atlas.build({"a": served}, shared)

    decided = guard(candidate, candidate, in_force, [])

    now = decided.atlas.map_of("a")
    scores = all_scores(now, served)
    assert len(now.knots) <= 64
    assert at_most(now(scores), served(scores), 3.0)
    wide = guard(candidate, candidate, in_force, [], GuardRules(knots=1_000)).atlas.map_of("a")
    assert len(wide.knots) > 64
    assert logit(now(SCORES)) == pytest.approx(logit(wide(SCORES)), abs=0.1)


def test_pieces_of_a_map_that_are_in_bounds_stay_as_they_are():
    served = shifted(0.0)
    values = np.where(served.knots > 0.3, 1.0, served.values)
    candidate = Atlas.build({"a": CalibrationMap(served.knots, values)}, served)

    now = guard(candidate, candidate, Atlas.build({"a": served}, served), []).atlas.map_of("a")

    below = served.knots[served.knots < 0.2]
    assert (now(below) == served(below)).all()
    assert set(below) <= set(now.knots)


def test_maps_are_compared_without_a_copy_of_all():
    """Of very many campaigns, each copy of their maps is a kilobyte a campaign."""
    knots = np.concatenate(([0.0], expit(np.linspace(-9.0, 9.0, 62)), [1.0]))
    maps = MapColumns(np.full(8001, 64), np.tile(knots, 8001), np.tile(knots, 8001))
    names = [f"{number:04d}" for number in range(8000)]
    served, same = (Atlas.of_columns(names, maps, True) for _ in range(2))

    tracemalloc.start()
    try:
        decided = guard(same, same, served, [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert decided.atlas is same
    assert peak < maps.knots.nbytes + maps.values.nbytes
