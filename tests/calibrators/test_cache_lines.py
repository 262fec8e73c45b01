"""Tables in lines of the cache: where their rows lie, and whose room they get."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrators import Atlas, CalibrationMap
from calibrators.maps import look_up
from calibrators.maps.look_up import HUGE_PAGE, LARGE, ROW_BYTES, aligned_rows
from calibrators.samples import Floats

ROWS = 2 * LARGE // ROW_BYTES


@pytest.fixture(autouse=True)
def _served() -> Iterator[None]:
    """A large table is in use, and no table of another test has left its room."""
    look_up._spare.clear()
    table = aligned_rows(8 * ROWS, np.float64)
    yield
    del table
    look_up._spare.clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 1000, LARGE // ROW_BYTES, ROWS + 1])
def test_no_row_crosses_a_line_of_the_cache(rows, dtype):
    table = aligned_rows(rows, dtype)

    assert table.shape == (rows, ROW_BYTES // np.dtype(dtype).itemsize)
    assert table.ctypes.data % ROW_BYTES == 0
    assert table.flags.c_contiguous
    table[:] = 1.0
    assert table.all()


def test_a_large_table_starts_at_a_huge_page():
    assert aligned_rows(ROWS, np.float64).ctypes.data % HUGE_PAGE == 0


@pytest.mark.parametrize("rows", [ROWS, ROWS + ROWS // 16, ROWS // 2 + ROWS // 16])
def test_the_room_of_a_table_that_is_gone_is_used_again(rows):
    """By one of about its size, of whatever numbers."""
    place = _place_of_one_that_is_gone(ROWS)

    assert aligned_rows(rows, np.float32).ctypes.data == place


@pytest.mark.parametrize(("gone", "rows"), [(ROWS, 2 * ROWS), (4 * ROWS, ROWS)])
def test_a_table_of_another_size_has_room_of_its_own(gone, rows):
    """In a smaller one there is none, and most of a much larger one would be lost."""
    _place_of_one_that_is_gone(gone)

    table = aligned_rows(rows, np.float64)

    assert len(look_up._spare) == 1, "it has not been used"
    table[:] = 1.0
    assert table.all()


def test_the_room_of_a_table_is_its_own_while_a_part_of_it_is_read():
    table = aligned_rows(ROWS, np.float64)
    table[:] = 1.0
    parts: list[Any] = [table[5:6, 1], memoryview(table.T[0])]
    del table

    while parts:
        other = aligned_rows(ROWS, np.float64)
        other[:] = 2.0
        assert parts.pop()[0] == 1.0
        del other


def test_no_two_threads_get_the_same_room():
    for _ in range(20):
        _places_of_several_that_are_gone(3)
        with ThreadPoolExecutor(4) as threads:
            tables = list(threads.map(lambda _: aligned_rows(ROWS, np.float64), range(4)))
        assert len({table.ctypes.data for table in tables}) == 4


def test_little_more_is_kept_than_is_in_use():
    _places_of_several_that_are_gone(40)

    kept = look_up._bytes(look_up._spare)
    assert 8 * LARGE <= kept <= 1.25 * look_up._bytes(look_up._used)


def test_tables_that_grow_leave_no_smaller_ones_behind():
    """As those of versions do whose maps get more knots."""
    rows, served = 8 * ROWS, aligned_rows(8 * ROWS, np.float64)
    for _ in range(8):
        rows += rows // 3
        served = aligned_rows(rows, np.float64)

    assert len(look_up._spare) <= 2
    assert look_up._bytes(look_up._spare) <= 1.25 * look_up._bytes(look_up._used)
    assert len(served) == rows


def test_the_room_of_the_version_before_is_there_for_the_next():
    """Also where their sizes are not the same."""
    places: set[int] = set()
    served = aligned_rows(8 * ROWS, np.float64)
    for number in range(12):
        served = aligned_rows(8 * ROWS + number % 3 * ROWS // 8, np.float64)
        places.add(served.ctypes.data)

    assert len(places) <= 3


def test_an_atlas_in_the_room_of_another_is_not_touched_by_it():
    """Whatever it held, also where the new one has nothing to say."""
    before = aligned_rows(ROWS + ROWS // 4, np.float64)
    before[:] = np.nan
    place = before.ctypes.data
    del before
    maps = {f"c{number}": _random_map(number) for number in range(2 * ROWS // 50)}

    atlas = Atlas.build(maps)

    assert atlas._maps._segments.ctypes.data == place
    scores = np.linspace(0.0, 1.0, len(maps))
    expected = [one([score])[0] for one, score in zip(maps.values(), scores, strict=True)]
    np.testing.assert_array_equal(atlas(list(maps), scores), expected)
    assert atlas.to_bytes() == Atlas.from_bytes(atlas.to_bytes()).to_bytes()


def _place_of_one_that_is_gone(rows: int) -> int:
    table = aligned_rows(rows, np.float64)
    return table.ctypes.data


def _places_of_several_that_are_gone(count: int) -> None:
    tables: list[NDArray[Any]] = [aligned_rows(ROWS, np.float64) for _ in range(count)]
    tables.clear()


def _random_map(seed: int) -> CalibrationMap:
    rng = np.random.default_rng(seed)
    inner: Floats = np.unique(rng.uniform(0.001, 0.999, 48))
    knots = np.array([0.0, *inner, 1.0])
    return CalibrationMap(knots, rng.uniform(0.0, 1.0, len(knots)))
