"""Durations as people type them."""

import re

from app.command_line.errors import CommandError

_HOURS = {"h": 1, "d": 24}
_PATTERN = re.compile(r"([1-9][0-9]{0,3})([hd])")


def hours(text: str, option: str = "--window") -> int:
    """Whole hours of `6h` or `2d`; a `CommandError` names the option, the value and the rule.

    >>> hours("6h"), hours("2d")
    (6, 48)
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{option} {text!r}: give whole hours or days, such as 6h, 24h or 2d")
    return int(match[1]) * _HOURS[match[2]]
