"""The window of a refit: the cells of all blocks, when the hours were, and where the knots lie."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.codecs import even_spans
from calibrators.bins.table import BinsTable, History, HourTables
from calibrators.maps.groups import GroupOf
from calibrators.pooled.cells import Cells, log_odds
from calibrators.pooled.spline import Knots
from calibrators.samples import Floats, Integers, sum_at

MOST = 1024
"""Campaigns of a span: what a refit makes of one at a time, hour by hour, takes some 100 MB."""


def campaign_spans(tables: HourTables, most: int = MOST) -> Iterator[HourTables]:
    """The same tables, none with more campaigns than that, as views: those of ascending spans of
    names where a table has more, else as they are."""
    if all(len(table) <= most for table in tables.values()):
        yield tables
        return
    names = sorted({name for table in tables.values() for name in table.campaigns})
    for first, behind in even_spans(names, most):
        yield {hour: _between(table, first, behind) for hour, table in tables.items()}


def _between(table: BinsTable, first: str, behind: str | None) -> BinsTable:
    """The campaigns of first <= name < behind."""
    names = table.campaigns
    start = bisect_left(names, first)
    stop = len(names) if behind is None else bisect_left(names, behind)
    offsets = table.offsets[start : stop + 1]
    span = slice(offsets[0], offsets[-1])
    return BinsTable(
        names[start:stop], offsets - offsets[0], table.cells[span], table.sums[:, span]
    )


_WIDTH = 0.0875


def quantile(values: Sequence[Floats], weights: Sequence[Floats], share: float) -> float:
    """The first of all values, ascending, up to which lies this share of the weight.

    values, weights: one array of each for each block, (m,), finite, the weights >= 0; one value at
    least. Sums by narrow bins say in which of them it lies, and only the values of that one are
    sorted: no array is as long as all blocks together. Raises ValueError without a value.
    """
    if not any(map(len, values)):
        raise ValueError("values: there are none, so there is no quantile")
    low = min(float(block.min()) for block in values if len(block))
    bins = [((block - low) / _WIDTH).astype(np.int32) for block in values]
    reached = np.cumsum(_sums(bins, weights))
    goal = share * reached[-1]
    chosen = int(np.searchsorted(reached, goal))
    inside = [number == chosen for number in bins]
    found = np.concatenate([block[held] for block, held in zip(values, inside, strict=True)])
    weight = np.concatenate([block[held] for block, held in zip(weights, inside, strict=True)])
    order = np.argsort(found, kind="stable")
    before = reached[chosen - 1] if chosen else 0.0
    place = int(np.searchsorted(before + np.cumsum(weight[order]), goal))
    return float(found[order[min(place, len(order) - 1)]])


def _sums(bins: Sequence[NDArray[np.int32]], weights: Sequence[Floats]) -> Floats:
    size = 1 + max(int(number.max(initial=0)) for number in bins)
    sums = np.zeros(size)
    for number, weight in zip(bins, weights, strict=True):
        sums += sum_at(number, weight, size)
    return sums


Rows = TypeVar("Rows", Floats, Integers)
_FEWEST, _MOST_SCORES = 4, 64
"""Distinct scores that are the knots themselves."""

_MOST_WORK = 1e8
"""Campaigns times the third power of the scores that are knots: what a Newton step costs."""

_LOW, _HIGH = 0.001, 0.999
"""Shares of the impressions below, and of the predicted positives up to, the outermost knots."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Cells block by block, one at least, the age in hours of the middle of each hour, oldest
    first, (h,), and the groups' names, ascending."""

    blocks: tuple[Cells, ...]
    ages: Floats
    groups: tuple[str, ...]
    group_of: GroupOf | None

    @classmethod
    def of(cls, history: History, hours: int, group_of: GroupOf | None) -> Self:
        """The last hours of the history, the newest, maybe running one included."""
        first = history.newest + 1 - hours
        # Mapped, so that no block's tables are held while the next block's are read.
        spans = chain.from_iterable(map(campaign_spans, history.blocks))
        read = tuple(map(partial(Cells.of, first=first, length=hours), spans))
        blocks = read or (Cells.of({}, first, hours),)
        found = group_of or _none
        names = {found(name) for block in blocks for name in block.campaigns}
        ends = np.minimum(np.arange(first, first + hours) + 1.0, history.as_of)
        ages = history.as_of - (np.arange(first, first + hours) + ends) / 2
        groups = tuple(sorted(name for name in names if name is not None))
        return cls(blocks, ages, groups, group_of)

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
        group_of = self.group_of or _none
        return np.array([places.get(group_of(name), -1) for name in campaigns], np.int64)

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
        few = self._few_scores()
        if few is not None:
            return Knots.at(few)
        found = [block.log_odds for block in self.blocks]
        low = quantile(found, [block.samples for block in self.blocks], _LOW)
        high = quantile(found, [block.predicted for block in self.blocks], _HIGH)
        return Knots.between(low, max(low, high))

    def _few_scores(self) -> Floats | None:
        """The log-odds of all scores, ascending, where these are few: each in a coarse cell of its
        own. None for others."""
        held = np.count_nonzero(np.sum([block.grid[0] for block in self.blocks], axis=0))
        work = sum(map(len, self.blocks)) * held**3
        if not _FEWEST <= held <= _MOST_SCORES or work > _MOST_WORK:
            return None
        samples, scores = np.sum([block.score_sums() for block in self.blocks], axis=0)
        found = samples > 0
        if np.count_nonzero(found) < held:
            return None
        return np.round(log_odds(scores[found] / samples[found]), 6)

    def mass(self, knots: Knots) -> Floats:
        """How many positives scores predict near each knot, (k,)."""
        mass = np.zeros(knots.count)
        for block in self.blocks:
            before, after = knots.places(block.log_odds)
            mass += sum_at(before, block.predicted * (1 - after), knots.count)
            mass += sum_at(before + 1, block.predicted * after, knots.count)
        return mass


def _none(campaign: str) -> None:
    return None
