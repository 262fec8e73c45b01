"""Which refits are due, and which version may judge an hour."""

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.keys import begun_hours, closed_hours
from app.worker.atlas_cache import version_as_of
from app.worker.schedule import due_between, due_refits


def test_an_hour_is_closed_only_when_it_is_over():
    assert closed_hours(7 * SECONDS) == 7
    assert closed_hours(8 * SECONDS - 0.001) == 7


def test_a_moment_inside_an_hour_has_begun_it():
    assert begun_hours(7 * SECONDS) == 7
    assert begun_hours(7 * SECONDS + 0.001) == 8


@pytest.mark.parametrize(
    ("last", "due"),
    [
        pytest.param(None, [100], id="before the first, the newest alone"),
        pytest.param(97, [98, 99, 100], id="what was missed, oldest first"),
        pytest.param(10, [*range(77, 101)], id="no more than a window"),
        pytest.param(100, [], id="nothing twice"),
        pytest.param(99.5, [100], id="one inside an hour stands for no other"),
    ],
)
def test_refits_of_hours_are_due(last, due):
    as_of = None if last is None else last * SECONDS
    assert due_refits(as_of, newest=100, window_hours=24) == due


def test_an_hour_is_judged_by_maps_of_earlier_hours_only():
    """A version fitted inside or after the hour has seen its outcomes."""
    history = [
        {"version": "c", "as_of": 12 * SECONDS},
        {"version": "b", "as_of": 10 * SECONDS + 60},
        {"version": "a", "as_of": 10 * SECONDS},
    ]
    assert version_as_of(history, 10 * SECONDS) == "a"
    assert version_as_of(history, 11 * SECONDS) == "b"
    assert version_as_of(history, 12 * SECONDS) == "c"
    assert version_as_of(history, 9 * SECONDS) is None


def test_of_two_versions_as_of_one_moment_the_newer_judges():
    history = [{"version": "again", "as_of": 0}, {"version": "first", "as_of": 0}]
    assert version_as_of(history, 1 * SECONDS) == "again"


@pytest.mark.parametrize(
    ("minute", "due"), [(2, None), (5, 5), (9.9, 5), (55, 55), (59.9, 55), (60, None), (64, None)]
)
def test_between_hours_the_newest_moment_is_due(minute, due):
    """At the hour itself, and while the hour's own refit waits for late events, none is."""
    found = due_between(newest_hour=7, now=7 * SECONDS + minute * 60, minutes=5)

    assert found == (None if due is None else 7 * SECONDS + due * 60)


def test_with_hourly_refits_nothing_is_due_between_hours():
    assert due_between(newest_hour=7, now=7 * SECONDS + 3599, minutes=60) is None
