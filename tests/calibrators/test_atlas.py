"""The atlas serves each campaign by its own map, bit for bit, in batches and one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from tests.calibrators.strategies import Floats, maps, names, scores, scores_around

SIZES = [2, 3, 63, 64, 65, 255, 256, 257, 1024, 1025, 4096, 4097, 5000]


def random_map(rng: np.random.Generator, size: int) -> CalibrationMap:
    """A monotone map of exactly this many knots."""
    inner = rng.choice(2**20 - 1, size - 2, replace=False) + 1
    knots = np.concatenate(([0.0], np.sort(inner) / 2**20, [1.0]))
    return CalibrationMap(knots, np.sort(rng.random(size)))


def mixed(rng: np.random.Generator) -> dict[str, CalibrationMap]:
    return {f"of {size}": random_map(rng, size) for size in SIZES}


def assert_serves(atlas: Atlas, campaign: str, own: CalibrationMap, scores: Floats) -> None:
    """at == __call__ == look_up of the atlas and of the map, and the map is handed back."""
    expected = own(scores).tobytes()
    listed = [campaign] * len(scores)

    assert atlas(listed, scores).tobytes() == expected
    assert atlas.look_up(atlas.rows(listed), scores).tobytes() == expected
    assert np.array([atlas.at(campaign, s) for s in scores.tolist()]).tobytes() == expected
    few = atlas.look_up_few(atlas.few_rows(listed), scores.tolist())
    assert np.array(few).tobytes() == expected
    assert np.array([own.at(s) for s in scores.tolist()]).tobytes() == expected
    assert atlas.map_of(campaign) == own


@pytest.mark.parametrize("size", SIZES)
def test_maps_of_any_size_are_served_bit_for_bit(size):
    rng = np.random.default_rng(size)
    own = mixed(rng)
    atlas = Atlas.build(own)
    name = f"of {size}"

    assert_serves(atlas, name, own[name], scores_around(own[name].knots[:50], rng.random(500)))
    assert_serves(atlas, name, own[name], scores_around(own[name].knots[-50:], rng.random(50)))


@given(
    st.dictionaries(names, maps(), max_size=4),
    st.one_of(st.none(), maps()),
    st.lists(st.tuples(names, scores), max_size=20),
)
def test_any_atlas_serves_each_by_its_own_map_and_a_mixed_batch_as_the_loop(own, target_map, items):
    """Every knot and its neighbours, bit for bit."""
    atlas = Atlas.build(own, target_map)
    shared = target_map or CalibrationMap.identity()
    batch = [*items, *((name, 0.3) for name in own)]

    probabilities = atlas([name for name, _ in batch], [score for _, score in batch])

    looped = [own.get(name, shared).at(score) for name, score in batch]
    assert probabilities.tobytes() == np.array(looped, np.float64).tobytes()
    assert [atlas.at(name, score) for name, score in batch] == looped
    few = atlas.look_up_few(atlas.few_rows([name for name, _ in batch]), [s for _, s in batch])
    assert few == looped
    for name, serving in ({"no such campaign": shared} | own).items():
        assert_serves(atlas, name, serving, scores_around(serving.knots, np.array([0.3])))


def test_a_mixed_batch_of_all_widths_equals_the_loop():
    rng = np.random.default_rng(5)
    own = mixed(rng)
    atlas = Atlas.build(own, random_map(rng, 300))
    campaigns = [*own, "unknown"]
    for n in (1, 2, 7, 5000):
        names = [campaigns[i] for i in rng.integers(len(campaigns), size=n)]
        scores = rng.choice([0.0, 1.0, *rng.random(50)], n)

        looped = [atlas.at(*item) for item in zip(names, scores.tolist(), strict=True)]

        assert atlas(names, scores).tobytes() == np.array(looped).tobytes()


def test_maps_side_by_side_do_not_disturb_each_other():
    """One map's last value stands beside the next one's first: that seam is no segment."""
    rng = np.random.default_rng(8)
    values = np.sort(rng.random((100, 2)) * 10.0 ** -rng.integers(0, 12, (100, 2)))
    own = {f"{i:03}": CalibrationMap([0.0, 1.0], ends) for i, ends in enumerate(values)}
    atlas = Atlas.build(own)

    for name, calibration_map in own.items():
        assert_serves(atlas, name, calibration_map, np.array([0.0, 0.5, 1.0]))


def test_who_serves_a_campaign():
    own, shared = CalibrationMap.proportional(0.5), CalibrationMap.proportional(0.25)
    atlas, bare = Atlas.build({"b": own, "a": own}, shared), Atlas.build({"a": own})

    assert atlas.campaigns == ("a", "b")
    assert len(atlas) == 2
    assert atlas.rows(["b", "x", "a"]).tolist() == [2, 0, 1]
    assert atlas.rows([]).tolist() == []
    assert atlas.few_rows(["b", "x", "a"]) == [2, 0, 1]
    assert [atlas.level(name) for name in ("a", "x")] == ["campaign", "target"]
    assert [bare.level(name) for name in ("a", "x")] == ["campaign", "identity"]
    assert atlas.levels(atlas.rows(["x", "a"])) == ["target", "campaign"]
    assert bare.levels(bare.rows(["x", "a"])) == ["identity", "campaign"]
    assert atlas.target_map == atlas.map_of("x") == shared
    assert bare.target_map is None
    assert bare.map_of("x") == CalibrationMap.identity()


def test_the_empty_atlas_serves_the_identity_to_everyone():
    atlas = Atlas.empty()

    assert (len(atlas), atlas.campaigns) == (0, ())
    assert atlas(["a", "b"], [0.1, 0.2]).tolist() == [0.1, 0.2]
    assert atlas([], []).tolist() == []
    assert atlas.at("a", 0.1) == 0.1


@pytest.mark.parametrize("score", [-1e-9, math.nextafter(1, 2), math.nan, math.inf])
def test_a_score_outside_the_unit_interval_is_refused(score):
    with pytest.raises(ValueError, match=r"score = .*must be in \[0, 1\]"):
        Atlas.empty().at("a", score)
    with pytest.raises(ValueError, match=r"scores\[1\] = "):
        Atlas.empty()(["a", "a"], [0.5, score])


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="2 campaigns for 1 scores"):
        Atlas.empty()(["a", "b"], [0.5])


def test_what_it_hands_out_does_not_reach_into_it():
    """Maps are copies, probabilities are new arrays, and look-ups leave their arguments alone."""
    atlas = Atlas.build({"a": CalibrationMap.proportional(0.5)})
    rows, scores = atlas.rows(["a", "b"]), np.array([0.5, 0.5])

    atlas.look_up(rows, scores)[:] = 9

    assert (rows.tolist(), scores.tolist()) == ([1, 0], [0.5, 0.5])
    assert atlas.look_up(rows, scores).tolist() == [0.25, 0.5]
    assert not atlas.map_of("a").values.flags.writeable
