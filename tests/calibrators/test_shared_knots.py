"""Maps that share their knots: found to share them, and looked up as each alone, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import MapBlocks
from calibrators.maps.shared_knots import (
    MOST_OF_A_SLOT,
    MOST_SETS,
    SharedKnots,
    maps_by_row,
    slots_of,
)
from calibrators.samples import Floats
from tests.calibrators.strategies import maps_of_sets, scores, scores_around

LARGE = 300
"""Scores of a batch that is searched by tables, were there one set of knots."""


def columns_of(sets: list[Floats], maps: int, seed: int = 0) -> MapColumns:
    """Maps with the knots of each set in turn."""
    rng = np.random.default_rng(seed)
    own = [sets[number % len(sets)] for number in range(maps)]
    return MapColumns.of_maps([CalibrationMap(knots, rng.random(len(knots))) for knots in own])


@given(maps_of_sets(), st.lists(scores, min_size=1, max_size=8), st.booleans())
def test_each_score_is_looked_up_as_by_its_map_alone(maps, others, singles):
    """On the knots, beside them and between; as few, as a small batch and as a large one."""
    shared = maps_by_row(MapColumns.of_maps(maps))
    around = scores_around(np.concatenate([each.knots for each in maps]), np.array(others))
    asked = np.clip(around, -0.0, 1.0).astype(np.float32 if singles else np.float64)
    rows = np.arange(len(asked)) % len(maps)
    expected = np.array(
        [maps[row].at(score) for row, score in zip(rows.tolist(), asked.tolist(), strict=True)]
    )
    often = -(-LARGE // len(asked))

    assert shared.look_up(rows, asked).tobytes() == expected.tobytes()
    pairs = zip(rows.tolist(), asked.tolist(), strict=True)
    assert [shared.at(row, score) for row, score in pairs] == expected.tolist()
    assert np.array(shared.look_up_few(rows.tolist(), asked.tolist())).tobytes() == (
        expected.tobytes()
    )
    many = shared.look_up(np.tile(rows, often), np.tile(asked, often))
    assert many.tobytes() == np.tile(expected, often).tobytes()
    last = np.full(len(others), len(maps) - 1)
    assert shared.look_up(last, np.array(others)).tobytes() == maps[-1](others).tobytes()
    assert len(shared.look_up(last[:0], np.empty(0))) == 0


@given(maps_of_sets())
def test_maps_come_back_as_they_were(maps):
    given = MapColumns.of_maps(maps)
    shared = maps_by_row(given)

    found = shared.columns()

    assert found.lengths.tolist() == given.lengths.tolist()
    assert found.knots.tobytes() == given.knots.tobytes()
    assert found.values.tobytes() == given.values.tobytes()
    each = [shared.columns(slice(row, row + 1)) for row in range(len(maps))]
    assert [CalibrationMap(own.knots, own.values) for own in each] == maps


@given(st.lists(scores, min_size=1, max_size=30))
def test_slots_never_fall_as_scores_rise(some):
    ascending = np.sort(np.array(some) + 0.0)

    found = slots_of(ascending)

    assert (np.diff(found) >= 0).all()
    assert 0 <= found[0] <= found[-1] <= slots_of(np.ones(1))[0]


def spline_knots(first: float = -8.0) -> Floats:
    """As `pooled` has them: evenly in log-odds."""
    return np.concatenate(([0.0], 1 / (1 + np.exp(-np.linspace(first, 17.5, 50))), [1.0]))


def test_maps_share_where_two_have_the_same_knots_on_average():
    three = [spline_knots(-8.0), spline_knots(-7.0), spline_knots(-6.0)]

    assert isinstance(maps_by_row(columns_of(three, 6)), SharedKnots)
    assert isinstance(maps_by_row(columns_of(three, 5)), MapBlocks)
    assert isinstance(maps_by_row(columns_of(three, 3)), MapBlocks)


@pytest.mark.parametrize(("sets", "shared"), [(MOST_SETS, True), (MOST_SETS + 1, False)])
def test_no_more_sets_share_than_there_are_tables_for(sets, shared):
    """Piece by piece of the maps, so that a set may return in another piece."""
    knots = [np.array([0.0, (1 + number) / 1000, 1.0]) for number in range(sets)]
    maps = columns_of(knots, 40 * sets)

    found = maps_by_row(maps)

    assert isinstance(found, SharedKnots) == shared
    rows, asked = np.arange(len(maps)), np.random.default_rng(1).random(len(maps))
    expected = MapBlocks(maps).look_up(rows, asked)
    assert found.look_up(rows, asked).tobytes() == expected.tobytes()


@pytest.mark.parametrize("crowd", [MOST_OF_A_SLOT, MOST_OF_A_SLOT + 1, 40])
@pytest.mark.parametrize("moved", [0, 1, 3, 20])
def test_maps_with_crowded_knots_leave_the_others_their_set(crowd, moved):
    """Knots in one slot, as of maps that the guard has moved into bounds with knots of their own:
    of none of 20 maps, of some, and of all."""
    usual, inside = spline_knots(), 0.51 + np.arange(crowd) * 1e-6
    assert len(np.unique(slots_of(inside))) == 1
    crowded = np.union1d(usual, inside)
    maps = MapColumns.end_to_end(
        [columns_of([usual], 20 - moved), columns_of([crowded], moved)]
        if moved % 20
        else [columns_of([crowded if moved else usual], 20)]
    )

    found, blocks = maps_by_row(maps), MapBlocks(maps)

    assert isinstance(found, SharedKnots)
    for asked in (crowded, np.nextafter(crowded, 0.0), np.nextafter(crowded, 1.0)):
        many = np.tile(asked, -(-LARGE // len(asked)))
        for rows in (np.arange(len(many)) % 20, np.full(len(many), 19)):
            expected = blocks.look_up(rows, many).tobytes()
            assert found.look_up(rows, many).tobytes() == expected
            assert found.look_up(rows[:40], many[:40]).tobytes() == expected[: 8 * 40]
    read = Atlas.from_bytes(
        Atlas.of_columns([f"{n:02d}" for n in range(19)], found.columns(), True).to_bytes()
    )
    assert read.columns().knots.tobytes() == found.columns().knots.tobytes()


def test_a_row_beyond_the_last_is_an_error():
    shared = maps_by_row(columns_of([spline_knots()], 4))

    for count in (1, LARGE):
        with pytest.raises(IndexError):
            shared.look_up(np.full(count, 4), np.ones(count))


def test_a_map_takes_less_than_half_of_what_it_takes_alone():
    """Values and slopes, and no knots."""
    maps = columns_of([spline_knots()], 1000)

    data = Atlas.of_columns([f"{n}" for n in range(999)], maps, True).to_bytes()

    assert len(data) < 0.55 * 16 * len(maps.knots)


@pytest.mark.parametrize("place", [0, 70, 139])
def test_a_bad_value_is_refused_wherever_it_stands(place):
    maps = columns_of([spline_knots()], 140)
    maps.values[place * 52 + 7] = 1.5

    with pytest.raises(ValueError, match=r"= 1.5"):
        maps_by_row(maps)


def test_the_work_is_paused_between_pieces():
    pauses = []

    maps_by_row(columns_of([spline_knots()], 200), lambda: pauses.append(1))

    assert len(pauses) > 4
