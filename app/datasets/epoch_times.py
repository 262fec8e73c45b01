"""Moments as people and files write them: seconds since 1970 or RFC 3339 text."""

from datetime import UTC, datetime, tzinfo
from typing import Final

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
UNITS: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""How many of each are a second."""
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def epoch_seconds_of(text: str, zone: tzinfo | None = None, per_second: float = 1.0) -> float:
    """Of a number, of which `per_second` are a second, or of RFC 3339 text (without a zone: in
    `zone`, None being UTC); ValueError of anything else."""
    text = text.strip()
    try:
        return float(text) / per_second
    except ValueError:
        time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=zone or UTC)).timestamp()


def out_of_range(seconds: float, unit: str = "s", hint: str = "give --time-unit {}") -> str:
    """What is wrong with a moment outside of [EARLIEST, LATEST), read as a number of `unit`.

    `hint` says what to do where another unit is likely.
    """
    rule = "the year must be from 2000 to 2099"
    for other, per_second in UNITS.items():
        if EARLIEST <= seconds * UNITS[unit] / per_second < LATEST:
            return f"{rule} (these look like {_NAMES[other]}: {hint.format(other)})"
    return rule
