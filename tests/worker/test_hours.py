"""Which refits are due, and which version may judge an hour."""

from app.worker.hours import SECONDS, begun_hours, closed_hours, due_refits, version_before


def test_an_hour_is_closed_only_when_it_is_over():
    assert closed_hours(7 * SECONDS) == 7
    assert closed_hours(8 * SECONDS - 0.001) == 7


def test_a_moment_inside_an_hour_has_begun_it():
    assert begun_hours(7 * SECONDS) == 7
    assert begun_hours(7 * SECONDS + 0.001) == 8


def test_before_the_first_refit_only_the_newest_is_due():
    assert due_refits(None, newest=100, window_hours=24) == [100]


def test_missed_hours_are_caught_up_oldest_first():
    assert due_refits(97 * SECONDS, newest=100, window_hours=24) == [98, 99, 100]


def test_no_more_is_caught_up_than_a_window():
    assert due_refits(10 * SECONDS, newest=100, window_hours=24) == list(range(77, 101))


def test_nothing_is_due_twice():
    assert due_refits(100 * SECONDS, newest=100, window_hours=24) == []


def test_a_refit_inside_an_hour_does_not_stand_for_the_next():
    assert due_refits(100 * SECONDS + 1800, newest=101, window_hours=24) == [101]


def test_an_hour_is_judged_by_maps_of_earlier_hours_only():
    """A version fitted inside or after the hour has seen its outcomes."""
    history = [
        {"version": "c", "as_of": 12 * SECONDS},
        {"version": "b", "as_of": 10 * SECONDS + 60},
        {"version": "a", "as_of": 10 * SECONDS},
    ]
    assert version_before(history, 10) == "a"
    assert version_before(history, 11) == "b"
    assert version_before(history, 12) == "c"
    assert version_before(history, 9) is None


def test_of_two_versions_as_of_one_moment_the_newer_judges():
    history = [{"version": "again", "as_of": 0}, {"version": "first", "as_of": 0}]
    assert version_before(history, 1) == "again"
