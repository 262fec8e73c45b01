"""Cells keep the order of scores, and no more digits are dropped than must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.streaming.rows import ALL_BITS, inside_cells, least_dropped, score_cells
from tests.evaluation.predictions_of_kind import SCORES

score_lists = st.lists(SCORES, min_size=1, max_size=30).map(lambda p: np.sort(np.array(p)))
some_digits = st.integers(0, ALL_BITS)


@given(score_lists, some_digits)
def test_cells_ascend_with_the_scores(scores, dropped):
    assert (np.diff(score_cells(scores, dropped)) >= 0).all()


@given(score_lists)
def test_without_dropped_digits_only_equal_scores_share_a_cell(scores):
    assert len(np.unique(score_cells(scores, 0))) == len(np.unique(scores))


@pytest.mark.parametrize(("dropped", "apart"), [(44, 1 / 256), (40, 1 / 4096)])
def test_a_cell_is_a_share_of_an_octave(dropped, apart):
    """2 ** (52 - dropped) cells from a score to its double."""
    inside = np.array([0.25, 0.25 * (1 + 0.45 * apart), 0.25 * (1 + 1.05 * apart)])
    cells = score_cells(inside, dropped)
    assert cells[0] == cells[1] < cells[2]
    assert np.ptp(score_cells(np.array([0.25, 0.5]), dropped)) == 2.0 ** (52 - dropped)


@given(score_lists, some_digits, st.floats(0, 2))
def test_a_mean_that_rounding_moved_is_put_back(scores, dropped, elsewhere):
    cells = score_cells(scores, dropped)
    moved = inside_cells(np.full(len(scores), elsewhere), cells, dropped)
    assert (score_cells(moved, dropped) == cells).all()


@given(score_lists, st.integers(1, 12), st.data())
def test_the_fewest_digits_are_dropped_that_fit(scores, budget, data):
    slices = np.sort(
        data.draw(st.lists(st.integers(0, 2), min_size=len(scores), max_size=len(scores)))
    )
    order = np.lexsort((scores, slices))
    scores, opens = scores[order], slices[1:] != slices[:-1]

    def rows(dropped):
        return len(set(zip(slices.tolist(), score_cells(scores, dropped).tolist(), strict=True)))

    found = least_dropped(scores, opens, budget)
    fitting = [dropped for dropped in range(ALL_BITS + 1) if rows(dropped) <= budget]
    assert found == (fitting[0] if fitting else ALL_BITS)


def test_digits_that_are_dropped_stay_dropped():
    assert least_dropped(np.array([0.25, 0.5]), np.array([False]), 2, 44) == 44
