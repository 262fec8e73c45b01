"""A log of auctions: what it accepts, and how it names what it does not."""

import numpy as np
import pytest

from evaluation.auction.gsp import SlotLayout
from evaluation.auction.search_log import SearchLog

GOOD = {
    "pages": [5, 5, 3, 3],
    "queries": [1, 1, 0, 0],
    "ads": [2, 1, 1, 2],
    "positions": [1, 0, 5, 1],
    "clicks": [0, 0, 1, 0],
    "bids": [1.0, 2.0, 3.0, 4.0],
}


def changed(column, row, value):
    """The good columns with one other value."""
    columns = {name: list(values) for name, values in GOOD.items()}
    columns[column][row] = value
    return columns


def test_rows_are_held_by_page_and_ad():
    """Whatever their order was, and scores come along."""
    log = SearchLog.of(**GOOD)

    assert log.pages.tolist() == [0, 0, 1, 1]
    assert log.ads.tolist() == [1, 2, 1, 2]
    assert log.bids.tolist() == [3.0, 4.0, 2.0, 1.0]
    assert log.arranged("scores", [0.1, 0.2, 0.3, 0.4]).tolist() == [0.3, 0.4, 0.2, 0.1]


def test_sorted_rows_are_not_sorted_again():
    """Nor are their scores copied."""
    order = SearchLog.of(**GOOD).order
    columns = {name: np.array(values)[order] for name, values in GOOD.items()}
    log, scores = SearchLog.of(**columns), np.array([0.1, 0.2, 0.3, 0.4])

    assert log.order is None
    assert log.arranged("scores", scores) is scores


def test_the_load_is_that_of_the_log():
    """Three ads on two pages, two of them above."""
    log = SearchLog.of(**GOOD)

    assert (len(log), log.n_pages) == (4, 2)
    assert (log.ads_per_page, log.mainline_ads_per_page) == (1.5, 1.0)


def test_without_pages_there_is_no_load():
    """nan, not 0."""
    log = SearchLog.of(**{name: [] for name in GOOD})

    assert np.isnan([log.ads_per_page, log.mainline_ads_per_page]).all()


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("pages", 2, -1, r"pages\[2\] = -1: every value must be a whole number from 0"),
        ("queries", 0, 1.5, r"queries\[0\] = 1.5: every value must be a whole number"),
        ("ads", 0, np.nan, r"ads\[0\] = nan: every value must be a whole number"),
        ("positions", 1, 10, r"positions\[1\] = 10: a page has 9 slots"),
        ("positions", 1, 0.5, r"positions\[1\] = 0.5: every value must be a whole number"),
        ("clicks", 0, 2, r"clicks\[0\] = 2.0: every value must be 0 or 1"),
        ("clicks", 0, np.nan, r"clicks\[0\] = nan: every value must be 0 or 1"),
        ("clicks", 1, 1, r"clicks\[1\] = 1: the ad was not shown: its position is 0"),
        ("bids", 3, -1.0, r"bids\[3\] = -1.0: every value must be finite and at least 0"),
        ("bids", 3, np.inf, r"bids\[3\] = inf: every value must be finite and at least 0"),
        ("ads", 1, 2, r"ads\[1\] = 2: the same ad twice on one page"),
        ("ads", 2, 2, r"ads\[3\] = 2: the same ad twice on one page"),
        ("positions", 1, 1, r"positions\[1\] = 1: two ads in one position of a page"),
        ("positions", 2, 1, r"positions\[3\] = 1: two ads in one position of a page"),
        ("queries", 1, 0, r"queries\[1\] = 0: its page has another query too"),
    ],
)
def test_a_bad_value_is_named(column, row, value, message):
    """Column, row as given, value and rule."""
    with pytest.raises(ValueError, match=message):
        SearchLog.of(**changed(column, row, value))


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_rows_that_clash_the_later_one_is_named(reverse):
    """In the order given, whichever way they sort; and of several clashes the first."""
    pages, ads = [9, 9, 0, 0], [3, 3, 4, 4]
    queries, rest = [0, 0, 0, 0], {"positions": [0] * 4, "clicks": [0] * 4, "bids": [1.0] * 4}
    step = -1 if reverse else 1

    with pytest.raises(ValueError, match=r"ads\[1\] = "):
        SearchLog.of(pages=pages[::step], ads=ads[::step], queries=queries, **rest)


def test_a_page_number_is_below_their_count():
    """When the count is given, pages without candidates are among them."""
    with pytest.raises(ValueError, match=r"pages\[0\] = 5: there are 5 pages, numbered from 0"):
        SearchLog.of(**GOOD, n_pages=5)
    assert SearchLog.of(**GOOD, n_pages=6).n_pages == 6


def test_columns_are_of_one_length():
    """Named with their lengths."""
    with pytest.raises(ValueError, match=r"equal lengths: pages has 4, .* bids has 3"):
        SearchLog.of(**{**GOOD, "bids": [1.0] * 3})


def test_a_column_has_one_dimension():
    """Whole numbers too."""
    with pytest.raises(ValueError, match="pages must have one dimension, not 2"):
        SearchLog.of(**{**GOOD, "pages": [[5, 5], [3, 3]]})


def test_names_are_no_numbers():
    """Pages, queries and ads are numbered by the caller."""
    with pytest.raises(ValueError, match="queries must be numbers, not <U1"):
        SearchLog.of(**{**GOOD, "queries": list("abcd")})


def test_the_last_position_depends_on_the_layout():
    """Two slots: position 5 is none of them."""
    with pytest.raises(ValueError, match=r"positions\[2\] = 5: a page has 2 slots"):
        SearchLog.of(**GOOD, layout=SlotLayout(1, 1))
