"""Sorting by slice keeps the order inside a slice."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrators.samples import sum_at
from evaluation.streaming.rows import merging, slice_order, sorting

codes = st.lists(st.integers(-1, 4), max_size=30).map(lambda c: np.array(c, np.int16))
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=20)


@given(codes)
def test_rows_come_by_slice_as_they_stood_and_none_without_a_slice(slices):
    expected = [row for row in np.argsort(slices, kind="stable") if slices[row] >= 0]
    rows, ordered = slice_order(slices)
    assert np.arange(len(slices))[rows].tolist() == expected
    assert ordered.tolist() == slices[expected].tolist()


def test_rows_in_order_are_not_copied():
    slices = np.array([0, 0, 3], np.int32)
    rows, ordered = slice_order(slices)
    assert rows == slice(None)
    assert ordered is slices


@given(rows)
def test_sorting_is_by_slice_and_then_by_score(pairs):
    slices = np.array([pair[0] for pair in pairs], np.int32)
    scores = np.array([pair[1] for pair in pairs], float)
    order = sorting(slices, scores)
    assert [(slices[i], scores[i]) for i in order] == sorted(pairs)


@given(rows, rows)
def test_merging_two_sorted_parts_sorts_the_whole(ours, theirs):
    pairs = sorted(ours) + sorted(theirs)
    slices = np.array([pair[0] for pair in pairs], np.int32)
    cells = np.array([pair[1] for pair in pairs], np.int64)
    order = merging(slices, cells)
    assert [(slices[i], cells[i]) for i in order] == sorted(pairs)


def test_merging_cells_that_do_not_fit_one_number_with_their_slice():
    slices = np.array([0, 1, 0, 1], np.int32)
    cells = np.array([0, 1 << 62, 1 << 61, 0], np.int64)
    assert merging(slices, cells).tolist() == [0, 2, 3, 1]


def test_totals_of_slices():
    totals = sum_at(np.array([2, 0, 2], np.int8), np.array([1.0, 2.0, 4.0]), 4)
    assert totals.tolist() == [2.0, 0.0, 5.0, 0.0]
