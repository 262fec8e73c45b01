import pytest

from app.cli.options import hours, minutes_of_an_hour, moment
from app.errors import CommandError


@pytest.mark.parametrize(("text", "expected"), [("1h", 1), ("6h", 6), (" 24h ", 24), ("30d", 720)])
def test_hours_and_days_are_whole_hours(text, expected):
    assert hours(text) == expected


@pytest.mark.parametrize("text", ["", "6", "h", "0h", "-1h", "1.5h", "6 h", "6m", "99999h"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(CommandError, match="such as 6h, 24h or 2d") as caught:
        hours(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"), [("1m", 1), ("5m", 5), (" 30m ", 30), ("60m", 60), ("1h", 60)]
)
def test_minutes_that_divide_an_hour_are_whole_minutes(text, expected):
    assert minutes_of_an_hour(text, "--refit-every") == expected


@pytest.mark.parametrize("text", ["", "5", "m", "0m", "7m", "90m", "2h", "1d", "-5m", "2.5m"])
def test_other_minutes_are_refused_with_the_options_name(text):
    with pytest.raises(CommandError, match="divide an hour, such as 5m, 15m or 1h") as caught:
        minutes_of_an_hour(text, "--refit-every")

    assert f"--refit-every {text!r}" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["2026-03-01T13:00:00+01:00", " 2026-03-01 12:00 ", "1772366400.0"]
)
def test_a_moment_is_rfc_3339_or_seconds(text):
    assert moment(text, "--start") == 1_772_366_400.0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("noon", "give RFC 3339, such as 2026-03-01T12:00:00Z, or seconds since 1970"),
        ("1_772_366_400", "give RFC 3339, such as"),
        ("nan", "the year must be from 2000 to 2099"),
        ("1772366400000", "look like milliseconds: give seconds"),
    ],
)
def test_another_moment_is_refused_with_the_options_name(text, rule):
    with pytest.raises(CommandError, match=rule) as caught:
        moment(text, "--start")

    assert f"--start {text!r}" in str(caught.value)
