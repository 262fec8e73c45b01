"""Maps end to end: what they hold, in any order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators import CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from tests.calibrators import strategies

MAPS = st.lists(strategies.maps(), max_size=5)


def unpacked(columns: MapColumns) -> list[CalibrationMap]:
    cuts = np.cumsum(columns.lengths)[:-1]
    pairs = zip(np.split(columns.knots, cuts), np.split(columns.values, cuts), strict=True)
    return [CalibrationMap(knots, values) for knots, values in pairs] if len(columns) else []


@given(MAPS, MAPS)
def test_parts_stand_one_behind_the_other(first, second):
    parts = [MapColumns.of_maps(first), MapColumns.of_maps(second)]

    assert unpacked(MapColumns.end_to_end(parts)) == first + second


@given(MAPS, st.integers(0, 5), st.integers(0, 5))
def test_neighbours_are_taken_without_a_copy(maps, first, behind):
    columns = MapColumns.of_maps(maps)

    run = columns.taken(np.arange(len(maps))[first:behind])

    assert unpacked(run) == maps[first:behind]
    assert not len(run) or np.shares_memory(run.knots, columns.knots)


@given(MAPS.flatmap(lambda maps: st.tuples(st.just(maps), st.permutations(range(len(maps))))))
def test_maps_are_taken_in_any_order(drawn):
    maps, order = drawn

    taken = MapColumns.of_maps(maps).taken(np.array(order, np.int64))

    assert unpacked(taken) == [maps[place] for place in order]
