"""Bytes of an atlas: exact round trip; damaged ones are refused or read as a sound atlas."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.bins.codecs import pack_names
from tests.calibrators.damage import assert_refused_or_sound
from tests.calibrators.strategies import maps, names

HEADER = struct.Struct("<4sHHI")
WRITTEN = Atlas.build(
    {"a": CalibrationMap.proportional(0.5), "été": CalibrationMap([0, 0.3, 1], [0.1, 0.2, 0.7])},
    CalibrationMap.proportional(3.0),
)
SHARED = Atlas.build(
    {name: CalibrationMap([0, 0.3, 1], [0.1, 0.2, high]) for name, high in (("a", 0.5), ("b", 1))},
    CalibrationMap([0, 0.3, 1], [0, 0.2, 0.3]),
)
SCORES = np.array([0.0, 5e-324, 0.1, 0.3, 0.5, 1.0])


def assert_sound(atlas: Atlas) -> None:
    """Each campaign's map is one that `CalibrationMap` accepts and gives its probabilities."""
    for campaign in (*atlas.campaigns, "unknown"):
        own = atlas.map_of(campaign)
        assert atlas([campaign] * len(SCORES), SCORES).tobytes() == own(SCORES).tobytes()
        assert [atlas.at(campaign, score) for score in SCORES.tolist()] == own(SCORES).tolist()
    assert len(set(atlas.campaigns)) == len(atlas)
    assert Atlas.from_bytes(atlas.to_bytes()).to_bytes() == atlas.to_bytes()
    assert bytes(atlas.to_memory()) == atlas.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("written", [WRITTEN, SHARED], ids=["own knots", "shared knots"])
def test_every_flipped_or_truncated_byte_is_refused_or_read_as_a_sound_atlas(written):
    assert assert_refused_or_sound(Atlas.from_bytes, written.to_bytes(), assert_sound) > 300


@given(st.binary(max_size=120), st.integers(0, 1), st.integers(0, 3))
def test_random_bytes_behind_a_good_header(body, has_target_map, count):
    try:
        atlas = Atlas.from_bytes(HEADER.pack(b"SATL", 1, has_target_map, count) + body)
    except ValueError:
        return
    assert_sound(atlas)


def written(names: list[str], lengths: list[int], knots: list[float], values: list[float]) -> bytes:
    return b"".join(
        (
            HEADER.pack(b"SATL", 1, 0, len(names)),
            pack_names(names),
            struct.pack(f"<{len(lengths)}I", *lengths),
            struct.pack(f"<{len(knots)}d", *knots),
            struct.pack(f"<{len(values)}d", *values),
        )
    )


def shared(sets: list[int], knots: list[float], of_maps: list[int], values: list[float]) -> bytes:
    """As `written`, of maps without a name that share their knots."""
    return b"".join(
        (
            HEADER.pack(b"SATL", 4, 0, len(of_maps) - 1),
            pack_names([f"{number}" for number in range(1, len(of_maps))]),
            struct.pack("<I", 0),
            struct.pack(f"<{1 + len(sets)}I", len(sets), *sets),
            struct.pack(f"<{len(knots)}d", *knots),
            bytes(of_maps),
            struct.pack(f"<{len(values)}d", *values),
            struct.pack("<2Q", 0, 0),
        )
    )


def test_the_forms_under_test_are_the_stored_ones():
    own = {"1": CalibrationMap([0, 0.5, 1], [0, 0.1, 1])}
    halved = {"1": CalibrationMap.proportional(0.5)}

    assert Atlas.build(own).to_bytes() == written(
        ["1"], [2, 3], [0, 1, 0, 0.5, 1], [0, 1, 0, 0.1, 1]
    )
    assert Atlas.build(halved).to_bytes() == shared([2], [0, 1], [0, 0], [0, 1, 0, 0.5])


def test_maps_that_share_knots_are_read_as_they_were_stored_before():
    """By a release that did not know of it."""
    before = Atlas.from_bytes(written(["1"], [2, 2], [0, 1, 0, 1], [0, 1, 0, 0.5]))

    assert before.to_bytes() == shared([2], [0, 1], [0, 0], [0, 1, 0, 0.5])
    assert before(["1", "2"], [0.3, 0.3]).tolist() == [0.15, 0.3]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"SATL", "not the bytes of an atlas"),
        (HEADER.pack(b"SMAP", 1, 0, 0), "not the bytes of an atlas"),
        (HEADER.pack(b"SATL", 5, 0, 0), "schema_version 5, this reads up to 4"),
        (HEADER.pack(b"SATL", 1, 2, 0), "schema_version 1"),
        (HEADER.pack(b"SATL", 1, 0, 2**32 - 1) + b"\x01\x00", "needs 4294967309 bytes"),
        (HEADER.pack(b"SATL", 1, 0, 0) + b"\x01\x00", "the bytes end early"),
        (written(["a", "a"], [2] * 3, [0, 1] * 3, [0, 1] * 3), "stands twice"),
        (written(["a"], [2, 2**32 - 1], [0, 1] * 2, [0, 1] * 2), "4294967297 knots need"),
        (written(["a"], [4, 0], [0, 0.1, 0.2, 1], [0, 1] * 2), "at least two knots"),
        (written(["a"], [0, 4], [0, 0.1, 0.2, 1], [0, 1] * 2), "at least two knots"),
        (written(["a"], [3, 1], [0, 0.1, 1, 1], [0, 1] * 2), "at least two knots"),
        (written([], [0], [], []), "at least two knots"),
        (written(["a"], [2, 2], [0, 1, 0.1, 1], [0, 1] * 2), "from 0.0 to 1.0"),
        (written(["a"], [2, 2], [0, 0.9, 0, 1], [0, 1] * 2), "from 0.0 to 1.0"),
        (written([], [4], [0, 0.5, 0.5, 1], [0, 1] * 2), "increase strictly"),
        (written([], [2], [0, 1], [0, 1.1]), r"values\[1\] = 1.1"),
        (written([], [3], [0, np.nan, 1], [0, 0, 0]), r"knots\[1\] = nan"),
        (WRITTEN.to_bytes() + b"\x00", "ends at byte"),
        (SHARED.to_bytes() + b"\x00", "ends at byte"),
        (SHARED.to_bytes()[:-17], "the bytes end early"),
        (shared([2], [0, 1], [0, 1], [0, 1] * 2), "a map of set 1, there are 1"),
        (shared([2, 2], [0, 1, 0.1, 1], [0, 1], [0, 1] * 2), "from 0.0 to 1.0"),
        (shared([1], [0], [0, 0], [0, 1]), "at least two knots"),
        (shared([2], [0, np.nan], [0, 0], [0, 1] * 2), r"knots\[1\] = nan"),
        (shared([2], [0, 1], [0, 0], [0, 1, 0, 1.1]), r"values\[3\] = 1.1"),
    ],
)
def test_bad_bytes_are_refused_by_name(data, rule):
    with pytest.raises(ValueError, match=rule):
        Atlas.from_bytes(data)


def test_negative_zero_in_stored_floats_is_zero():
    atlas = Atlas.from_bytes(written(["a"], [2, 2], [-0.0, 1, -0.0, 1], [-0.0, 1, -0.0, 0.5]))

    assert not np.signbit(atlas(["a", "b"], [-0.0, -0.0])).any()
    assert not np.signbit([atlas.at("a", -0.0), atlas.at("b", -0.0)]).any()


@given(
    st.dictionaries(names, maps(), max_size=4),
    st.dictionaries(names, maps(), max_size=3),
    st.one_of(st.none(), maps()),
)
def test_an_atlas_comes_back_to_the_last_bit_also_when_read_like_another(own, other, target_map):
    like, data = Atlas.build(other), Atlas.build(own, target_map).to_bytes()

    for again in (Atlas.from_bytes(data), Atlas.from_bytes(data, like)):
        assert again.to_bytes() == data
        assert again.campaigns == tuple(sorted(own))
        assert again.target_map == target_map
        assert all(again.map_of(name) == calibration_map for name, calibration_map in own.items())
        assert again.rows(sorted(own)).tolist() == list(range(1, len(own) + 1))
    assert (again.campaigns is like.campaigns) == (own.keys() == other.keys())


@pytest.mark.slow
def test_damage_of_the_names_is_refused_or_read_as_sound_beside_another_too():
    """What is shared is shared only where every byte of the names is the same."""
    written = Atlas.build({name: CalibrationMap.identity() for name in ("aa", "ab", "b")})

    def read(data: bytes) -> Atlas:
        return Atlas.from_bytes(data, written)

    assert assert_refused_or_sound(read, written.to_bytes(), assert_sound) > 100
