"""The numbers that stand for campaigns: agreed on by digest, understood over versions."""

import struct
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.columns.campaigns import FORMER_KEPT, CampaignIds, UnknownDictionary
from app.strict_json import ValidationError
from calibrators import Atlas, CalibrationMap

NAMES = st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))


def atlas_of(*campaigns):
    return Atlas.build({name: CalibrationMap.identity() for name in campaigns})


def rows(ids, dictionary, *numbers):
    return ids.rows(dictionary, np.array(numbers, np.uint32)).tolist()


def check(ids, dictionary, *numbers):
    ids.check(dictionary, np.array(numbers, np.uint32))


def names(ids, dictionary, *numbers):
    found, places = ids.names(dictionary, np.array(numbers, np.uint32))
    return [found[place] for place in places.tolist()]


@given(NAMES)
def test_an_id_leads_to_the_row_of_its_campaign(campaigns):
    """Every id of the list in force, and id 0 to the row of those without a map."""
    atlas = atlas_of(*campaigns)

    ids = CampaignIds.of(atlas)

    listed = range(len(campaigns) + 1)
    assert rows(ids, ids.dictionary, *listed) == [0, *atlas.rows(ids.campaigns).tolist()]
    assert names(ids, ids.dictionary, *listed) == ["", *ids.campaigns]


def test_the_dictionary_is_the_digest_of_the_packed_names():
    """As docs/columns.md says it, so that another program can tell which list it has."""
    packed = bytes([1, 0, 1, 5]) + b"a" + b"shoes"

    digest = blake2b(packed, digest_size=8).digest()

    assert CampaignIds.of(atlas_of("shoes", "a")).dictionary == struct.unpack("<Q", digest)[0]


def test_two_processes_agree_without_asking_each_other():
    """Whatever versions each of them has seen before."""
    first = CampaignIds.of(atlas_of("a", "b"))
    second = CampaignIds.of(atlas_of("b", "a"), CampaignIds.of(atlas_of("c")))

    assert first.dictionary == second.dictionary


def test_a_refit_of_the_same_campaigns_changes_nothing():
    """Most refits: lists that were handed out stay in force, and nothing is built again."""
    before = CampaignIds.of(atlas_of("a", "b"))

    assert CampaignIds.of(atlas_of("a", "b"), before) is before


def test_a_former_list_leads_to_the_rows_of_now():
    """Campaigns were added before, between and behind, and one lost its map."""
    before = CampaignIds.of(atlas_of("b", "d", "f"))
    atlas = atlas_of("a", "b", "c", "f", "g")

    now = CampaignIds.of(atlas, before)

    assert rows(now, before.dictionary, 0, 1, 2, 3) == [0, *atlas.rows(["b", "d", "f"]).tolist()]
    assert names(now, before.dictionary, 3, 0, 2, 2) == ["f", "", "d", "d"]


def test_a_campaign_that_came_back_is_served_by_its_map_again():
    before = CampaignIds.of(atlas_of("a", "b"))
    between = CampaignIds.of(atlas_of("b"), before)

    now = CampaignIds.of(atlas_of("a", "b", "c"), between)

    assert rows(now, before.dictionary, 1, 2) == [1, 2]


def test_a_list_that_comes_back_into_force_is_no_former_one():
    """As after a rollback."""
    first = CampaignIds.of(atlas_of("a"))
    second = CampaignIds.of(atlas_of("b"), first)

    third = CampaignIds.of(atlas_of("a"), second)

    assert third.dictionary == first.dictionary
    assert set(third.former) == {second.dictionary}


def test_only_the_last_few_lists_are_kept():
    """Memory stays bounded, however often the campaigns change."""
    lists = [CampaignIds.of(atlas_of("0"))]
    for number in range(1, FORMER_KEPT + 3):
        lists.append(CampaignIds.of(atlas_of(str(number)), lists[-1]))

    *forgotten, last = lists

    kept = forgotten[-FORMER_KEPT:]
    assert [rows(last, former.dictionary, 1) for former in kept] == [[0]] * FORMER_KEPT
    for former in forgotten[:-FORMER_KEPT]:
        with pytest.raises(UnknownDictionary, match=f"{former.dictionary:016x}"):
            rows(last, former.dictionary, 1)
        with pytest.raises(UnknownDictionary):
            names(last, former.dictionary, 1)


def test_the_dictionary_zero_is_never_known():
    """A header without a dictionary says 0."""
    ids = CampaignIds.of(Atlas.empty())

    assert ids.dictionary != 0
    with pytest.raises(UnknownDictionary):
        rows(ids, 0, 0)


@pytest.mark.parametrize("look_up", [check, names])
def test_an_id_beyond_the_list_is_named(look_up):
    """Of the list that it is of: the former one is shorter here."""
    before = CampaignIds.of(atlas_of("a"))
    now = CampaignIds.of(atlas_of("a", "b"), before)

    look_up(now, now.dictionary, 2)
    with pytest.raises(
        ValidationError, match=r"^campaigns\[1\] = 2: must be an id of the list, 0 to 1"
    ):
        look_up(now, before.dictionary, 1, 2)
    with pytest.raises(ValidationError, match=r"^campaigns\[0\] = 4294967295: must be an id"):
        look_up(now, now.dictionary, 2**32 - 1)


@pytest.mark.parametrize("number", [3, 2**32 - 1])
def test_an_id_beyond_the_list_has_no_row_that_can_be_looked_up(number):
    """Whichever list it is of: so nothing is served by the map of another campaign."""
    before = CampaignIds.of(atlas_of("a", "b"))
    atlas = atlas_of("b", "c")
    now = CampaignIds.of(atlas, before)

    for dictionary in (now.dictionary, before.dictionary):
        with pytest.raises(IndexError):
            atlas.look_up(now.rows(dictionary, np.array([0, number], np.uint32)), np.full(2, 0.5))
        with pytest.raises(IndexError):
            atlas.look_up_few(rows(now, dictionary, 0, number), [0.5, 0.5])
