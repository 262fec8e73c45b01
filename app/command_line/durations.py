"""Durations and moments as people type them."""

import re
from datetime import UTC, datetime
from typing import Final

from app.command_line.errors import CommandError

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()

_HOURS = {"h": 1, "d": 24}
_MINUTES = {"m": 1, "h": 60}
_MINUTES_OF_AN_HOUR = 60
_PATTERN = re.compile(r"([1-9][0-9]{0,3})([hd])")
_SHORT_PATTERN = re.compile(r"([1-9][0-9]?)([mh])")


def hours(text: str, option: str = "--window") -> int:
    """Whole hours of `6h` or `2d`; a `CommandError` names the option, the value and the rule.

    >>> hours("6h"), hours("2d")
    (6, 48)
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{option} {text!r}: give whole hours or days, such as 6h, 24h or 2d")
    return int(match[1]) * _HOURS[match[2]]


def minutes_of_an_hour(text: str, option: str) -> int:
    """Whole minutes of `5m` or `1h`, which must divide an hour; a `CommandError` as above.

    >>> minutes_of_an_hour("5m", "--refit-every"), minutes_of_an_hour("1h", "--refit-every")
    (5, 60)
    """
    match = _SHORT_PATTERN.fullmatch(text.strip())
    minutes = int(match[1]) * _MINUTES[match[2]] if match else 0
    if not minutes or _MINUTES_OF_AN_HOUR % minutes:
        raise CommandError(
            f"{option} {text!r}: give whole minutes that divide an hour, such as 5m, 15m or 1h"
        )
    return minutes


def moment(text: str, option: str) -> float:
    """Seconds since 1970, in the years 2000 to 2099; a `CommandError` as above.

    >>> moment("2026-03-01T12:00:00Z", "--start") == moment("1772366400", "--start")
    True
    """
    try:
        seconds = epoch_seconds_of(text)
    except ValueError:
        raise CommandError(
            f"{option} {text!r}: give RFC 3339, such as 2026-03-01T12:00:00Z, or seconds since 1970"
        ) from None
    if not EARLIEST <= seconds < LATEST:
        raise CommandError(f"{option} {text!r}: {out_of_range(seconds)}")
    return seconds


def epoch_seconds_of(text: str) -> float:
    """Of a number, or of RFC 3339 text (without a zone: UTC); ValueError of anything else."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def out_of_range(seconds: float) -> str:
    """What is wrong with a moment outside of [EARLIEST, LATEST)."""
    rule = "the year must be from 2000 to 2099"
    if EARLIEST <= seconds / 1e3 < LATEST:
        return f"{rule} (these look like milliseconds: divide them by 1000)"
    return rule
