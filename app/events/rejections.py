"""What a request brings and is not stored: the first rejections with their errors, the number of
all of them by reason.
"""

from bisect import insort
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

INVALID: Final = "invalid"
UNKNOWN_TYPE: Final = "unknown"
MOST_SHOWN: Final = 100
"""Rejections of one request that are named with their error."""


@dataclass(frozen=True, slots=True)
class EventRejection:
    """One event that is not stored; `reason` is invalid, late, future or full."""

    index: int
    error: str
    event_type: str = UNKNOWN_TYPE
    reason: str = INVALID


_INDEX: Final = attrgetter("index")


class Rejections:
    """Of one request: the `shown`, by index, and the `counts` of all by type and reason.

    Errors cost far more than events: ask `wants` before you look for one.
    """

    def __init__(self) -> None:
        self.shown: list[EventRejection] = []
        self.counts: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        """Number of events that are not stored."""
        return self.counts.total()

    def wants(self, index: int) -> bool:
        """Whether the rejection of this event would be shown."""
        return len(self.shown) < MOST_SHOWN or index < self.shown[-1].index

    def add(self, rejection: EventRejection) -> None:
        """One more; it is shown if it is one of the first."""
        self.count(rejection.event_type, rejection.reason)
        if self.wants(rejection.index):
            insort(self.shown, rejection, key=_INDEX)
            del self.shown[MOST_SHOWN:]

    def count(self, event_type: str, reason: str = INVALID) -> None:
        """One more that is not shown."""
        self.counts[event_type, reason] += 1

    def content(self) -> dict[str, Any]:
        """The members of an answer that say what was rejected."""
        by_reason: Counter[str] = Counter()
        for (_, reason), number in self.counts.items():
            by_reason[reason] += number
        listed = [{"index": one.index, "error": one.error} for one in self.shown]
        return {
            "rejected": listed,
            "rejected_total": by_reason.total(),
            "rejected_by_reason": dict(sorted(by_reason.items())),
        }
