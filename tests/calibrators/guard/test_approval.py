"""Which refits as a whole wait for an operator."""

from math import log

import numpy as np
import pytest

from calibrators import Atlas, BinsTable, CalibrationMap
from calibrators.guard.guard import MOVES_KEPT, RefitChange, mean_move

NAMES = tuple("abcdefgh")
USUAL = (0.05, 0.2, 0.1)


def atlas(names=NAMES, ratio=0.5):
    maps = {name: CalibrationMap.proportional(ratio) for name in names}
    return Atlas.build(maps, CalibrationMap.proportional(ratio))


def change(candidate=NAMES, move=0.1, moves=USUAL, in_force=NAMES, **traffic):
    known = dict.fromkeys(NAMES, 1.0) | traffic
    return RefitChange(atlas(in_force), atlas(candidate), move, moves, known)


def test_a_usual_refit_goes_out():
    assert change().held_because() is None


def test_what_follows_on_nothing_goes_out():
    nothing = Atlas.empty()

    for candidate in (nothing, atlas()):
        assert RefitChange(nothing, candidate, 9.0, USUAL, {}).held_because() is None


def test_no_maps_at_all_are_held():
    """As after a store was emptied, and as of 2001."""
    assert RefitChange(atlas("a"), Atlas.empty(), None, (), {}).held_because() == "no-maps"


@pytest.mark.parametrize(
    ("left", "traffic", "held"),
    [
        ("abcd", {}, None),
        ("abc", {}, "campaigns-lost"),
        ("xyz", {}, "campaigns-lost"),
        # Many small ones fell below what a map of their own needs.
        ("abc", {"a": 9.0}, None),
        # One large one has ended.
        ("bcdefgh", {"a": 99.0}, None),
    ],
)
def test_most_campaigns_are_most_by_number_and_by_traffic(left, traffic, held):
    assert change(left, **traffic).held_because() == held


def test_of_three_campaigns_any_number_may_end():
    assert change("x", in_force="abc").held_because() is None


def test_where_no_traffic_is_known_the_number_decides():
    assert RefitChange(atlas(), atlas("abc"), 0.1, (), {}).held_because() == "campaigns-lost"


@pytest.mark.parametrize(
    ("move", "moves", "held"),
    [
        (0.69, (0.01, 0.01, 0.01), None),
        (0.70, (0.01, 0.01, 0.01), "moved-far"),
        (1.0, (0.2, 0.01, 0.01), None),
        (1.01, (0.2, 0.01, 0.01), "moved-far"),
        (9.0, (0.01, 0.01), None),
        (None, (0.01, 0.01, 0.01), None),
    ],
)
def test_far_is_a_factor_of_two_in_odds_and_five_times_any_move_before(move, moves, held):
    assert change(move=move, moves=moves).held_because() == held


def test_the_moves_of_a_day_are_kept():
    assert change(moves=(0.1,) * MOVES_KEPT, move=0.3).accepted == [0.1] * (MOVES_KEPT - 1) + [0.3]
    assert change(move=None).accepted == list(USUAL)
    assert RefitChange(Atlas.empty(), atlas(), 2.0, (), {}).accepted == []


def test_a_move_is_the_mean_over_impressions():
    """Three of four impressions are a campaign's whose odds double, the fourth stays."""
    before = CalibrationMap([0.0, 1.0], [0.2, 0.2])
    after = CalibrationMap([0.0, 1.0], [1 / 3, 1 / 3])
    columns = ([0.5] * 4, [1.0] * 4, [0.0, 0.0, 1.0, 0.0])
    table = BinsTable.from_columns(("a", "b"), *map(np.array, ([0, 0, 0, 1], *columns)))

    move = mean_move(
        [table], Atlas.build({"a": before, "b": before}), Atlas.build({"a": after, "b": before})
    )

    assert move == pytest.approx(0.75 * log(2.0))
    assert mean_move([], atlas(), atlas()) is None
