"""Compact rows stand for their samples: exactly, or within a bound that they know."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import auc
from evaluation.streaming.rows import CellRows, score_cells
from tests.evaluation.compact.compact_logs import drawn
from tests.evaluation.predictions_of_kind import predictions


def rows_of(slices, p, y, dropped=0):
    order = np.lexsort((p, slices))
    return CellRows.of_sorted(slices[order], p[order], y[order], np.ones(len(p)), dropped)


def as_dict(rows):
    """Sums by slice and cell."""
    cells = score_cells(rows.scores, rows.dropped)
    keys = zip(rows.slices.tolist(), cells.tolist(), strict=True)
    sums = zip(rows.scores * rows.weights, rows.positives, rows.weights, strict=True)
    return dict(zip(keys, map(np.array, sums), strict=True))


def assert_same(rows, expected):
    found = as_dict(rows)
    assert found.keys() == expected.keys()
    for key, sums in expected.items():
        np.testing.assert_allclose(found[key], sums, rtol=1e-12)


def oracle(slices, p, y, dropped):
    sums = {}
    for row in range(len(p)):
        key = int(slices[row]), int(score_cells(p[row : row + 1], dropped)[0])
        sums[key] = sums.get(key, np.zeros(3)) + np.array([p[row], y[row], 1.0])
    return sums


@given(predictions(), st.integers(0, 63), st.data())
def test_samples_of_a_slice_and_cell_are_added_up(drawn_rows, dropped, data):
    p, y, _ = drawn_rows
    slices = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(p), max_size=len(p))))
    rows = rows_of(slices, p, y, dropped)
    assert_same(rows, oracle(slices, p, y, dropped))


@given(predictions(min_size=2), st.integers(1, 10), st.data())
def test_the_cells_do_not_depend_on_what_was_merged_when(drawn_rows, budget, data):
    """Parts that dropped digits on their own lead where all at once do."""
    p, y, _ = drawn_rows
    slices = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(p), max_size=len(p))))
    cut = data.draw(st.integers(1, len(p) - 1))
    whole = rows_of(slices, p, y).within(budget)
    first = rows_of(slices[:cut], p[:cut], y[:cut]).within(budget)
    second = rows_of(slices[cut:], p[cut:], y[cut:], first.dropped)
    parts = first.merged(second).within(budget)
    assert parts.dropped == whole.dropped
    assert_same(parts, as_dict(whole))


def test_rows_that_fit_stay_exact():
    log = drawn(500)
    rows = rows_of(log.slices, log.p, log.y).within(500)
    assert rows.cells_per_octave is None
    assert rows.auc_errors(7).tolist() == [0.0] * 7


@pytest.mark.parametrize("budget", [700, 120, 30])
def test_auc_of_cells_is_within_the_bound_of_the_exact_one(budget):
    log = drawn(3_000, seed=budget)
    rows = rows_of(log.slices, log.p, log.y).within(budget)
    assert len(rows) <= budget
    errors = rows.auc_errors(7)
    assert (errors > 0).all()
    for number in range(7):
        own, mine = log.slices == number, rows.slices == number
        coarse = auc(rows.scores[mine], rows.outcomes[mine], sample_weight=rows.weights[mine])
        assert abs(coarse - auc(log.p[own], log.y[own])) <= errors[number]


def test_cells_keep_their_mean_score_so_sums_stay():
    log = drawn(2_000)
    rows = rows_of(log.slices, log.p, log.y).within(150)
    assert (rows.scores * rows.weights).sum() == pytest.approx(log.p.sum())
    assert rows.positives.sum() == log.y.sum()
    assert 1 < rows.cells_per_octave < 2**52


def test_a_coarser_table_is_not_made_finer():
    rows = rows_of(np.zeros(2, int), np.array([0.25, 0.26]), np.ones(2), 50)
    assert rows.coarser(40) is rows
