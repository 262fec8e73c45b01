"""Blocks of maps: filled piece by piece, searched at once, the same as map by map."""

import numpy as np
import pytest

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import MapBlocks
from calibrators.samples import Floats, Integers

MANY = 3000


def columns(lengths: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Knots and values of maps of these lengths, end to end."""
    knots, values = [], []
    for length in lengths.tolist():
        inner = np.sort(rng.random(length - 2))
        knots.append(np.concatenate(([0.0], inner, [1.0])))
        values.append(np.sort(rng.random(length)))
    return np.concatenate(knots), np.concatenate(values)


@pytest.mark.parametrize("longest", [3, 64, 65, 300])
def test_many_maps_are_filled_as_each_alone(longest):
    """They are more than one piece of the fill, and the widths of their blocks differ."""
    rng = np.random.default_rng(longest)
    lengths = rng.integers(2, longest + 1, MANY)
    knots, values = columns(lengths, rng)
    blocks = MapBlocks(MapColumns(lengths, knots, values))
    rows, asked = rng.integers(0, MANY, 5000), rng.random(5000)

    found = blocks.look_up(rows, asked)

    starts = np.cumsum(lengths) - lengths
    for row in rng.choice(MANY, 50).tolist():
        span = slice(starts[row], starts[row] + lengths[row])
        alone = CalibrationMap(knots[span], values[span])
        own = blocks.columns(np.array([row]))
        assert CalibrationMap(own.knots, own.values) == alone
        assert found[rows == row].tobytes() == alone(asked[rows == row]).tobytes()
    assert [
        column.tobytes()
        for column in (blocks.columns().lengths, blocks.columns().knots, blocks.columns().values)
    ] == [column.tobytes() for column in (lengths, knots, values)]


@pytest.mark.parametrize("row", [0, 1, 2])
def test_one_map_longer_than_a_piece_of_the_fill_stands_whole(row):
    rng = np.random.default_rng(1)
    lengths = np.full(3, 2)
    lengths[row] = 70_000
    knots, values = columns(lengths, rng)
    blocks = MapBlocks(MapColumns(lengths, knots, values))
    asked = rng.random(100)

    span = slice(2 * row, 2 * row + 70_000)
    alone = CalibrationMap(knots[span], values[span])

    assert blocks.look_up(np.full(100, row), asked).tobytes() == alone(asked).tobytes()


@pytest.mark.parametrize("place", [0, MANY // 2, MANY - 1])
def test_a_bad_map_is_refused_wherever_it_stands(place):
    rng = np.random.default_rng(2)
    lengths = np.full(MANY, 40)
    knots, values = columns(lengths, rng)
    knots[40 * place + 7] = knots[40 * place + 6]

    with pytest.raises(ValueError, match="must increase strictly"):
        MapBlocks(MapColumns(lengths, knots, values))


def test_unequal_lengths_of_a_handful_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        Atlas.empty().look_up_few([0, 0], [0.5])
