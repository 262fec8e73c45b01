"""Which times events may carry, to the second."""

from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events.rejections import OpenTimes, Untimely
from app.settings import Settings
from app.strict_json import ValidationError

HOUR = 470_000
NOW = HOUR * 3600 + 1800.0
SETTINGS = Settings(window_hours=3, future_seconds=60)
YEAR_2000, YEAR_2100 = 946_684_800.0, 4_102_444_800.0


@pytest.fixture
def wall() -> OpenTimes:
    return OpenTimes.at(NOW, SETTINGS)


def test_the_window_opens_at_the_beginning_of_its_first_hour(wall):
    first = (HOUR - 3) * 3600.0

    assert wall.hour("occurred_at", first) == HOUR - 3
    with pytest.raises(Untimely, match=r"occurred_at = \d+\.5: late, the window begins at 2023-"):
        wall.hour("occurred_at", first - 0.5)


def test_the_future_begins_after_the_allowance(wall):
    assert wall.hour("occurred_at", NOW + 60) == HOUR
    with pytest.raises(Untimely, match="future") as refused:
        wall.hour("occurred_at", NOW + 60.5)
    assert refused.value.reason == "future"


def test_a_check_without_hours_has_no_late(wall):
    """A click's own time may be older than its impression's window."""
    assert wall.check("occurred_at", YEAR_2000) == YEAR_2000


def test_by_the_events_clock_nothing_is_late_before_the_first_refit():
    times = OpenTimes.since(None, SETTINGS)

    assert times.hour("occurred_at", YEAR_2000) == YEAR_2000 // 3600
    assert times.hour("occurred_at", YEAR_2100 - 1) == YEAR_2100 // 3600 - 1


def test_by_the_events_clock_the_window_ends_at_the_last_refit():
    times = OpenTimes.since(HOUR * 3600.0, SETTINGS)

    assert times.hour("occurred_at", YEAR_2100 - 1) > HOUR
    assert times.hour("occurred_at", (HOUR - 3) * 3600.0) == HOUR - 3
    with pytest.raises(Untimely) as refused:
        times.hour("occurred_at", (HOUR - 3) * 3600.0 - 1)
    assert refused.value.reason == "late"


def test_a_longer_window_opens_so_much_earlier(wall):
    """Conversions are waited for beyond the window of clicks, and never in the future."""
    first = (HOUR - 3 - 48) * 3600.0

    assert wall.seconds("occurred_at", first + 0.25, longer=48 * 3600.0) == first + 0.25
    with pytest.raises(Untimely, match="late, the window begins at 2023-08-12T05:00:00"):
        wall.seconds("occurred_at", first - 0.5, longer=48 * 3600.0)
    with pytest.raises(Untimely, match="future"):
        wall.seconds("occurred_at", NOW + 61, longer=48 * 3600.0)


@pytest.mark.parametrize(
    "time",
    [
        YEAR_2000 - 1,
        YEAR_2100,
        -1e308,
        1e308,
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
    ],
)
@pytest.mark.parametrize("clock", [OpenTimes.at(NOW, SETTINGS), OpenTimes.since(None, SETTINGS)])
def test_times_of_other_centuries_break_a_rule(clock, time):
    """By either clock: they are mistakes, not late events."""
    with pytest.raises(ValidationError, match="must be in the years 2000 to 2099"):
        clock.hour("occurred_at", time)


@given(
    st.lists(
        st.sampled_from([(HOUR - 3) * 3600.0, NOW + 60, YEAR_2000, YEAR_2100, nan, inf])
        | st.floats(YEAR_2000 - 1, YEAR_2100 + 1)
        | st.floats(NOW - 4 * 3600, NOW + 61),
        max_size=4,
    ),
    st.booleans(),
)
def test_hours_of_many_times_are_those_of_each_or_none_at_all(times, by_the_wall):
    """One time that is not open is enough for none."""
    open_times = OpenTimes.at(NOW, SETTINGS) if by_the_wall else OpenTimes.since(None, SETTINGS)
    try:
        expected = [open_times.hour("occurred_at", time) for time in times]
    except (ValidationError, Untimely):
        expected = None

    hours = open_times.hours(np.array(times))

    assert (hours if hours is None else hours.tolist()) == expected
