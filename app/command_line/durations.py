"""Durations as people type them."""

import re

from app.command_line.errors import CommandError

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
