"""Moments as people and files write them: seconds since 1970 or RFC 3339 text."""

from datetime import UTC, datetime
from typing import Final

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()


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
