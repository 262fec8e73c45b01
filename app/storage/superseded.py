"""Versions that no hour will be judged by: refits within an hour must not push out the others."""

from collections.abc import Mapping, Sequence
from typing import Any

NEWEST_KEPT = 3
"""So many of the newest are never among them: what is in force, and the way back by hand."""

_HOUR_SECONDS = 3600.0


def superseded(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the versions behind which another one became the last of its hour, oldest first.

    An hour is judged by the newest version whose as_of is not after its beginning: of all as_of
    of one hour only the last can be that. `history` are manifests, newest first.
    """
    last: dict[float, Mapping[str, Any]] = {}
    for entry in history:
        held = last.setdefault(_served_hour(entry), entry)
        if entry["as_of"] > held["as_of"]:
            last[_served_hour(entry)] = entry
    older = [entry for entry in history[NEWEST_KEPT:] if last[_served_hour(entry)] is not entry]
    return [entry["version"] for entry in reversed(older)]


def _served_hour(entry: Mapping[str, Any]) -> float:
    """The first hour whose beginning is not before as_of."""
    served: float = -(-entry["as_of"] // _HOUR_SECONDS)
    return served
