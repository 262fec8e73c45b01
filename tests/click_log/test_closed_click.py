"""Closing a click adds up what was done inside its post-click window."""

import pytest

from app.click_log.rows import ClosedClick, behaviour_sums
from app.storage.clicks import OpenClick


def test_behaviours_are_added_up_by_name():
    """From the click's own second to the last before the window is over."""
    open_click = OpenClick(
        "a",
        "shoes",
        100.0,
        {"conversion": 0.25},
        {"device": "app"},
        [
            ("visits", 100.0, 1.0),
            ("seconds", 120.0, 0.1),
            ("seconds", 130.0, 0.2),
            ("seconds", 140.0, 0.3),
            ("visits", 99.5, 10.0),
            ("visits", 159.5, 2.0),
            ("visits", 160.0, 10.0),
        ],
    )

    assert ClosedClick.close(open_click, 60.0, {"conversion": 0.5}) == ClosedClick(
        click_id="a",
        campaign="shoes",
        clicked_at=100.0,
        scores={"conversion": 0.25},
        features={"device": "app"},
        behaviours={"seconds": 0.6, "visits": 3.0},
        probabilities={"conversion": 0.5},
    )


def test_a_click_that_nothing_followed_has_no_behaviours():
    closed = ClosedClick.close(OpenClick("a", "shoes", 100.0, {}, {}, []), 60.0, {})

    assert closed.behaviours == {}


def test_values_that_together_are_no_number_do_not_stop_the_closing():
    behaviours = [("page_views", float(at), 1.7e308) for at in range(256)]

    assert behaviour_sums(0.0, behaviours, 3600.0) == {"page_views": pytest.approx(2.56e302)}
