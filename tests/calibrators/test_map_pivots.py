"""A search in single precision never leads a score to another knot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import CalibrationMap
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.look_up import PIVOTS, MapBlocks, pivots_of
from calibrators.samples import Floats
from tests.calibrators.strategies import scores_around

ULP = float(np.spacing(np.float32(0.5)))


def blocks_of(knots: Floats) -> tuple[MapBlocks, CalibrationMap]:
    """One map of these knots, between two short ones, and the map alone."""
    values = np.linspace(0.1, 0.9, len(knots))
    ends = np.array([0.0, 1.0])
    lengths = np.array([2, len(knots), 2])
    columns = (np.concatenate((ends, column, ends)) for column in (knots, values))
    return MapBlocks(MapColumns(lengths, *columns)), CalibrationMap(knots, values)


def check(knots: Floats) -> None:
    blocks, alone = blocks_of(knots)
    single = knots.astype(np.float32)
    below = np.nextafter(single, np.float32(0))
    asked = scores_around(knots, np.concatenate((single, below), dtype=np.float64))
    asked = np.clip(asked, 0.0, 1.0)
    rows = np.ones(len(asked), np.int64)
    assert blocks.look_up(rows, asked).tobytes() == alone(asked).tobytes()
    rounded = asked.astype(np.float32)
    expected = alone(rounded.astype(np.float64))
    assert blocks.look_up(rows, rounded).tobytes() == expected.tobytes()


@given(
    st.integers(3, 200),
    st.floats(0.25, 0.75),
    st.sampled_from([2.0**-52, ULP / 8, ULP / 2, ULP, 1.5 * ULP, 8 * ULP]),
)
def test_knots_around_what_single_precision_can_tell_apart(number, first, gap):
    check(np.concatenate(([0.0], first + gap * np.arange(number), [1.0])))


@pytest.mark.parametrize("smallest", [5e-324, 1e-300, 1e-46, 1e-45, 1e-38])
def test_knots_that_single_precision_takes_for_nothing(smallest):
    check(np.array([0.0, smallest, 2 * smallest, 3 * smallest, 1.0]))


def test_pivots_are_the_first_knots_of_eighths():
    knots = np.arange(96, dtype=np.float32)
    starts, widths, steps = np.array([0, 48]), np.array([48, 16]), np.array([8, 8])

    found = pivots_of(knots, starts, widths, steps)

    assert found.shape == (2, PIVOTS)
    assert found[0].tolist() == [8, 16, 24, 32, 40, *[np.inf] * 3]
    assert found[1].tolist() == [56, *[np.inf] * 7]
