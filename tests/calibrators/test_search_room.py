"""What a search writes down is nobody else's while it lasts, and is kept only once."""

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import GROUP, MapBlocks, SearchBuffers, spare_buffers
from calibrators.samples import Floats, Singles

N = 137


def halves_and_quarters() -> MapBlocks:
    """Row 0 halves a score, row 1 quarters it."""
    knots, values = np.array([0.0, 1.0] * 2), np.array([0.0, 0.5, 0.0, 0.25])
    return MapBlocks(MapColumns(np.array([2, 2]), knots, values))


def look_up(blocks: MapBlocks, row: int, score: float) -> set[float]:
    found: Floats = blocks.look_up(np.full(N, row), np.full(N, score, np.float32))
    return set(found.tolist())


def test_rows_count_the_knots_that_their_scores_have_passed():
    """A knot is passed by a score that equals it."""
    room = SearchBuffers(2)
    room.knots[:] = np.arange(GROUP)
    scores = np.array([0.0, 4.5], np.float32)

    assert room.passed(scores.repeat(GROUP)).tolist() == [1, 5]


def test_a_search_in_the_midst_of_another_leaves_it_alone(monkeypatch):
    """As two threads do it; only one of both rooms is kept."""
    blocks = halves_and_quarters()
    passed = SearchBuffers.passed
    inner = []

    def interrupted(room: SearchBuffers, repeated: Singles) -> NDArray[np.uint8]:
        monkeypatch.setattr(SearchBuffers, "passed", passed)
        inner.append(look_up(blocks, 1, 0.5))
        return passed(room, repeated)

    monkeypatch.setattr(SearchBuffers, "passed", interrupted)
    outer = look_up(blocks, 0, 1.0)

    assert (outer, inner) == ({0.5}, [{0.125}])
    assert len(spare_buffers(N)) == 1


def test_a_search_that_fails_leaves_the_next_one_right():
    """A row beyond the last one is an error, whichever room there is."""
    blocks = halves_and_quarters()
    assert look_up(blocks, 0, 1.0) == {0.5}

    with pytest.raises(IndexError):
        look_up(blocks, 2, 1.0)

    assert look_up(blocks, 1, 1.0) == {0.25}


def test_what_was_found_is_not_written_to_again():
    blocks = halves_and_quarters()
    first = blocks.look_up(np.zeros(N, np.int64), np.ones(N))

    look_up(blocks, 1, 0.5)

    assert set(first.tolist()) == {0.5}
