"""The generalised second price auction: the paper's formula, its edges, and a slow oracle."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import evaluation.auction.gsp
from evaluation.auction.gsp import OperatingPoint, SlotLayout, gsp_auction
from tests.evaluation.auction.auctions_of_kind import ALPHAS, THRESHOLDS, candidates, layouts
from tests.evaluation.auction.gsp_oracle import auctions_oracle

BIDS, SCORES = [2.0, 3.0, 1.0, 4.0], [0.10, 0.05, 0.12, 0.02]
TINY = st.floats(0.0, 1.0, allow_subnormal=True)


@pytest.mark.parametrize(
    ("point", "rows", "slots", "cpcs"),
    [
        (OperatingPoint(1.0), [0, 1, 2, 3], [1, 2, 3, 4], [1.5, 2.4, 0.6667, 0.0]),
        (OperatingPoint(0.5), [1, 0, 3, 2], [1, 2, 3, 4], [2.8284, 1.7889, 2.4495, 0.0]),
        (OperatingPoint(1.5), [0, 2, 1, 3], [1, 2, 3, 4], [1.3145, 0.8069, 1.0119, 0.0]),
        (OperatingPoint(1.0, 0.09, 0.13), [0, 1, 2], [1, 2, 5], [1.5, 2.6, 0.75]),
    ],
    ids=["alpha 1", "alpha 0.5", "alpha 1.5", "reserves"],
)
def test_the_worked_example(point, rows, slots, cpcs):
    """Four ads, four settings, every price by hand."""
    shown = gsp_auction(BIDS, SCORES, point=point)

    assert shown.rows.tolist() == rows
    assert shown.slots.tolist() == slots
    assert shown.cpcs == pytest.approx(cpcs, abs=1e-4)


@given(candidates(), layouts(), ALPHAS, THRESHOLDS, THRESHOLDS)
def test_the_fast_auction_is_the_slow_one(given_rows, layout, alpha, reserve, mainline_reserve):
    """Ties, bids and scores of 0, pages of any size, blocks without slots."""
    pages, bids, scores, ads = given_rows
    point = OperatingPoint(alpha, reserve, mainline_reserve)

    shown = gsp_auction(bids, scores, pages, ads, layout=layout, point=point)

    expected = auctions_oracle(pages, bids, scores, ads, **asdict(layout), **asdict(point))
    triples = [each for page in expected.values() for each in page]
    assert shown.rows.tolist() == [row for row, _, _ in triples]
    assert shown.slots.tolist() == [slot for _, slot, _ in triples]
    assert shown.cpcs == pytest.approx([cpc for _, _, cpc in triples], rel=1e-12)
    assert shown.pages.tolist() == [pages[row] for row, _, _ in triples]
    assert shown.n_pages == len(set(pages))


@given(
    st.lists(st.tuples(st.floats(0.0, 1e300), TINY), min_size=1, max_size=8),
    st.floats(0.0, 40.0),
    st.floats(0.0, 1e300),
)
@example([(9.1, 0.58)] * 2, 1.5, 0.0)
def test_no_click_costs_more_than_the_bid(ads, alpha, reserve):
    """Nor less than nothing, at any magnitude that floats can hold."""
    bids, scores = map(list, zip(*ads, strict=True))

    shown = gsp_auction(bids, scores, point=OperatingPoint(alpha, reserve, reserve / 2))

    assert (shown.cpcs <= np.array(bids)[shown.rows]).all()
    assert (shown.cpcs >= 0.0).all()


@pytest.mark.parametrize("rows", [1, 7, 20, 10_000])
def test_pages_are_ranked_in_batches_without_a_seam(monkeypatch, rows):
    """A batch ends where a page ends, and a page larger than a batch is one of its own."""
    rng = np.random.default_rng(3)
    pages = np.sort(rng.integers(0, 40, 400))
    pages[100:160] = pages[100]
    columns = (rng.random(400) + 0.1, rng.random(400), np.sort(pages), np.arange(400))
    expected = gsp_auction(*columns)

    monkeypatch.setattr(evaluation.auction.gsp, "_ROWS", rows)

    assert gsp_auction(*columns).rows.tolist() == expected.rows.tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, -2], [0.5, 0.5]), r"bids\[1\] = -2.0: every value must be finite and at least 0"),
        (([1, np.nan], [0.5, 0.5]), r"bids\[1\] = nan: every value must be finite"),
        (([1, 2], [0.5, 1.5]), r"scores\[1\] = 1.5: every value must be in \[0, 1\]"),
        (([1, 2], [0.5]), "equal lengths: bids has 2, scores has 1"),
        (([1, 2], [0.5, 0.5], [0, 0], [4, 4]), r"ads\[1\] = 4: the same ad twice on one page"),
        (([1, 2], [0.5, 0.5], [0, 0.5]), r"pages\[1\] = 0.5: every value must be a whole number"),
        (([1, 2], [0.5, 0.5], [0, -1]), r"pages\[1\] = -1: every value must be a whole number"),
        (([1, 2], [0.5, 0.5], None, [0, 2**31]), r"ads\[1\] = 2147483648: every value must be a"),
    ],
)
def test_bad_input_is_named(columns, message):
    """Column, row, value and rule."""
    with pytest.raises(ValueError, match=message):
        gsp_auction(*columns)


@pytest.mark.parametrize("field", ["alpha", "reserve", "mainline_reserve"])
@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_an_operating_point_is_finite_and_not_negative(field, value):
    """It is named with its value."""
    with pytest.raises(ValueError, match=f"{field} = {value}: must be finite and at least 0"):
        OperatingPoint(**{field: value})


@pytest.mark.parametrize(
    ("slots", "message"),
    [((-1, 5), "mainline = -1"), ((4, 1001), "sidebar = 1001"), ((0, 0), "must have a slot")],
)
def test_a_page_has_a_slot(slots, message):
    """And not a thousand and one."""
    with pytest.raises(ValueError, match=message):
        SlotLayout(*slots)
