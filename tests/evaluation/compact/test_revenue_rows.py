"""What csAUC is left with: all that it needs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import cs_auc
from evaluation.metrics.cs_auc_pairs import RevenuePairs
from evaluation.streaming.in_memory import PositivesByRevenue, RevenueRows, RowsInMemory
from evaluation.streaming.log import OVERALL, RowLimits
from tests.evaluation.compact.compact_logs import CUT, Log, compact, drawn

TIES = ("definition", "half", "worst")


def values(rows, n_slices, ties="definition"):
    revenue = np.where(rows.positive, rows.bids, 0.0)
    pairs = RevenuePairs(rows.revenues, revenue, rows.weights, rows.slices, n_slices)
    return pairs.paid(ties)


def sorted_rows(slices, revenues, bids, positive):
    order = np.lexsort((revenues, slices))
    columns = (column[order] for column in (slices, revenues, bids, positive))
    return RevenueRows(*columns, np.ones(len(bids)))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from([0.0, 1, 2, 3]), st.sampled_from([0.0, 1, 5]),
            st.booleans(),
        ),
        max_size=25,
    )
)  # fmt: skip
def test_squeezing_keeps_every_cs_auc(drawn_rows):
    columns = [np.array(column) for column in zip(*drawn_rows, strict=True)] or [np.zeros(0)] * 4
    slices, revenues, bids, positive = columns
    rows = sorted_rows(slices.astype(int), revenues, bids, positive.astype(bool))
    squeezed = rows.squeezed()
    for ties in TIES:
        np.testing.assert_allclose(values(squeezed, 3, ties), values(rows, 3, ties), atol=1e-12)
    positives = int(positive.sum())
    assert len(squeezed.weights) <= 3 * positives + 3
    assert squeezed.weights.sum() == len(slices)


def slice_values(log: Log):
    masks = [log.slices == number for number in range(log.slices.max() + 1)]
    return [cs_auc(log.p[own], log.y[own], log.bids[own]) for own in masks]


def test_a_log_that_is_held_is_exact():
    log = drawn(2_000)
    rows_of = compact(log).revenue_rows()
    assert values(rows_of(OVERALL), 1) == pytest.approx(cs_auc(log.p, log.y, log.bids))
    assert values(rows_of(CUT), 7) == pytest.approx(slice_values(log))
    assert (rows_of(CUT).errors(7) == 0.0).all()


def test_a_folded_log_is_exact_while_its_rows_fit():
    log = drawn(2_000, levels=20)
    rows_of = compact(log, RowLimits(700, 700, 1_000)).revenue_rows()
    assert rows_of(CUT).dropped == 0
    assert values(rows_of(CUT), 7) == pytest.approx(slice_values(log))


@pytest.mark.parametrize("table_rows", [900, 300, 60])
def test_a_coarse_log_knows_how_wrong_it_may_be(table_rows):
    log = drawn(4_000, slices=3, seed=table_rows)
    rows = compact(log, RowLimits(1_000, 800, table_rows)).revenue_rows()(CUT)
    errors = rows.errors(3)
    found = values(rows.squeezed(), 3)
    assert rows.dropped > 0
    assert (errors > 0).all()
    assert (np.abs(found - slice_values(log)) <= errors).all()


def test_positives_stay_apart_while_they_fit_and_negatives_do_not():
    log = drawn(4_000, rate=0.02)
    rows = compact(log, RowLimits(1_000, 1_000, 400)).revenue_rows()(OVERALL)
    paid = np.sort((log.p * log.bids)[log.y == 1.0])
    assert np.sort(rows.revenues[rows.positive]).tolist() == paid.tolist()
    assert np.count_nonzero(~rows.positive) <= 400


def test_paid_rows_of_one_revenue_and_bid_are_taken_together():
    slices, ones = np.zeros(4, int), np.ones(4)
    rows = PositivesByRevenue(slices, np.array([2.0, 1, 2, 2]), np.array([4.0, 2, 5, 4]), ones)
    assert rows.revenues.tolist() == [1, 2, 2]
    assert rows.bids.tolist() == [2, 4, 5]
    assert rows.weights.tolist() == [1, 2, 1]


def test_paid_rows_drop_digits_until_they_fit():
    rng = np.random.default_rng(3)
    revenues, bids = rng.random(500), rng.random(500)
    rows = PositivesByRevenue(np.zeros(500, int), revenues, bids, np.ones(500)).within(40)
    assert len(rows) <= 40
    assert rows.dropped > 0
    assert rows.weights @ rows.bids == pytest.approx(bids.sum())


def test_no_more_digits_can_be_dropped_than_there_are():
    """More slices than rows that are wanted: each slice keeps one."""
    slices = np.arange(5)
    rows = PositivesByRevenue(slices, np.ones(5), np.ones(5), np.ones(5)).within(2)
    assert len(rows) == 5


def test_without_positives_there_are_no_paid_rows():
    nothing = np.zeros(0)
    assert len(PositivesByRevenue(nothing.astype(int), nothing, nothing, nothing)) == 0


def test_a_row_without_a_slice_is_in_neither_table():
    held = RowsInMemory()
    log = Log(
        np.array([0.5, 0.4, 0.3]),
        np.array([1.0, 1.0, 0.0]),
        np.ones(3),
        np.array([0, -1, -1], np.int32),
    )
    for batch in log.batches(3):
        held.add(batch)
    ranked = held.by_revenue()
    assert len(ranked.paid(CUT, 0)) == 1
    assert len(ranked.negatives(CUT, 0)) == 0
