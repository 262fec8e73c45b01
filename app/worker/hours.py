"""Whole hours of event time, and which refits are due."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

SECONDS = 3600


def closed_hours(as_of: float) -> int:
    """The first hour that is not over at as_of: hours below it are closed."""
    return math.floor(as_of / SECONDS)


def begun_hours(as_of: float) -> int:
    """The first hour that has not begun at as_of: hours below it may hold events."""
    return math.ceil(as_of / SECONDS)


def due_refits(last_as_of: float | None, newest: int, window_hours: int) -> list[int]:
    """The hours up to the newest whose refit is missing, oldest first, a window of them at most.

    An hour h stands for the refit as of its start, h * 3600. Before the first refit only the
    newest is due: there is nothing to catch up with.
    """
    if last_as_of is None:
        return [newest]
    first = max(closed_hours(last_as_of) + 1, newest - window_hours + 1)
    return list(range(first, newest + 1))


def version_before(history: Iterable[Mapping[str, Any]], hour: int) -> str | None:
    """The newest version fitted on hours before this one only: what it may be judged by.

    `history` is newest first.
    """
    fitted_before = (entry for entry in history if entry["as_of"] <= hour * SECONDS)
    newest = max(fitted_before, key=lambda entry: entry["as_of"], default=None)
    return None if newest is None else str(newest["version"])
