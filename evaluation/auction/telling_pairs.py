"""The pairs of query and ad that tell one position from another, and what they tell."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from calibrators.samples import Floats, Integers
from evaluation.auction.identifiers import Codes, numbered
from evaluation.sums import sum_at

TOLERANCE, MOST_STEPS = 1e-9, 5_000


@dataclass(frozen=True, slots=True, eq=False)
class TellingPairs:
    """Pairs clicked at least once and shown in two positions or more.

    Any factors fit a pair that was seen in one position only, and a pair without clicks has rate 0
    whatever the factors, so the maximum of the likelihood is the same without them.

    Attributes
    ----------
    impressions : (pairs, positions), sparse.
    pair_clicks, position_clicks : (pairs,) and (positions,) clicks of these pairs.
    """

    impressions: Any
    pair_clicks: Floats
    position_clicks: Floats

    @classmethod
    def of(
        cls, pairs: Codes, places: Integers, impressions: Floats, clicks: Floats, n: int
    ) -> Self:
        """The telling ones among cells, (c,) each; places count from 0 to n - 1."""
        numbers, n_pairs = numbered(pairs)
        seen = csr_array((impressions, (numbers, places)), shape=(n_pairs, n))
        seen.eliminate_zeros()
        pair_clicks = sum_at(numbers, clicks, n_pairs)
        telling = (pair_clicks > 0.0) & (np.diff(seen.indptr) > 1)
        position_clicks = sum_at(places, clicks * telling[numbers], n)
        held = seen[telling]
        # Without a click there, all that they say is that the factor is small.
        held.data *= position_clicks[held.indices] > 0.0
        held.eliminate_zeros()
        return cls(held, pair_clicks[telling], position_clicks)

    def parts(self) -> Integers:
        """For each position the number of the part it is compared in, (positions,)."""
        seen = self.impressions.copy()
        seen.data = np.ones(len(seen.data))
        met = (seen.T @ seen).todense() > 0.0
        return np.asarray(connected_components(met, directed=False)[1], np.int64)

    def maximise(self, start: Floats, parts: Integers, first: int) -> tuple[Floats, int, bool]:
        """Factors of the greatest likelihood, the steps made, and whether they settled.

        The position `first` keeps 1. A part that is not compared with it keeps the `start` of its
        most clicked position, and so does a position that no pair tells about.
        """
        factors, steps, change = start, 0, np.inf
        while steps < MOST_STEPS and change > TOLERANCE:
            before, factors = factors, self._updated(factors)
            moved = factors > 0.0
            change = np.max(np.abs(before[moved] / factors[moved] - 1.0), initial=0.0)
            steps += 1
        return self._scaled(factors, start, parts, first), steps, bool(change <= TOLERANCE)

    def _updated(self, factors: Floats) -> Floats:
        rates = self.pair_clicks / (self.impressions @ np.nan_to_num(factors))
        weighted = self.impressions.T @ rates
        told = weighted > 0.0
        updated = factors.copy()
        np.divide(self.position_clicks, weighted, out=updated, where=told)
        return updated

    def _scaled(self, factors: Floats, start: Floats, parts: Integers, first: int) -> Floats:
        scaled = factors.copy()
        for part in np.unique(parts):
            inside = np.flatnonzero(parts == part)
            clicked_most = inside[np.argmax(self.position_clicks[inside])]
            anchor = first if parts[first] == part else clicked_most
            if factors[anchor] > 0.0:
                scaled[inside] *= start[anchor] / factors[anchor]
        return scaled
