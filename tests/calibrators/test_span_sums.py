"""Sums over several spans of hours at once: those of each span for itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import BinsTable, History
from calibrators.bins.bins import GRID
from calibrators.bins.packed_table import sums_packed
from calibrators.bins.table import sums_of_block, sums_of_packed
from tests.calibrators.test_table_sum import EVENTS, held, sums_of, table_of

SPANS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=3)


def ranges(drawn: list[tuple[int, int]]) -> list[range]:
    return [range(*sorted(ends)) for ends in drawn]


def dense_hours(hours: int, campaigns: int) -> dict[int, BinsTable]:
    """Tables with so many cells that they are summed in place; some campaigns miss some hours."""
    rng = np.random.default_rng(hours)
    names = [f"{row:04}" for row in range(campaigns)]
    scores = np.geomspace(1e-7, 0.9, GRID.size)
    tables = {}
    for hour in range(hours):
        present = np.flatnonzero(rng.random(campaigns) < 0.9)
        rows = np.repeat(present, len(scores) // 2)
        chosen = rng.choice(scores, len(rows))
        ones = np.ones(len(rows))
        tables[hour] = BinsTable.from_columns(names, rows, chosen, ones, rng.random(len(rows)))
    return tables


@given(st.dictionaries(st.integers(0, 6), EVENTS, max_size=4), SPANS)
def test_the_sums_of_a_block_are_those_of_each_span(hours, drawn):
    block = {hour: table_of(events) for hour, events in hours.items()}
    spans = ranges(drawn)

    for span, found in zip(spans, sums_of_block(block, spans), strict=True):
        assert held(found) == sums_of([table for hour, table in block.items() if hour in span])


@given(st.lists(EVENTS, min_size=1, max_size=4), st.data())
def test_choices_of_packed_tables_are_those_of_a_dictionary(hours, data):
    """In any order, whatever they share, and with what is taken away again."""
    tables = [table for table in map(table_of, hours) if table.campaigns] or [BinsTable.empty()]
    names = sorted({name for table in tables for name in table.campaigns})
    rows = [np.array([names.index(name) for name in table.campaigns], int) for table in tables]
    choices = data.draw(st.lists(st.sets(st.integers(0, len(tables) - 1)), min_size=1, max_size=3))

    packed = [table.packed for table in tables]
    found = sums_packed(packed, rows, range(len(names)), choices)

    for choice, columns in zip(choices, found, strict=True):
        expected = sums_of([tables[number] for number in choice])
        assert held(BinsTable(tuple(names), *columns)) == expected


@pytest.mark.slow
def test_sums_of_dense_tables_come_in_blocks_and_are_those_of_each_span():
    tables = dense_hours(4, 300)
    spans = [range(1, 4), range(3), range(7, 9)]

    packed = {hour: table.packed for hour, table in tables.items()}
    blocks = list(sums_of_packed(packed, spans) or ())

    assert len(blocks) == 2
    for span, found in zip(spans, zip(*blocks, strict=True), strict=True):
        expected = BinsTable.merge(table for hour, table in tables.items() if hour in span)
        assert BinsTable.merge(found) == expected


def test_sparse_tables_are_not_summed_in_place():
    tables = {hour: table_of([(hour, 0.5, 1.0, 1.0)]).packed for hour in range(3)}

    assert sums_of_packed(tables, [range(3)]) is None


@pytest.mark.parametrize("spans", [[range(1, 4)], [range(1, 4), range(3)]])
def test_a_history_sums_block_by_block(spans):
    blocks = [
        {hour: table_of([(row, 0.1, hour + 1.0, 0.5)]) for hour in range(first, 4)}
        for row, first in ((3, 0), (7, 2))
    ]
    history = History(4.0, blocks)

    found = list(zip(*history.sums(*spans), strict=True))

    assert found == [tuple(history.windows(span.start, span.stop)) for span in spans]
