import pytest

from app.command_line.durations import hours
from app.command_line.errors import CommandError


@pytest.mark.parametrize(("text", "expected"), [("1h", 1), ("6h", 6), (" 24h ", 24), ("30d", 720)])
def test_hours_and_days_are_whole_hours(text: str, expected: int) -> None:
    assert hours(text) == expected


@pytest.mark.parametrize("text", ["", "6", "h", "0h", "-1h", "1.5h", "6 h", "6m", "99999h"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CommandError, match="such as 6h, 24h or 2d") as caught:
        hours(text)

    assert repr(text) in str(caught.value)
