"""Sums of tables: those of a dictionary, packed or not, in place or by sorting."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import BinsTable
from calibrators.bins import packed_table
from calibrators.bins import table as bins_table
from calibrators.bins.bins import GRID
from calibrators.bins.packed_table import PackedTable
from tests.calibrators import strategies

EVENTS = st.lists(
    st.tuples(st.integers(0, 150), strategies.scores, strategies.weights, strategies.outcomes),
    max_size=40,
)


def table_of(events: list[tuple[int, float, float, float]]) -> BinsTable:
    rows = np.array([row for row, *_ in events], np.int64)
    scores, counts, outcomes = np.array([columns for _, *columns in events]).reshape(-1, 3).T
    names = [f"{row:03}" for row in range(151)]
    return BinsTable.from_columns(names, rows, scores, counts, counts * outcomes)


def sums_of(tables: list[BinsTable]) -> dict[tuple[str, int], tuple[int, ...]]:
    """The oracle: one dictionary per column."""
    columns: list[Counter[tuple[str, int]]] = [Counter(), Counter(), Counter()]
    for table in tables:
        for campaign, bins in table:
            for cell, *sums in zip(bins.cells.tolist(), *bins.sums.tolist(), strict=True):
                for column, value in zip(columns, sums, strict=True):
                    column[campaign, cell] += value
    keys = set().union(*columns)
    return {key: tuple(column[key] for column in columns) for key in keys}


def held(table: BinsTable) -> dict[tuple[str, int], tuple[int, ...]]:
    return sums_of([table])


@given(st.lists(EVENTS, max_size=5))
def test_the_sum_of_tables_is_that_of_a_dictionary(hours):
    tables = [table_of(events) for events in hours]
    stored = [PackedTable.from_bytes(table.to_bytes()) for table in tables]

    for total in (BinsTable.merge(tables), BinsTable.merge_packed(stored)):
        assert held(total) == sums_of(tables)
        assert list(total.campaigns) == sorted(
            {name for table in tables for name in table.campaigns}
        )


@given(st.lists(EVENTS, max_size=5), st.sampled_from([1, 2, 7, 150]))
def test_sums_of_any_spans_of_campaigns_are_those_of_a_dictionary(hours, span):
    tables = [table_of(events) for events in hours]

    with patch.object(packed_table, "_SPAN", span):
        assert held(BinsTable.merge(tables)) == sums_of(tables)


def test_dense_hours_add_to_the_table_of_all_their_events():
    """As many events to a cell as make a sum in place the cheaper one."""
    rng = np.random.default_rng(3)
    names = [f"{row:03}" for row in range(70)]
    rows, scores = rng.integers(0, 70, 300_000), rng.random(300_000)
    outcomes = (rng.random(300_000) < scores).astype(float)

    def part(chosen: slice) -> BinsTable:
        ones = np.ones(len(rows[chosen]))
        return BinsTable.from_columns(names, rows[chosen], scores[chosen], ones, outcomes[chosen])

    hours = [part(slice(start, start + 50_000)) for start in range(0, 300_000, 50_000)]
    assert len(names) * GRID.size <= 4 * sum(len(hour.cells) for hour in hours)

    assert BinsTable.merge(hours) == part(slice(None))


def test_many_campaigns_come_in_blocks_and_are_the_sum():
    rng = np.random.default_rng(5)
    names = [f"{row:04}" for row in range(600)]
    rows = np.repeat(np.arange(600), 900)
    scores = np.repeat(np.geomspace(1e-5, 0.9, 900)[np.newaxis], 600, axis=0).ravel()
    ones = np.ones(len(rows))
    hours = [BinsTable.from_columns(names, rows, scores, ones, rng.random(len(rows))) for _ in "ab"]

    blocks = list(BinsTable.merge_in_blocks([hour.packed for hour in hours]))

    assert [len(block) for block in blocks] == [256, 256, 88]
    assert BinsTable.merge(blocks) == BinsTable.merge(hours)


@given(st.lists(EVENTS, max_size=4), st.sampled_from([1, 2, 1000]))
def test_campaigns_with_few_events_come_in_larger_blocks(hours, most):
    tables = [table_of(events) for events in hours]

    with patch.object(bins_table, "_SPARSE_BLOCK", most):
        blocks = [*BinsTable.merge_in_blocks([each.packed for each in tables])]

    assert all(0 < len(block) <= most for block in blocks)
    assert len(blocks) < 2 or most < 1000
    assert BinsTable.merge(blocks) == BinsTable.merge(tables)


def test_a_sum_that_would_wrap_around_is_refused():
    """Also where the tables are dense."""
    full = BinsTable.from_columns(
        ["a"], np.zeros(1, int), np.ones(1) / 2, np.ones(1) * 9.1e9, [0.0]
    )
    dense = BinsTable.from_columns(
        ["a"] * 4000, np.arange(4000), np.arange(4000) / 4000, np.ones(4000), np.zeros(4000)
    )

    with pytest.raises(OverflowError, match=r"more than 9\.2e9 samples"):
        BinsTable.merge([full, full, dense, dense])


@given(EVENTS, st.integers(1, 20))
def test_slices_are_the_table(events, cells):
    table = table_of(events)

    parts = list(table.slices(cells))

    assert BinsTable.merge(parts) == BinsTable.in_a_row(parts) == table
    assert all(len(part) for part in parts)
    for part in parts:
        largest = max(len(bins.cells) for _, bins in part)
        assert len(part.cells) < cells + largest + 1


def test_what_is_packed_is_read_without_a_copy():
    """Thousands of tables are read for one refit."""
    data = table_of([(1, 0.5, 1.0, 1.0)]).to_bytes()

    packed = PackedTable.from_bytes(data)

    assert np.shares_memory(packed.sums[0].entries, np.frombuffer(data, np.uint8))
    assert packed.to_bytes() == data
