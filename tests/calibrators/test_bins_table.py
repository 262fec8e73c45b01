"""BinsTable: the bins of many campaigns, the same as each campaign's own."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, Bins, BinsTable, CalibrationMap
from tests.calibrators import strategies

Event = tuple[str, float, float, float]
events = st.tuples(st.sampled_from("abcd"), strategies.scores, strategies.outcomes, st.floats(0, 9))


def table_of(listed: list[Event], names: str = "dbac") -> BinsTable:
    """The events' table, by way of names in no order, one of them twice."""
    campaigns = [*names, "b"]
    rows = np.array([campaigns.index(campaign) for campaign, *_ in listed], np.int64)
    of_b = np.flatnonzero(rows == campaigns.index("b"))
    rows[of_b[1::2]] = len(campaigns) - 1
    scores, outcomes, counts = np.array([e[1:] for e in listed]).reshape(-1, 3).T
    return BinsTable.from_columns(campaigns, rows, scores, counts, counts * outcomes)


def bins_of(listed: list[Event], campaign: str | None = None) -> Bins:
    chosen = [event[1:] for event in listed if campaign in (None, event[0])]
    return Bins.from_samples(*np.array(chosen).reshape(-1, 3).T)


@given(st.lists(events, max_size=30))
def test_each_campaign_has_the_bins_of_its_own_events(listed):
    table = table_of(listed)

    for campaign in "abcd":
        assert table.bins(campaign) == bins_of(listed, campaign)
    assert table.total() == bins_of(listed)
    assert dict(table) == {name: table.bins(name) for name in table.campaigns}
    assert list(table.campaigns) == sorted(table.campaigns)
    assert len(table) == len(table.campaigns) == len(set(table.campaigns))
    assert table.bins("unknown") == table.bins("") == Bins.empty()


@given(st.lists(events, max_size=30), st.integers(0, 30), st.randoms(use_true_random=False))
def test_any_order_split_and_numbering_gives_the_same_bytes(listed, cut, random):
    whole = table_of(listed)
    shuffled = random.sample(listed, len(listed))
    parts = [table_of(shuffled[:cut], "abcd"), table_of(shuffled[cut:], "cadb")]

    merged = BinsTable.merge(parts)

    assert merged.to_bytes() == whole.to_bytes()
    assert merged == BinsTable.merge([*reversed(parts), BinsTable.empty()])
    assert hash(merged) == hash(whole)
    assert BinsTable.from_bytes(merged.to_bytes()) == whole


@given(st.lists(events, max_size=30), st.sets(st.sampled_from("abcdx")))
def test_select_keeps_the_chosen_campaigns(listed, chosen):
    kept = table_of(listed).select(chosen)

    assert kept == table_of([event for event in listed if event[0] in chosen])


@given(st.lists(events, max_size=30))
def test_samples_and_totals_are_those_of_each_campaign(listed):
    table = table_of(listed)

    *columns, rows = table.samples()
    counts, positives = table.totals()

    for row, (_, bins) in enumerate(table):
        for column, own in zip(columns, bins.samples(), strict=True):
            assert column[rows == row].tolist() == own.tolist()
        assert (counts[row], positives[row]) == (bins.total_count, bins.total_positives)
    assert len(counts) == len(positives) == len(table)
    assert len(table.rows) == len(table.cells)


def test_a_click_and_its_impression_may_come_apart():
    """An impression adds a count, its click later only the positive."""
    together = table_of([("a", 0.3, 1.0, 1.0)])
    impression = table_of([("a", 0.3, 0.0, 1.0)])
    click = BinsTable.from_columns(["a"], np.array([0]), *np.array([[0.3], [0.0], [1.0]]))

    joined = BinsTable.merge([click, impression])

    assert joined.total().total_positives == together.total().total_positives == 1.0
    assert joined.samples()[1].tolist() == [1.0]
    assert click.totals()[0].tolist() == click.totals()[1].tolist() == [0.0]
    assert click.samples()[0].tolist() == []


def test_calibrated_moves_each_event_to_the_cell_of_its_probability():
    atlas = Atlas.build({"a": CalibrationMap.proportional(0.5)})
    table = table_of([("a", 0.5, 1.0, 2.0), ("a", 0.25, 0.0, 4.0), ("b", 0.5, 1.0, 3.0)])

    moved = atlas.calibrated(table)

    assert moved == table_of([("a", 0.25, 1.0, 2.0), ("a", 0.125, 0.0, 4.0), ("b", 0.5, 1.0, 3.0)])


@given(st.lists(events, max_size=30), strategies.maps())
def test_calibrated_keeps_every_count_and_positive(listed, calibration_map):
    table = table_of(listed)

    moved = Atlas.build({"b": calibration_map}).calibrated(table)

    assert moved.total().total_count == table.total().total_count
    for campaign in "acd":
        own, before = moved.bins(campaign), table.bins(campaign)
        assert own.counts.tolist() == before.counts[before.counts > 0].tolist()
    assert moved.totals()[1].sum() == pytest.approx(table.totals()[1].sum(), abs=1e-6)


@given(st.lists(events, max_size=30), strategies.maps(), st.integers(1, 5))
def test_calibrated_is_the_same_however_many_cells_are_worked_out_at_once(
    listed, calibration_map, cells
):
    table, atlas = table_of(listed), Atlas.build({"b": calibration_map})
    whole = atlas.calibrated(table)

    with patch("calibrators.maps.atlas._CALIBRATED", cells):
        assert atlas.calibrated(table) == whole


def test_the_empty_table():
    empty = BinsTable.empty()

    assert empty == BinsTable.merge([]) == BinsTable.merge([empty])
    assert empty == table_of([])
    assert BinsTable.from_bytes(empty.to_bytes()) == empty.select(["a"]) == empty
    assert empty.total() == Bins.empty()
    assert [column.tolist() for column in empty.totals()] == [[], []]
    assert [column.tolist() for column in empty.samples()] == [[], [], [], []]
    assert Atlas.empty().calibrated(empty) == empty


def test_a_table_is_immutable_as_are_its_bins():
    table = BinsTable.merge([table_of([("a", 0.5, 1.0, 2.0)]), table_of([("b", 0.5, 1.0, 2.0)])])
    bins = [table.bins("a"), table.total()]
    columns = [table.offsets, table.cells, table.counts, table.score_sums, table.positives]

    for column in columns + [part.counts for part in bins] + [part.cells for part in bins]:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7


def test_a_table_equals_tables_only():
    assert table_of([("a", 0.5, 1.0, 2.0)]) != table_of([("b", 0.5, 1.0, 2.0)])
    assert BinsTable.empty() != "table"


@pytest.mark.parametrize(
    ("rows", "scores", "counts", "positives", "rule"),
    [
        ([0], [1.5], [1.0], [0.0], r"scores\[0\] = 1.5"),
        ([0], [0.5], [-1.0], [0.0], r"counts\[0\] = -1.0"),
        ([0], [0.5], [1.0], [np.inf], r"positives\[0\] = inf"),
        ([0, 0], [0.5], [1.0], [0.0], "rows has 2"),
        ([-1], [0.5], [1.0], [0.0], r"rows\[0\] = -1: there are 2 campaigns"),
        ([2], [0.5], [1.0], [0.0], r"rows\[0\] = 2: there are 2 campaigns"),
    ],
)
def test_bad_columns_are_refused(rows, scores, counts, positives, rule):
    with pytest.raises(ValueError, match=rule):
        BinsTable.from_columns(["a", "b"], np.array(rows), scores, counts, positives)


def test_more_samples_than_an_integer_holds_are_refused():
    full = table_of([("a", 0.5, 0.0, 9e9)])
    other = table_of([("b", 0.5, 0.0, 9e9)])

    with pytest.raises(OverflowError):
        BinsTable.merge([full, full])
    with pytest.raises(OverflowError):
        BinsTable.merge([full, other]).total()
    assert BinsTable.merge([full, other]).totals()[0].tolist() == [9e9, 9e9]
