"""Pivots in single precision never lead a score to another knot; where they could, they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import CalibrationMap
from calibrators.map_blocks import MapBlocks
from calibrators.map_pivots import PIVOTS, pivots_of
from calibrators.samples import Floats
from tests.calibrators.strategies import scores_around

ULP = float(np.spacing(np.float32(0.5)))


def blocks_of(knots: Floats) -> tuple[MapBlocks, CalibrationMap]:
    """One map of these knots, between two short ones, and the map alone."""
    values = np.linspace(0.1, 0.9, len(knots))
    ends = np.array([0.0, 1.0])
    lengths = np.array([2, len(knots), 2])
    columns = (np.concatenate((ends, column, ends)) for column in (knots, values))
    return MapBlocks(lengths, *columns), CalibrationMap(knots, values)


def check(knots: Floats) -> None:
    blocks, alone = blocks_of(knots)
    single = knots.astype(np.float32)
    below = np.nextafter(single, np.float32(0))
    asked = scores_around(knots, np.concatenate((single, below), dtype=np.float64))
    asked = np.clip(asked, 0.0, 1.0)
    found = blocks.look_up(np.ones(len(asked), np.int64), asked)
    assert found.tobytes() == alone(asked).tobytes()


@given(
    st.integers(3, 200),
    st.floats(0.25, 0.75),
    st.sampled_from([2.0**-52, ULP / 8, ULP / 2, ULP, 1.5 * ULP, 8 * ULP]),
)
def test_knots_around_what_single_precision_can_tell_apart(
    number: int, first: float, gap: float
) -> None:
    check(np.concatenate(([0.0], first + gap * np.arange(number), [1.0])))


@pytest.mark.parametrize(
    ("gap", "kind"), [(0.3 * ULP, np.float64), (4 * ULP, np.float32), (0.001, np.float32)]
)
def test_half_the_memory_is_read_where_it_may_be(gap: float, kind: type) -> None:
    knots = np.concatenate(([0.0], 0.5 + gap * np.arange(1, 40), [1.0], np.full(7, np.inf)))
    starts, widths, steps = np.array([0]), np.array([48]), np.array([8])

    found = pivots_of(knots, starts, widths, steps)

    assert found.dtype == kind
    assert found.shape == (1, PIVOTS)
    assert (found[0, :5] <= knots[8:48:8]).all()
    np.testing.assert_allclose(found[0, :5], knots[8:48:8], rtol=1e-6)
    assert np.isinf(found[0, 5:]).all()
