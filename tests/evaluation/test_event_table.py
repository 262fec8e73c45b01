"""The table of impressions: checked columns, and tables made of tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import EventTable

COLUMNS = {
    "times": [3_600.0, 7_199.5],
    "campaigns": ("a", "b"),
    "rows": np.array([1, 0]),
    "scores": [0.1, 0.2],
    "outcomes": [0, 1],
    "bids": [1.5, 0.0],
}

IMPRESSIONS = st.lists(
    st.tuples(
        st.floats(-1e6, 1e6),
        st.sampled_from("cab"),
        st.floats(0, 1),
        st.floats(0, 1),
        st.floats(0, 9),
    ),
    max_size=12,
)


def impressions_of(table):
    """The table's impressions as tuples, with the names of their campaigns."""
    names = [table.campaigns[row] for row in table.rows]
    bids = [None] * len(table) if table.bids is None else table.bids
    return list(zip(table.times, names, table.scores, table.outcomes, bids, strict=True))


def table_of(impressions, bids=True):
    times, names, scores, outcomes, prices = (
        list(column) for column in (zip(*impressions, strict=True) if impressions else [()] * 5)
    )
    return EventTable.from_columns(times, names, scores, outcomes, prices if bids else None)


def test_columns_become_numbers_of_one_kind():
    """float64 everywhere, rows int32, whatever came in."""
    table = EventTable(**COLUMNS)

    assert len(table) == 2
    assert table.rows.dtype == np.int32
    assert {column.dtype for column in (table.times, table.scores, table.outcomes, table.bids)} == {
        np.dtype(np.float64)
    }


@pytest.mark.parametrize(
    ("time", "hour"),
    [(0.0, 0), (3_599.999, 0), (3_600.0, 1), (-0.5, -1), (1_735_689_600.0, 482_136)],
)
def test_an_hour_is_3600_seconds_from_the_epoch(time, hour):
    """floor(time / 3600): an hour holds its first instant and not its last, before 1970 too."""
    table = EventTable.from_columns([time], ["a"], [0.5], [1])

    assert table.hours.tolist() == [hour]
    assert table.hours.dtype == np.int64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": [0.0, np.nan]}, r"times\[1\] = nan: must be epoch seconds"),
        ({"times": [np.inf, 0.0]}, r"times\[0\] = inf: must be epoch seconds, finite"),
        ({"times": [0.0, 1.7e12]}, r"times\[1\] = 1700000000000.0: .* under 1e12"),
        ({"times": [-1e12, 0.0]}, r"times\[0\] = -1000000000000.0"),
        ({"times": ["now", "then"]}, "times must be numbers"),
        ({"rows": np.array([0, 2])}, r"rows\[1\] = 2: must point at one of 2 campaigns"),
        ({"rows": np.array([-1, 0])}, r"rows\[0\] = -1: must point at one of 2 campaigns"),
        ({"rows": np.array([0.0, 1.0])}, "rows must be whole numbers"),
        ({"rows": np.array([[0, 1]])}, "rows must be whole numbers of one dimension"),
        ({"scores": [0.1, 1.7]}, r"scores\[1\] = 1.7: every value must be in \[0, 1\]"),
        ({"outcomes": [0, 2]}, r"outcomes\[1\] = 2"),
        ({"bids": [1.0, -0.5]}, r"bids\[1\] = -0.5: every value must be finite and at least 0"),
        ({"bids": [np.inf, 1.0]}, r"bids\[0\] = inf"),
        ({"weights": [1.0, 0.0]}, r"weights\[1\] = 0.0: every row must stand for some"),
        ({"weights": [-1.0, 1.0]}, r"weights\[0\] = -1.0: every value must be finite and at least"),
        ({"weights": [1e308, 1e308]}, "sum of weights = inf"),
        ({"weights": [1.0]}, "weights has 1"),
        ({"scores": [0.1]}, "equal lengths: times has 2, rows has 2, scores has 1"),
        ({"bids": [1.0]}, "bids has 1"),
        ({"campaigns": ("a", "a")}, "campaigns: 'a' stands there twice"),
    ],
)
def test_bad_columns_are_named(changes, message):
    """ValueError with column, row, value and rule."""
    with pytest.raises(ValueError, match=message):
        EventTable(**COLUMNS | changes)


def test_milliseconds_are_refused():
    """1e12 s is the year 33658, and what a clock of milliseconds says since 2001."""
    assert len(EventTable.from_columns([1e12 - 1], ["a"], [0.5], [1])) == 1
    with pytest.raises(ValueError, match="under 1e12"):
        EventTable.from_columns([1e12], ["a"], [0.5], [1])


@given(IMPRESSIONS, st.booleans())
def test_from_columns_keeps_every_impression_where_it_stands(impressions, bids):
    """The order of rows is the caller's; campaigns are distinct and sorted."""
    table = table_of(impressions, bids)

    expected = impressions if bids else [(*impression[:4], None) for impression in impressions]

    assert impressions_of(table) == expected
    assert list(table.campaigns) == sorted({name for _, name, *_ in impressions})


@pytest.mark.parametrize(
    "campaigns",
    [["7", "10", "7"], np.array(["7", "10", "7"]), np.array([7, 10, 7]), [7, 10, "7"]],
    ids=["list", "array", "numbers", "mixed"],
)
def test_names_are_text(campaigns):
    """Numbers are named as they are written, and sorted as text; 7 and "7" are one campaign."""
    table = EventTable.from_columns([1, 2, 3], campaigns, [0.1, 0.2, 0.3], [0, 1, 0])

    assert (table.campaigns, table.rows.tolist()) == (("10", "7"), [1, 0, 1])


def test_a_campaign_for_each_time():
    """Unequal lengths are an error, not a table cut short."""
    with pytest.raises(ValueError, match="equal lengths: times has 1, rows has 2"):
        EventTable.from_columns([1.0], ["a", "b"], [0.5], [1])


@given(st.lists(IMPRESSIONS, max_size=4))
def test_concatenate_is_one_table_after_the_other(parts):
    """Impressions keep their order, campaigns their names, however many tables share them."""
    joined = EventTable.concatenate([table_of(part) for part in parts])

    impressions = [impression for part in parts for impression in part]

    assert [impression[:4] for impression in impressions_of(joined)] == [
        impression[:4] for impression in impressions
    ]
    assert list(joined.campaigns) == sorted({name for _, name, *_ in impressions})


def test_bids_are_kept_when_all_tables_have_them():
    """A price for some impressions only would be a wrong price for the others."""
    bare = EventTable.from_columns([1.0], ["a"], [0.5], [1])
    priced = EventTable.from_columns([2.0], ["b"], [0.5], [1], [3.0])

    assert EventTable.concatenate([priced, priced]).bids.tolist() == [3.0, 3.0]
    assert EventTable.concatenate([priced, bare]).bids is None
    assert EventTable.concatenate([]).bids is None


def test_a_row_stands_for_itself_unless_it_has_a_weight():
    """Of tables put together, the others' rows count once; a selection keeps its weights."""
    plain = EventTable.from_columns([1.0], ["a"], [0.5], [1])
    heavy = EventTable((2.0,), ("b",), np.array([0]), (0.5,), (0.25,), weights=[4.0])

    both = EventTable.concatenate([plain, heavy])

    assert EventTable.concatenate([plain]).weights is None
    assert (both.weights.tolist(), both.positives.tolist()) == ([1.0, 4.0], [1.0, 1.0])
    assert (plain.counts.tolist(), plain.positives.tolist()) == ([1.0], [1.0])
    assert both.select(np.array([1])).weights.tolist() == [4.0]


def test_no_tables_make_an_empty_table():
    """Nothing to read is no error."""
    table = EventTable.concatenate([])

    assert (len(table), table.campaigns, table.hours.tolist()) == (0, (), [])


@given(IMPRESSIONS, st.booleans(), st.data())
def test_select_takes_impressions_by_index_or_mask(impressions, bids, data):
    """In the order asked for; campaigns stay, so rows of two selections compare."""
    table = table_of(impressions, bids)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    mask = mask.astype(bool)
    chosen = np.flatnonzero(mask)[::-1]
    listed = impressions_of(table)

    assert impressions_of(table.select(mask)) == [listed[i] for i in np.flatnonzero(mask)]
    assert impressions_of(table.select(chosen)) == [listed[i] for i in chosen]
    assert table.select(mask).campaigns == table.campaigns
