"""The target's own map, and that no single campaign decides about it."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.special import logit

from calibrators import Atlas
from calibrators.guard import GuardRules, guard
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import CampaignGroups, GroupMaps
from tests.calibrators.guard.hours import SCORES, atlas, exactly, shifted

MANY = 2_000
OTHERS = dict.fromkeys("bcdef", 0.0)


def test_a_worse_trial_keeps_the_targets_map_in_force():
    candidate, in_force = atlas({}, 0.5), atlas({}, 0.0)

    decided = guard(candidate, candidate, in_force, [exactly(OTHERS, MANY)])

    assert decided.target_decision == "kept"
    assert decided.atlas.target_map == in_force.target_map


def test_the_identity_serves_where_it_beats_both():
    candidate, in_force = atlas({}, 0.5), atlas({}, 0.6)

    decided = guard(candidate, candidate, in_force, [exactly(OTHERS, MANY)])

    assert decided.target_decision == "parent"
    assert decided.atlas.target_map is None


def grouped(target: float, groups: Mapping[str, float]) -> Atlas:
    maps = MapColumns.of_maps([shifted(shift) for shift in groups.values()])
    columns = MapColumns.of_maps([shifted(target)])
    names = GroupMaps(CampaignGroups("^(.+)/"), tuple(groups), maps)
    return Atlas.of_columns((), columns, True, names)


def test_groups_stay_where_the_identity_serves_the_target():
    candidate, in_force = grouped(0.5, {"g": -1.5}), grouped(0.6, {"g": -1.5})

    decided = guard(candidate, candidate, in_force, [exactly(OTHERS, MANY)])

    assert decided.target_decision == "parent"
    assert decided.atlas.at("g/new", 0.02) == pytest.approx(in_force.at("g/new", 0.02))


def test_a_group_that_is_no_more_goes_to_the_targets_map_by_steps():
    decided, candidate, steps = grouped(0.0, {"g": -3.0, "h": 0.1}), grouped(0.0, {"h": 0.1}), []
    for _ in range(4):
        found = guard(candidate, candidate, decided, [exactly(OTHERS, MANY)])
        steps.append(found.atlas.at("g/new", 0.02) / decided.at("g/new", 0.02))
        decided = found.atlas

    assert decided.level("g/new") == "target"
    assert max(steps) < 3.2
    assert decided.at("h/new", 0.02) == pytest.approx(candidate.at("h/new", 0.02))


def test_one_campaign_does_not_refuse_the_targets_map():
    """Its outcomes speak for the map in force, those of all others for neither."""
    hour = exactly({"a": 3.0, **OTHERS}, MANY)
    candidate, in_force = atlas({}, 0.0), atlas({}, 0.05)

    assert guard(candidate, candidate, in_force, [hour]).target_decision == "passed"


@pytest.mark.parametrize(("set_aside", "decision"), [("", "kept"), ("xy", "passed")])
def test_campaigns_whose_hour_is_set_aside_do_not_refuse_it(set_aside, decision):
    hour = exactly({"x": 3.0, "y": 3.0, **OTHERS}, MANY)
    candidate, in_force = atlas({}, 0.0), atlas({}, 0.3)

    found = guard(candidate, candidate, in_force, [hour], set_aside=set_aside)

    assert found.target_decision == decision


def test_one_campaign_does_not_carry_the_targets_map_away():
    """The trial has not seen the hour in which the campaign's tracker broke, the candidate has."""
    hour = exactly({"a": 5.0, **OTHERS}, MANY)

    decided = guard(atlas({}, 0.6), atlas({}, 0.0), atlas({}, 0.0), [hour])

    assert decided.target_decision == "kept"
    assert decided.atlas.target_map == atlas({}, 0.0).target_map


def test_small_steps_do_not_carry_it_away_either():
    """Each smaller than the tolerance: they end at the creep."""
    hour = exactly({"a": 5.0, **OTHERS}, 100_000)
    served = atlas({}, 0.0)
    for step in range(1, 25):
        served = guard(atlas({}, 0.05 * step), served, served, [hour]).atlas

    shift = logit(served.map_of("b")(SCORES)) - logit(SCORES)
    assert shift == pytest.approx(np.full(len(SCORES), GuardRules().creep), abs=0.06)


def test_all_campaigns_together_do_carry_it():
    truths = {"a": 0.6, **dict.fromkeys("bcdef", 0.6)}
    candidate = atlas({}, 0.6)

    decided = guard(candidate, atlas({}, 0.0), atlas({}, 0.0), [exactly(truths, MANY)])

    assert decided.target_decision == "passed"
    assert decided.atlas.target_map == candidate.target_map


def test_the_only_campaign_is_not_judged_as_the_target():
    """Without it there is nothing to go by; its own map is judged as its own."""
    candidate = atlas({}, 0.9)

    decided = guard(candidate, candidate, atlas({}, 0.0), [exactly({"a": 0.0}, MANY)])

    assert decided.target_decision == "passed"


def test_campaigns_are_judged_against_the_targets_map_that_goes_out():
    """The candidate's own target map is refused, so it cannot take a campaign's place."""
    hour = exactly({"a": 0.8, **OTHERS}, MANY)
    candidate, in_force = atlas({"a": 0.3}, 0.8), atlas({"a": 0.35}, 0.0)

    decided = guard(candidate, candidate, in_force, [hour])

    assert decided.target_decision == "kept"
    assert decided.decisions == {}


def test_a_bounded_target_takes_its_campaigns_along():
    """A campaign without a map moves by the step, as the target's map does."""
    decided = guard(atlas({}, 2.0), atlas({}, 0.0), atlas({}, 0.0), [exactly({"a": 1.0}, 10)])

    assert decided.target_decision == "bounded"
    assert logit(decided.atlas.map_of("a")(SCORES)) - logit(SCORES) == pytest.approx(
        np.log(3.0), abs=0.01
    )
