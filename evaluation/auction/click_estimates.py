"""Expected clicks of simulated slots, from the log at three levels.

A pair of query and ad at this position; the pair at others; the position over all pairs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, sum_at
from evaluation.auction.click_curve import ClickCurve, curve_of
from evaluation.auction.gsp import Auction
from evaluation.auction.identifiers import Codes
from evaluation.auction.search_log import SearchLog


@dataclass(frozen=True, eq=False)
class LoggedCells:
    """Counts of every cell, a cell being a pair (query and ad) at a position that showed it.

    The last pair stands for all that were never shown, the last cell for all that the log lacks.

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


@dataclass(frozen=True, eq=False)
class ClickHistory:
    """Click rates of a log, so arranged that the rate of any slot is a look-up.

    curve : the click curve.
    cells : counts by pair and position.
    exposures : (pairs,) impressions of each pair, weighted by the factors of their positions.
    pair_rates : (pairs,) clicks over exposure: the click rate at the first position; nan where the
        pair was never shown, or only where nothing is ever clicked.
    filled : (positions,) whether the log ever filled the position.
    sources : (positions,) the position itself where filled; otherwise the nearest filled one above
        it, or below where there is none.
    factors, rates : (positions,) the curve, and the click rate over all ads, of the source.
    """

    curve: ClickCurve
    cells: LoggedCells
    exposures: Floats
    pair_rates: Floats
    filled: NDArray[np.bool_]
    sources: Integers
    factors: Floats
    rates: Floats

    @classmethod
    def of(cls, log: SearchLog, curve_method: str = "mle") -> Self:
        """The history in a log; `curve_method` as in `click_curve`."""
        cells = LoggedCells.of(log)
        n = log.layout.positions
        pairs, positions = cells.pairs.astype(np.int32), (cells.places + 1).astype(np.int32)
        curve = curve_of(pairs, positions, cells.impressions, cells.clicks, n, curve_method)
        filled = curve.impressions > 0.0
        sources = _nearest(filled)
        # Without a click all estimates are 0, whatever the curve.
        factors = np.nan_to_num(curve.factors, nan=1.0)[sources]
        exposures = cells.pair_sums(cells.impressions * factors[cells.places])
        pair_rates = np.full(cells.n_pairs, np.nan)
        np.divide(cells.pair_sums(cells.clicks), exposures, out=pair_rates, where=exposures > 0.0)
        rates = np.nan_to_num(curve.rates)[sources]
        return cls(curve, cells, exposures, pair_rates, filled, sources, factors, rates)


def _nearest(filled: NDArray[np.bool_]) -> Integers:
    places = np.arange(len(filled))
    above = np.maximum.accumulate(np.where(filled, places, -1))
    return np.where(above < 0, np.argmax(filled), above)


LEVELS = (1, 2, 3)


class ClickEstimates:
    """Click rates of k slots, and how each of them leans on the clicks of the log.

    rates : (k,) expected clicks, in [0, 1].
    levels : (k,) 1 where the log showed the pair at this position, 2 where it showed the pair
        elsewhere, 3 where it did not.
    pairs, places, cells : (k,) where the history looks the slot up.
    """

    def __init__(
        self, history: ClickHistory, auction: Auction, min_impressions: float, shrinkage: float
    ) -> None:
        """Look up the slots of an auction over the log that the history is of."""
        self.history, self.shrinkage = history, shrinkage
        pairs, places = history.cells.pair_of_row[auction.rows], auction.slots - 1
        cells = history.cells.cell_of[pairs, places]
        self.pairs, self.places, self.cells = pairs, places, cells
        elsewhere = np.minimum(history.pair_rates[pairs] * history.factors[places], 1.0)
        rescaled = ~np.isnan(elsewhere) & history.filled[places]
        exact = history.cells.impressions[cells] >= min_impressions
        self.levels = np.where(exact, 1, np.where(rescaled, 2, 3)).astype(np.int8)
        self.rates = np.where(rescaled, elsewhere, history.rates[places])
        self.rates[exact] = _cell_rates(history, shrinkage)[cells[exact]]

    @property
    def level_shares(self) -> tuple[float, float, float]:
        """Share of the slots answered at level 1, 2 and 3; nan without slots."""
        if not len(self.levels):
            return (float("nan"),) * 3
        first, second, third = (float(np.mean(self.levels == level)) for level in LEVELS)
        return first, second, third

    @property
    def guessed_share(self) -> float:
        """Share of the expected clicks that are of level 3; nan where none are expected."""
        clicks = float(self.rates.sum())
        return float(self.rates[self.levels == 3].sum()) / clicks if clicks else float("nan")

    def page_noise(self, log: SearchLog, values: Floats) -> Floats:
        """How the clicks of each logged page move sum(values * rates), (n_pages,).

        The first-order effect of giving a page more weight in the history (its influence): the
        clicks it had beyond the rates they are held against, each times what the simulation makes
        of it. The click curve is taken as known.
        """
        history, cells = self.history, self.history.cells
        of_cell, of_pair, of_place = self._leverage(values)
        gain = of_cell + of_pair[cells.pairs] + of_place[cells.places]
        pair_rates = np.nan_to_num(history.pair_rates)[cells.pairs] * history.factors[cells.places]
        expected = (
            of_cell * np.nan_to_num(_cell_rates(history, self.shrinkage))
            + of_pair[cells.pairs] * pair_rates
            + of_place[cells.places] * history.rates[cells.places]
        )
        shown = cells.cell_of_shown
        effects = np.where(log.clicks[log.shown], gain[shown], 0.0) - expected[shown]
        return sum_at(log.pages[log.shown].astype(np.int64), effects, log.n_pages)

    def _leverage(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """What one click more adds to the sum: in its cell, in its pair, in its position."""
        history, cells = self.history, self.history.cells
        first, third = self.levels == 1, self.levels == 3
        weights = cells.impressions[self.cells] + self._pulled[self.cells]
        per_cell = np.divide(values, weights, out=np.zeros(len(values)), where=first)
        share = np.where(first, per_cell * self._pulled[self.cells], values)
        exposures = history.exposures[self.pairs]
        # Where the estimate is cut off at 1, and where there is none, a click changes nothing.
        known = ~third & (history.pair_rates[self.pairs] * history.factors[self.places] < 1.0)
        per_pair = np.zeros(len(values))
        np.divide(share * history.factors[self.places], exposures, out=per_pair, where=known)
        sources = history.sources[self.places]
        shown = history.curve.impressions[sources]
        per_place = np.divide(values, shown, out=np.zeros(len(values)), where=third & (shown > 0.0))
        return (
            sum_at(self.cells.astype(np.int64), per_cell, len(cells.impressions)),
            sum_at(self.pairs.astype(np.int64), per_pair, cells.n_pairs),
            sum_at(sources, per_place, len(history.sources)),
        )

    @cached_property
    def _pulled(self) -> Floats:
        return _pulls(self.history, self.shrinkage)


def _pulls(history: ClickHistory, shrinkage: float) -> Floats:
    """Impressions by which each cell's rate is drawn to its pair's, (cells,)."""
    known = ~np.isnan(history.pair_rates[history.cells.pairs])
    return np.where(known, shrinkage, 0.0)


def _cell_rates(history: ClickHistory, shrinkage: float) -> Floats:
    """Click rate of each cell, (cells,); nan where it has no impressions."""
    cells, pulls = history.cells, _pulls(history, shrinkage)
    elsewhere = history.pair_rates[cells.pairs] * history.factors[cells.places]
    drawn = pulls * np.nan_to_num(np.minimum(elsewhere, 1.0))
    rates = np.full(len(pulls), np.nan)
    weights = cells.impressions + pulls
    np.divide(cells.clicks + drawn, weights, out=rates, where=weights > 0.0)
    return rates
