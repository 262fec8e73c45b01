"""Tables by field: sums of events, whole for the rows that are kept, whatever was merged when."""

from collections.abc import Sequence

import numpy as np
import pytest

from calibrators.bins.table import BinsTable
from calibrators.fields import sums
from calibrators.fields.sums import OTHER, SEPARATOR, BoundedRows, FieldColumn, FieldTables

PAIRS = ("device*place",)
MOST = 6


def tables(events: Sequence[int]) -> FieldTables:
    """Of numbered events, whose columns follow from their number."""
    numbers = np.array(events, np.int64)
    values = {
        "device": FieldColumn(("", "ios", "web"), numbers % 3),
        "place": FieldColumn(tuple(f"p{i}" for i in range(17)), numbers * 7 % 17),
    }
    columns = (0.01 + numbers % 90 / 100, np.ones(len(numbers)), (numbers % 5 == 0) * 1.0)
    campaigns = FieldColumn(tuple(f"c{i}" for i in range(5)), numbers % 5)
    return FieldTables.from_events(campaigns, values, PAIRS, columns)


def all_of(tables: FieldTables) -> dict[str, BinsTable]:
    named = (("f", tables.fields), ("p", tables.pairs), ("c", tables.campaigns))
    return {kind + name: table for kind, each in named for name, table in each.items()}


def totals(table: BinsTable) -> tuple[int, ...]:
    return tuple(table.sums.sum(axis=1).tolist())


@pytest.fixture
def few_rows(monkeypatch) -> None:
    for name in ("MOST_VALUES", "MOST_PAIRS", "MOST_CAMPAIGN_VALUES"):
        monkeypatch.setattr(sums, name, MOST)


def test_rows_are_those_of_the_events():
    found = tables(range(12))

    assert found.fields["device"].campaigns == (OTHER, "ios", "web")
    assert found.fields["device"].outcomes()[1].tolist() == [1.0, 1.0, 1.0]
    assert "ios" + SEPARATOR + "p7" in found.pairs["device*place"].campaigns
    assert "c1" + SEPARATOR + "ios" in found.campaigns["device"].campaigns


@pytest.mark.usefixtures("few_rows")
def test_any_order_and_split_of_merges_gives_the_same_bounded_tables():
    whole = all_of(tables(range(300)))
    parts = [tables(range(start, 300, 7)) for start in range(7)]
    left = FieldTables.empty(("device", "place"), PAIRS)
    for part in parts:
        left = FieldTables.merge((left, part))
    right = FieldTables.merge((FieldTables.merge(parts[4:]), FieldTables.merge(parts[:4][::-1])))

    assert all_of(left) == all_of(right) == whole
    assert len(whole["fplace"]) == MOST + 1
    assert len(whole["pdevice*place"]) == MOST + 1
    # Campaigns and values, values of the rest, and the rest of all.
    assert len(whole["cplace"]) <= 2 * MOST + 1


@pytest.mark.usefixtures("few_rows")
def test_nothing_is_lost_in_the_rest():
    bounded = all_of(tables(range(300)))

    assert len({totals(table) for table in bounded.values()}) == 1


def test_a_kept_row_holds_all_it_held():
    whole = tables(range(300)).fields["place"]
    bounded = BoundedRows(4, lambda names: [OTHER] * len(names)).of(whole)

    assert len(bounded) == 5
    assert all(bounded.bins(name) == whole.bins(name) for name in bounded.campaigns if name)


def test_a_value_with_the_separator_counts_as_other():
    one = np.ones(1)
    values = {"device": FieldColumn((f"a{SEPARATOR}b",), np.zeros(1, np.int64))}
    campaigns = FieldColumn(("c",), np.zeros(1, np.int64))
    found = FieldTables.from_events(campaigns, values, (), (one / 2, one, one))

    assert found.fields["device"].campaigns == (OTHER,)
    assert found.campaigns["device"].campaigns == ("c" + SEPARATOR,)
