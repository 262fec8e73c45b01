"""Whole hours of event time, and which refits are due."""

from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Any

SECONDS = 3600


def closed_hours(as_of: float) -> int:
    """The first hour that is not over at as_of: hours below it are closed."""
    return floor(as_of / SECONDS)


def begun_hours(as_of: float) -> int:
    """The first hour that has not begun at as_of: hours below it may hold events."""
    return ceil(as_of / SECONDS)


def due_refits(last_as_of: float | None, newest: int, window_hours: int) -> list[int]:
    """The hours up to the newest whose refit is missing, oldest first, a window of them at most.

    An hour h stands for the refit as of its start, h * 3600. Before the first refit only the
    newest is due: there is nothing to catch up with.
    """
    if last_as_of is None:
        return [newest]
    first = max(closed_hours(last_as_of) + 1, newest - window_hours + 1)
    return list(range(first, newest + 1))


def due_between(newest_hour: int, now: float, minutes: int) -> float | None:
    """The moment of the newest refit that is due between whole hours, every so many minutes.

    None while the newest is that of a whole hour, or of an hour whose own refit is not due yet:
    maps must not go back to what was known before.
    """
    step = minutes * 60
    newest = floor(now / step) * step
    return float(newest) if newest_hour < newest / SECONDS < newest_hour + 1 else None


def version_as_of(history: Iterable[Mapping[str, Any]], moment: float) -> str | None:
    """The newest version fitted on nothing after the moment; `history` is newest first."""
    fitted_before = (entry for entry in history if entry["as_of"] <= moment)
    newest = max(fitted_before, key=lambda entry: entry["as_of"], default=None)
    return None if newest is None else str(newest["version"])
