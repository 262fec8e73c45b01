"""What a method of the leaderboard is: it learns from a history of bins and gives probabilities.

It may learn from the bins of the hours before the moment (`Past`), and from nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from calibrators.bins.table import BinsTable, History
from calibrators.maps.atlas import Atlas
from calibrators.methods.refit import Method
from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import EventTable

Predictor = Callable[[Integers, Floats], Floats]
"""Probabilities, (n,), of impressions of the campaigns at `rows`, (n,), with `scores`, (n,)."""


class MethodUnavailable(Exception):
    """A method that cannot be had here, and why, on one line."""


class LeaderboardMethod(Protocol):
    """Learns from a history, gives probabilities; made anew for every run."""

    @property
    def name(self) -> str:
        """As tables name it."""

    @property
    def note(self) -> str:
        """What the reader of its figures must know; empty where nothing."""

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """What it serves from the history's moment on; rows point at `campaigns`, which are the
        same in every call of a run.

        Raises MethodUnavailable when it cannot be had here.
        """


@dataclass(slots=True)
class ServiceMethod:
    """A method of the service, refitted with the memory of its last refit; with `trial` as for the
    service's guard, which lets a shape out only after an hour that it has not seen."""

    name: str
    method: Method
    note: str = ""
    trial: bool = False
    _memory: object = None

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """See `LeaderboardMethod`."""
        fitted = self.method.refit(history, memory=self._memory, trial=self.trial)
        self._memory = fitted.memory
        return predictor_of(fitted.atlas, campaigns)


def predictor_of(atlas: Atlas, campaigns: tuple[str, ...]) -> Predictor:
    """What an atlas serves."""
    rows_of = atlas.rows(campaigns)
    return lambda rows, scores: atlas.look_up(rows_of[rows], scores)


KEPT_HOURS = 96
"""Hours kept; no method may look further back."""

_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class SharedHistory(History):
    """A history whose windows are summed once for all methods that ask for the same hours."""

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
