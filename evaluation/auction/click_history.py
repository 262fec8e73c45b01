"""What a log knows about clicks: of a pair at a position, of a pair, of a position."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.auction.click_curve import ClickCurve, curve_of
from evaluation.auction.logged_cells import LoggedCells
from evaluation.auction.search_log import SearchLog


@dataclass(frozen=True, eq=False)
class ClickHistory:
    """Click rates of a log, so arranged that the rate of any slot is a look-up.

    Attributes
    ----------
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
