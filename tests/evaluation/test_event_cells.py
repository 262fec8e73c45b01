"""Rows taken together: what a long log keeps, and what a backtest makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Beta, BinsTable, SmoothedIsotonic
from calibrators.bins.bins import GRID
from evaluation import EventTable, Platform, backtest, scorecard
from evaluation.backtest.event_table import EventCells
from tests.evaluation.logs_of_kind import tables


def cells_of(*parts):
    cells = EventCells()
    for part in parts:
        cells.add(part)
    return cells


def bins_of(table):
    return BinsTable.from_columns(
        table.campaigns, table.rows.astype(np.int64), table.scores, table.counts, table.positives
    )


def as_rows(table):
    """Every row as a tuple, in an order of its own."""
    names = [table.campaigns[row] for row in table.rows]
    columns = (table.hours.tolist(), names, table.scores.tolist(), table.outcomes.tolist())
    return sorted(zip(*columns, table.counts.tolist(), strict=True))


@given(tables())
def test_a_cell_is_an_hour_a_campaign_and_a_cell_of_the_grid(table):
    """One row for each that has any impression, and all impressions are in one."""
    found = cells_of(table).table()

    keys = set(zip(table.hours, table.rows, GRID.cells_of(table.scores), strict=True))
    assert len(found) == len(keys)
    assert found.counts.sum() == len(table)
    assert found.positives.sum() == pytest.approx(table.outcomes.sum())
    assert (found.counts @ found.scores) == pytest.approx(table.scores.sum(), abs=1e-7)


@given(tables(), st.integers(1, 5))
def test_bins_of_the_cells_are_bins_of_the_impressions(table, parts):
    """So the maps that are fitted on them are the same."""
    pieces = np.array_split(np.arange(len(table)), parts)

    found = cells_of(*(table.select(piece) for piece in pieces)).table()

    ours, theirs = bins_of(found), bins_of(table)
    assert ours.campaigns == theirs.campaigns
    assert np.array_equal(ours.cells, theirs.cells)
    assert np.abs(ours.sums - theirs.sums).max() <= 1_000  # Of a billion units in one sample.


@given(tables(), st.randoms())
def test_the_order_of_batches_is_of_no_effect(table, random):
    """Sums are whole numbers: the same bits."""
    rows = list(range(len(table)))
    random.shuffle(rows)
    half = len(rows) // 2

    shuffled = cells_of(
        table.select(np.array(rows[:half], int)), table.select(np.array(rows[half:]))
    )

    assert as_rows(shuffled.table()) == as_rows(cells_of(table).table())


@given(tables())
def test_cells_of_cells_are_cells(table):
    """A row that stands for several counts as so many."""
    once = cells_of(table).table()

    assert as_rows(cells_of(once).table()) == as_rows(once)
    assert len(cells_of(table)) == len(once)


def test_nothing_is_an_empty_table():
    """No batch is no error."""
    assert len(EventCells()) == 0
    assert len(EventCells().table()) == 0


def test_a_backtest_of_cells_is_that_of_the_impressions():
    """Same hours, same numbers to the third digit: only where in its cell a score lay is lost."""
    table = Platform(campaigns=3, impressions_per_hour=3_000, ctr=0.1, seed=4).hours(0, 9).events
    calibrators = {"sir": SmoothedIsotonic(bin_size=200), "beta": Beta()}

    plain, together = (
        backtest(log, calibrators, window_hours=4) for log in (table, cells_of(table).table())
    )

    for name, card in plain.scorecards.items():
        for metric, expected in card.items():
            tolerance = {"abs": 5e-3} if metric.startswith("gc_") else {"rel": 1e-3}
            assert together.scorecards[name][metric] == pytest.approx(expected, **tolerance)
        assert together.scorecards[name]["n"] == card["n"]


def test_raw_samples_of_cells_count_as_many():
    """Weights reach the fit on single rows, and what a campaign needs for a map."""
    table = Platform(campaigns=2, impressions_per_hour=900, ctr=0.1, seed=1).hours(0, 5).events
    cells = cells_of(table).table()

    found = backtest(cells, {"beta": Beta()}, window_hours=3, raw_samples=True)

    plain = backtest(table, {"beta": Beta()}, window_hours=3, raw_samples=True)
    assert found.scorecards["beta"]["log_loss"] == pytest.approx(
        plain.scorecards["beta"]["log_loss"], rel=1e-3
    )


def test_a_million_campaigns_are_the_most():
    """Beyond, two of them would share a number."""
    cells = EventCells()
    cells._codes = dict.fromkeys(range(1 << 20), 0)

    with pytest.raises(ValueError, match=r"1,048,577 campaigns: there may be a million at most"):
        cells.add(EventTable.from_columns([0.0], ["one more"], [0.5], [1]))


def test_a_scorecard_of_weighted_rows():
    """What a table says of its weights is what metrics take."""
    table = EventTable.from_columns([0, 1, 2, 3], ["a"] * 4, [0.2, 0.2, 0.2, 0.2], [1, 0, 0, 1])
    cells = cells_of(table).table()

    card = scorecard(cells.scores, cells.outcomes, cells.rows, sample_weight=cells.weights)

    assert (card["n"], card["positives"], len(cells)) == (4.0, 2.0, 1)
