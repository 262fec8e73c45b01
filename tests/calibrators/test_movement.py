"""Where the maps of two atlases differ most."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.maps.movement import SCORES, MapMovement

FACTORS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.25, 0.5, 1.0]))


def atlas_of(factors, shared=None):
    maps = {name: CalibrationMap.proportional(factor) for name, factor in factors.items()}
    return Atlas.build(maps, None if shared is None else CalibrationMap.proportional(shared))


def slow(before, after, campaign):
    """The largest change of the log-odds, score by score."""
    p, q = (
        np.clip([atlas.at(campaign, score) for score in SCORES.tolist()], 1e-9, 1 - 1e-9)
        for atlas in (before, after)
    )
    return np.abs(np.log(q / (1 - q)) - np.log(p / (1 - p))).max()


@given(before=FACTORS, after=FACTORS, shared=st.sampled_from([None, 0.5]))
def test_same_as_the_slow_way(before, after, shared):
    was, now = atlas_of(before), atlas_of(after, shared)

    found = MapMovement(was, now)

    assert found.campaigns == tuple(sorted({*before, *after}))
    every = [*found.campaigns, "nobody's"]
    expected = [slow(was, now, name) for name in every]
    np.testing.assert_allclose(np.abs(found.log_odds), expected, rtol=1e-9, atol=1e-9)
    moved = np.flatnonzero(found.log_odds[:-1])
    assert sorted(found.moved.tolist()) == moved.tolist()
    sizes = np.abs(found.log_odds[found.moved])
    assert (np.diff(sizes) <= 0).all()


def test_of_empty_atlases_nothing_moves():
    found = MapMovement(Atlas.empty(), Atlas.empty())

    assert (found.campaigns, found.moved.tolist(), found.log_odds.tolist()) == ((), [], [0.0])
