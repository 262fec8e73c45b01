"""The grid reads a score's cell from its bits; exact fractions say where the edges must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators.bins.bins import GRID, Grid
from tests.calibrators import grid_oracle
from tests.calibrators.strategies import SPECIAL_SCORES, scores

ALL = np.arange(grid_oracle.SIZE)


def test_every_edge_is_the_exact_fraction():
    lower, upper = GRID.edges(ALL)

    assert GRID.size == grid_oracle.SIZE
    assert lower.tolist() == [float(grid_oracle.lower_edge(cell)) for cell in ALL.tolist()]
    assert upper.tolist() == [float(grid_oracle.upper_edge(cell)) for cell in ALL.tolist()]


def test_a_cell_holds_its_lower_edge_and_all_below_its_upper():
    lower, upper = GRID.edges(ALL)

    assert GRID.cells_of(lower).tolist() == ALL.tolist()
    assert GRID.cells_of(np.nextafter(upper[:-1], 0)).tolist() == ALL[:-1].tolist()


@given(st.lists(scores, min_size=1))
def test_cells_of_any_scores_by_exact_fractions(values):
    cells = GRID.cells_of(np.array(values))

    assert cells.tolist() == [grid_oracle.cell_of(value) for value in values]


def test_a_strided_view_has_the_cells_of_its_copy():
    strided = np.linspace(0, 1, 101)[::-3]

    assert GRID.cells_of(strided).tolist() == GRID.cells_of(strided.copy()).tolist()


@pytest.mark.parametrize(("octaves", "bits"), [(1, 0), (2, 1), (10, 3), (40, 12)])
def test_any_grid_tiles_the_unit_interval(octaves, bits):
    """Each cell starts where the one before it ends; the last is [1, 1]."""
    grid = Grid(octaves, bits)
    lower, upper = grid.edges(np.arange(grid.size))

    assert (lower[0], lower[-1], upper[-1]) == (0.0, 1.0, 1.0)
    assert lower[1:].tolist() == upper[:-1].tolist()
    assert (np.diff(lower) > 0).all()


def test_moved_inside_keeps_what_is_inside_and_moves_the_rest_to_the_border():
    inside = np.array(SPECIAL_SCORES) + 0.0
    cells = GRID.cells_of(inside)
    lower, upper = GRID.edges(cells)

    assert GRID.moved_inside(cells, inside).tolist() == inside.tolist()
    assert GRID.moved_inside(cells, np.zeros(len(cells))).tolist() == lower.tolist()
    assert GRID.cells_of(GRID.moved_inside(cells, upper)).tolist() == cells.tolist()
