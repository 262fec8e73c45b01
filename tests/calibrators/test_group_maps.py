"""Maps of groups: they serve campaigns without one of their own, the same by every way to look."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.guard import guard
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import CampaignGroups, GroupMaps
from tests.calibrators.damage import assert_refused_or_sound
from tests.calibrators.strategies import maps, names

SCORES = np.array([0.0, 5e-324, 0.1, 0.3, 0.5, 1.0])
BY_ADVERTISER = CampaignGroups("^([^/]*)/")


def grouped(
    own: dict[str, CalibrationMap],
    of_groups: dict[str, CalibrationMap],
    target_map: CalibrationMap | None = None,
) -> Atlas:
    """An atlas with maps of groups that are named before a slash."""
    columns = MapColumns.of_maps([*of_groups.values()])
    return Atlas.build(own, target_map, GroupMaps(BY_ADVERTISER, tuple(of_groups), columns))


def factor(number: float) -> CalibrationMap:
    return CalibrationMap.proportional(number)


WRITTEN = grouped({"a/1": factor(0.5), "x": factor(0.25)}, {"a": factor(0.7), "é": factor(0.6)})


@given(
    st.dictionaries(names, maps(), max_size=3),
    st.dictionaries(names.filter(lambda name: "/" not in name), maps(), max_size=3),
    st.one_of(st.none(), maps()),
)
@example({}, {"": CalibrationMap.identity()}, None)
def test_a_new_campaign_is_served_by_its_groups_map(own, of_groups, target_map):
    """Batch, few and single agree; so does what is written and read again."""
    atlas = grouped(own, of_groups, target_map)
    again = Atlas.from_bytes(atlas.to_bytes())
    shared = target_map or CalibrationMap.identity()
    expected = {f"{name}/new": found for name, found in of_groups.items()} | {"none": shared} | own

    assert again.to_bytes() == atlas.to_bytes()
    assert (atlas.groups is None) == (not of_groups)
    for name, found in expected.items():
        row = atlas.few_rows([name])
        assert again([name] * len(SCORES), SCORES).tobytes() == found(SCORES).tobytes()
        assert atlas.look_up_few(row * len(SCORES), SCORES) == found(SCORES).tolist()
        assert [again.at(name, score) for score in SCORES.tolist()] == found(SCORES).tolist()
        assert again.map_of(name) == found
        assert atlas.levels(np.array(row)) == [atlas.level(name)]


def test_levels_say_which_map_serves():
    assert [WRITTEN.level(name) for name in ("a/1", "a/2", "é/1", "b/1", "a")] == [
        *("campaign", "group", "group", "identity", "identity")
    ]
    assert WRITTEN.own_rows(["a/1", "a/2"]).tolist() == [1, 0]
    assert WRITTEN.rows_of_groups(["é", "b"]).tolist() == [4, 0]


def test_without_groups_the_bytes_are_those_of_the_version_before():
    plain = Atlas.build({"a/1": factor(0.5)})

    assert grouped({"a/1": factor(0.5)}, {}).to_bytes() == plain.to_bytes()
    assert plain.rows_of_groups(["a"]).tolist() == [0]
    assert not plain.has_groups


@pytest.mark.slow
def test_every_flipped_or_truncated_byte_is_refused_or_read_as_a_sound_atlas():
    def assert_sound(atlas: Atlas) -> None:
        for campaign in (*atlas.campaigns, "a/new", "unknown"):
            assert (
                atlas([campaign] * 6, SCORES).tobytes() == atlas.map_of(campaign)(SCORES).tobytes()
            )

    assert assert_refused_or_sound(Atlas.from_bytes, WRITTEN.to_bytes(), assert_sound) > 200


@pytest.mark.parametrize("expression", ["(", "no group"])
def test_an_expression_without_a_group_is_refused(expression):
    with pytest.raises(ValueError, match="must "):
        CampaignGroups(expression)


def test_a_group_that_stands_twice_is_refused():
    twice = GroupMaps(BY_ADVERTISER, ("a", "a"), MapColumns.of_maps([factor(0.5)] * 2))

    with pytest.raises(ValueError, match="a group stands twice"):
        Atlas.build({}, None, twice)


def test_the_guard_lets_no_groups_map_jump():
    """It moves as far from what served its new campaigns as a campaign's own map may, and a
    campaign that is gone is left to its group."""
    in_force = grouped({"a/gone": factor(0.3)}, {"a": factor(0.3)}, factor(0.3))
    candidate = grouped({"a/1": factor(0.31)}, {"a": factor(0.05), "b": factor(0.32)}, factor(0.3))

    found = guard(candidate, candidate, in_force, []).atlas

    assert 0.06 < found.at("a/new", 0.5) / 0.5 < 0.3
    assert found.at("b/new", 0.5) == pytest.approx(0.16)
    assert found.level("a/gone") == "group"
    assert found.at("a/1", 0.5) == candidate.at("a/1", 0.5)


def test_what_is_new_is_not_held():
    fresh = grouped({}, {"a": factor(0.05)})

    assert guard(fresh, fresh, None, []).atlas is fresh
