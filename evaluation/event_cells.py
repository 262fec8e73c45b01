"""Impressions taken together by hour, campaign and cell of scores: a long log in little memory."""

import numpy as np

from calibrators.bins import cell_means, fixed_sums
from calibrators.fixed_point import Part, sum_by_key, sum_parts
from calibrators.grid import GRID
from calibrators.samples import Integers
from evaluation.event_table import SECONDS_PER_HOUR, EventTable

_CELL_BITS, _CAMPAIGN_BITS = 12, 20
_HOUR_SHIFT = _CELL_BITS + _CAMPAIGN_BITS
_FIRST_HOUR = -(1 << 29)


class EventCells:
    """Counts, score sums and outcomes of every (hour, campaign, cell) of the tables added so far.

    The cells are those of the grid that calibrators are fitted on (`calibrators.grid`), so a
    backtest of the cells fits the very maps that one of the impressions does. A row is judged at
    the mean score of its cell, which is 0.8 % wide at most. Sums are whole numbers: the order of
    the tables and of their rows is of no effect.

    >>> cells = EventCells()
    >>> cells.add(EventTable.from_columns([0, 9, 3600], ["a"] * 3, [0.1, 0.1, 0.1], [1, 0, 0]))
    >>> table = cells.table()
    >>> table.weights.tolist(), table.outcomes.tolist(), table.hours.tolist()
    ([2.0, 1.0], [0.5, 0.0], [0, 1])
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._held: list[Part] = []
        self._waiting = 0

    def add(self, table: EventTable) -> None:
        """Take in the impressions of a table; their bids are forgotten.

        Raises
        ------
        ValueError
            When there are more than a million campaigns.
        """
        keys = (table.hours - _FIRST_HOUR) << _HOUR_SHIFT
        keys |= self._campaigns(table) << _CELL_BITS
        keys |= GRID.cells_of(table.scores)
        sums = fixed_sums(table.scores, table.counts, table.positives)
        self._held.append(sum_by_key(keys, sums))
        self._waiting += len(self._held[-1][0])
        if self._waiting > len(self._held[0][0]):
            self._merge()

    def __len__(self) -> int:
        """How many rows the table will have."""
        self._merge()
        return len(self._held[0][0]) if self._held else 0

    def table(self) -> EventTable:
        """The impressions added, one row for each cell of an hour and campaign."""
        self._merge()
        if not self._held:
            return EventTable.concatenate([])
        keys, sums = self._held[0]
        cells = keys & ((1 << _CELL_BITS) - 1)
        scores, outcomes, weights = cell_means(cells, sums)
        names = tuple(sorted(self._codes))
        rank = np.empty(len(names), np.int32)
        rank[[self._codes[name] for name in names]] = np.arange(len(names))
        return EventTable(
            SECONDS_PER_HOUR * ((keys >> _HOUR_SHIFT) + _FIRST_HOUR).astype(np.float64),
            names,
            rank[(keys >> _CELL_BITS) & ((1 << _CAMPAIGN_BITS) - 1)],
            scores,
            outcomes,
            weights=weights,
        )

    def _campaigns(self, table: EventTable) -> Integers:
        """The code of each row's campaign; one campaign keeps its code from table to table."""
        for name in table.campaigns:
            self._codes.setdefault(name, len(self._codes))
        if len(self._codes) > 1 << _CAMPAIGN_BITS:
            raise ValueError(f"{len(self._codes):,} campaigns: there may be a million at most")
        codes = np.array([self._codes[name] for name in table.campaigns], np.int64)
        return codes[table.rows]

    def _merge(self) -> None:
        if len(self._held) > 1:
            self._held = [sum_parts(self._held)]
        self._waiting = 0
