"""Impressions and clicks of a log by query, ad and position."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.auction.identifiers import Codes
from evaluation.auction.search_log import SearchLog
from evaluation.sums import sum_at


@dataclass(frozen=True, eq=False)
class LoggedCells:
    """Counts of every cell, a cell being a pair (query and ad) at a position that showed it.

    The last pair stands for all that were never shown, the last cell for all that the log lacks.

    Attributes
    ----------
    pair_of_row : (n,) pair of each row of the log.
    cell_of : (pairs, positions) the cell.
    cell_of_shown : (shown,) cell of each row that was shown.
    pairs, places : (cells,) pair and position, from 0, of each cell.
    impressions, clicks : (cells,) counts; 0 for the last.
    """

    pair_of_row: Codes
    cell_of: Codes
    cell_of_shown: Codes
    pairs: Integers
    places: Integers
    impressions: Floats
    clicks: Floats

    @classmethod
    def of(cls, log: SearchLog) -> Self:
        """Count what a log has shown."""
        n_positions, shown, keys = log.layout.positions, log.shown, log.pair_keys
        known = np.unique(keys[shown])
        pair_of_row = _places_in(known, keys)
        grid = pair_of_row[shown] * np.int64(n_positions) + log.positions[shown] - 1
        cells, cell_of_shown = np.unique(grid, return_inverse=True)
        pairs, places = np.divmod(np.append(cells, len(known) * n_positions), n_positions)
        cell_of = np.full((len(known) + 1, n_positions), len(cells), np.int32)
        cell_of[pairs, places] = np.arange(len(cells) + 1)
        clicks = log.clicks[shown].astype(np.float64)
        return cls(
            pair_of_row=pair_of_row,
            cell_of=cell_of,
            cell_of_shown=cell_of_shown.astype(np.int32),
            pairs=pairs,
            places=places,
            impressions=sum_at(cell_of_shown, np.ones(len(shown)), len(cells) + 1),
            clicks=sum_at(cell_of_shown, clicks, len(cells) + 1),
        )

    @property
    def n_pairs(self) -> int:
        """Pairs, the last included."""
        return len(self.cell_of)

    def pair_sums(self, values: Floats) -> Floats:
        """Sum of the cells' values, (cells,), over each pair, (pairs,)."""
        return sum_at(self.pairs, values, self.n_pairs)


def _places_in(known: Integers, keys: Integers) -> Codes:
    """Where each key stands among the known ones, ascending; behind the last where it is none."""
    places = np.searchsorted(known, keys)
    if len(known):
        places[known[np.minimum(places, len(known) - 1)] != keys] = len(known)
    return places.astype(np.int32)
