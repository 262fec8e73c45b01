"""What contenders may learn from: the bins of the hours before the moment, and nothing else."""

from dataclasses import dataclass, field

import numpy as np

from calibrators.bins_table import BinsTable
from calibrators.history import History
from evaluation.event_table import EventTable

KEPT_HOURS = 96
"""Hours kept; no contender may look further back."""

_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class SharedHistory(History):
    """A history whose windows are summed once for all contenders that ask for the same hours."""

    _known: dict[tuple[int, int], list[BinsTable]] = field(default_factory=dict)

    def windows(self, first: int, behind: int) -> list[BinsTable]:  # type: ignore[override]
        """See `History`."""
        if (first, behind) not in self._known:
            self._known[first, behind] = list(History.windows(self, first, behind))
        return self._known[first, behind]


@dataclass(slots=True)
class Past:
    """Bins by hour since 1970, in blocks of 1,024 campaigns."""

    campaigns: int
    _blocks: list[dict[int, BinsTable]] = field(init=False)

    def __post_init__(self) -> None:
        self._blocks = [{} for _ in range(0, self.campaigns, _BLOCK)]

    def add(self, hour: int, events: EventTable) -> None:
        """Take in impressions of an hour, which may have some already."""
        owners = events.rows // _BLOCK
        for number, block in enumerate(self._blocks):
            chosen = events.select(owners == number) if len(self._blocks) > 1 else events
            held = block.pop(hour, BinsTable.empty())
            block[hour] = BinsTable.merge((held, _bins(chosen)))
            block.pop(hour - KEPT_HOURS, None)

    def as_of(self, moment: float) -> SharedHistory:
        """What is known at a moment, hours since 1970: all that has been taken in."""
        return SharedHistory(moment, [dict(block) for block in self._blocks])


def _bins(events: EventTable) -> BinsTable:
    rows = events.rows.astype(np.int64)
    return BinsTable.from_columns(
        events.campaigns, rows, events.scores, events.counts, events.positives
    )
