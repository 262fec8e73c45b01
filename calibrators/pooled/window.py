"""The window of a refit as it is read: cells of all blocks, and when the hours were."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Self, TypeVar

import numpy as np

from calibrators.history import History
from calibrators.pooled.campaign_spans import campaign_spans
from calibrators.pooled.cell_hours import sums_by
from calibrators.pooled.cells import Cells
from calibrators.pooled.knots import Knots
from calibrators.pooled.quantiles import quantile
from calibrators.samples import Floats, Integers

Rows = TypeVar("Rows", Floats, Integers)
GroupOf = Callable[[str], str | None]

_LOW, _HIGH = 0.001, 0.999
"""Shares of the impressions below, and of the promised positives up to, the outermost knots."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Cells block by block, one at least, the age in hours of the middle of each hour, oldest
    first, (h,), and the groups' names, ascending."""

    blocks: tuple[Cells, ...]
    ages: Floats
    groups: tuple[str, ...]
    group_of: GroupOf

    @classmethod
    def of(cls, history: History, hours: int, group_of: GroupOf | None) -> Self:
        """The last hours of the history, the newest, maybe running one included."""
        first = history.newest + 1 - hours
        chosen = group_of or _none
        # Mapped, so that no block's tables are held while the next block's are read.
        spans = chain.from_iterable(map(campaign_spans, history.blocks))
        read = tuple(map(partial(Cells.of, first=first, length=hours), spans))
        blocks = read or (Cells.of({}, first, hours),)
        names = {chosen(name) for block in blocks for name in block.campaigns}
        ends = np.minimum(np.arange(first, first + hours) + 1.0, history.as_of)
        ages = history.as_of - (np.arange(first, first + hours) + ends) / 2
        return cls(blocks, ages, tuple(sorted(name for name in names if name is not None)), chosen)

    @property
    def campaigns(self) -> tuple[str, ...]:
        """Of all blocks, in their order."""
        return tuple(name for block in self.blocks for name in block.campaigns)

    @property
    def begun_before_newest(self) -> bool:
        """Whether there was traffic before the newest hour."""
        return any(block.hours.entries.lengths[:-1].any() for block in self.blocks)

    def rows_of_groups(self, campaigns: tuple[str, ...]) -> Integers:
        """The group of each campaign by its place in `groups`, (c,), -1 for none."""
        places: dict[str | None, int] = {name: row for row, name in enumerate(self.groups)}
        return np.array([places.get(self.group_of(name), -1) for name in campaigns], np.int64)

    def split(self, table: Rows) -> Iterator[Rows]:
        """Rows of all campaigns, (c, ...), block by block."""
        behind = 0
        for block in self.blocks:
            first, behind = behind, behind + len(block)
            yield table[first:behind]

    def knots(self) -> Knots:
        """Those that span the scores of the window."""
        if not any(len(block) for block in self.blocks):
            return Knots.between(0.0, 0.0)
        log_odds = [block.log_odds for block in self.blocks]
        low = quantile(log_odds, [block.samples for block in self.blocks], _LOW)
        high = quantile(log_odds, [block.promised for block in self.blocks], _HIGH)
        return Knots.between(low, max(low, high))

    def mass(self, knots: Knots) -> Floats:
        """How many positives scores promise near each knot, (k,)."""
        mass = np.zeros(knots.count)
        for block in self.blocks:
            before, after = knots.places(block.log_odds)
            mass += sums_by(before, block.promised * (1 - after), knots.count)
            mass += sums_by(before + 1, block.promised * after, knots.count)
        return mass


def _none(campaign: str) -> None:
    return None
