"""A difference and its interval, written with as many decimals as the interval is worth."""

import math

from app.command_line.tables import shown
from evaluation.difference import Difference

_MOST_DECIMALS = 9
_USUAL = 5


def decimals_for(difference: Difference) -> int:
    """Decimals with which half the interval has two digits that count."""
    half = (difference.upper - difference.lower) / 2.0
    if not (math.isfinite(half) and half > 0.0):
        return _USUAL
    return min(max(1 - math.floor(math.log10(half)), 0), _MOST_DECIMALS)


def value_text(difference: Difference, decimals: int | None = None) -> str:
    """The difference with its sign."""
    places = decimals_for(difference) if decimals is None else decimals
    return _without_sign_of_zero(shown(difference.value, f"+.{places}f"))


def interval_text(difference: Difference, decimals: int | None = None) -> str:
    """The interval, such as "-0.0021 to 0.0003"."""
    places = decimals_for(difference) if decimals is None else decimals
    ends = (shown(end, f".{places}f") for end in (difference.lower, difference.upper))
    return " to ".join(map(_without_sign_of_zero, ends))


def _without_sign_of_zero(text: str) -> str:
    return (
        text.lstrip("+-") if text[:1] in "+-" and not text.strip("+-0.") and text != "-" else text
    )
