"""The bins of a block of campaigns, by coarse cell of the score's log-odds and by hour."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from calibrators.bins_table import BinsTable
from calibrators.fixed_point import from_fixed
from calibrators.grid import GRID
from calibrators.history import HourTables
from calibrators.pooled.cell_hours import CellHours, sums_by
from calibrators.pooled.packed_entries import Entries, PackedEntries
from calibrators.samples import Floats, Integers

FARTHEST = 17.5
"""Log-odds beyond which a score counts as this far out: those of 2e-8, less than the grid tells
from 0."""

_WIDTH = 0.0875
_CELLS = int(2 * FARTHEST / _WIDTH) + 1


def log_odds(scores: Floats) -> Floats:
    """Of each score, at most `FARTHEST` away from 0."""
    with np.errstate(divide="ignore"):
        found: Floats = np.log(scores) - np.log1p(-scores)
    return np.clip(found, -FARTHEST, FARTHEST)


@lru_cache
def _coarse() -> Integers:
    """The coarse cell of each cell of the grid, ascending."""
    lower, upper = GRID.edges(np.arange(GRID.size))
    places: Integers = ((log_odds((lower + upper) / 2) + FARTHEST) / _WIDTH).astype(np.int64)
    return places


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What there is to know of a block of campaigns before a fit.

    Attributes
    ----------
    campaigns : those with a sample in the window, ascending, (c,).
    hours : what their cells hold hour by hour.
    samples, scores, log_odds : of each cell that holds samples of the window, how many these are,
        their mean score and its log-odds, (m,).
    """

    campaigns: tuple[str, ...]
    hours: CellHours
    samples: Floats
    scores: Floats
    log_odds: Floats

    @classmethod
    def of(cls, tables: HourTables, first: int, length: int) -> Self:
        """The cells of the hours from `first` on.

        As in `BinsTable.samples`, cells without a count are left out, and a cell and hour counts
        at most as many positives as samples.
        """
        inside = [(hour - first, tables[hour]) for hour in sorted(tables)]
        inside = [(hour, table) for hour, table in inside if 0 <= hour < length]
        names = sorted({name for _, table in inside for name in table.campaigns})
        numbers = {name: number for number, name in enumerate(names)}
        parts = [_entries(table, numbers) for _, table in inside]
        hours = [
            np.full(len(keys), hour) for (hour, _), (keys, _) in zip(inside, parts, strict=True)
        ]
        keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, _ in parts)])
        sums = np.hstack([np.empty((3, 0)), *(sums for _, sums in parts)])
        return cls._grouped(
            names, keys, np.concatenate([np.empty(0, np.int64), *hours]), sums, length
        )

    @classmethod
    def _grouped(
        cls, names: Sequence[str], keys: Integers, hours: Integers, sums: Floats, length: int
    ) -> Self:
        number = np.zeros(len(names) * _CELLS, np.int64)
        number[keys] = 1
        held = np.flatnonzero(number)
        number[held] = np.arange(len(held))
        places = number[keys]
        counts = sums_by(places, sums[0], len(held))
        scores = np.minimum(sums_by(places, sums[1], len(held)) / counts, 1.0)
        present, sizes = np.unique(held // _CELLS, return_counts=True)
        campaigns = tuple(names[place] for place in present.tolist())
        entries = PackedEntries.of(Entries(places, hours, sums[0], sums[2]), length)
        return cls(campaigns, CellHours(sizes, entries), counts, scores, log_odds(scores))

    def __len__(self) -> int:
        return len(self.campaigns)

    @property
    def promised(self) -> Floats:
        """The positives that the scores of each cell promise, (m,)."""
        return self.samples * self.scores


def _entries(table: BinsTable, numbers: dict[str, int]) -> tuple[Integers, Floats]:
    """Keys of campaign and coarse cell, ascending in each campaign, and their sums (3, e)."""
    names = np.array([numbers[name] for name in table.campaigns], np.int64)
    held = table.counts > 0
    keys = names[table.rows[held]] * _CELLS + _coarse()[table.cells[held]]
    counts, scores, positives = (from_fixed(column[held]) for column in table.sums)
    sums = np.stack((counts, scores, np.minimum(positives, counts)))
    if not len(keys):
        return keys, sums
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[starts], np.add.reduceat(sums, starts, axis=1)
