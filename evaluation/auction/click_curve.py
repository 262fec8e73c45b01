"""The click curve: how much less an ad is clicked further down the page."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from calibrators.samples import Floats, Integers, check_equal_lengths, check_not_negative, sum_at
from evaluation.auction.identifiers import BadRow, Codes, check_codes, numbered, refuse_first

TOLERANCE, MOST_STEPS = 1e-9, 5_000


class IdentifiablePairs:
    """Pairs clicked at least once and shown in two positions or more.

    Any factors fit a pair that was seen in one position only, and a pair without clicks has rate 0
    whatever the factors, so the maximum of the likelihood is the same without them.

    impressions : (pairs, positions), sparse.
    pair_clicks, position_clicks : (pairs,) and (positions,) clicks of these pairs.
    """

    def __init__(
        self, pairs: Codes, places: Integers, impressions: Floats, clicks: Floats, n: int
    ) -> None:
        """The identifiable ones among cells, (c,) each; places count from 0 to n - 1."""
        numbers, n_pairs = numbered(pairs)
        seen = csr_array((impressions, (numbers, places)), shape=(n_pairs, n))
        seen.eliminate_zeros()
        pair_clicks = sum_at(numbers, clicks, n_pairs)
        identifiable = (pair_clicks > 0.0) & (np.diff(seen.indptr) > 1)
        self.position_clicks = sum_at(places, clicks * identifiable[numbers], n)
        self.impressions: Any = seen[identifiable]
        held = self.impressions
        # Without a click there, all that they say is that the factor is small.
        held.data *= self.position_clicks[held.indices] > 0.0
        held.eliminate_zeros()
        self.pair_clicks = pair_clicks[identifiable]

    def parts(self) -> Integers:
        """For each position the number of the part it is compared in, (positions,)."""
        seen = self.impressions.copy()
        seen.data = np.ones(len(seen.data))
        met = (seen.T @ seen).todense() > 0.0
        return np.asarray(connected_components(met, directed=False)[1], np.int64)

    def maximise(self, start: Floats, parts: Integers, first: int) -> tuple[Floats, int, bool]:
        """Factors of the greatest likelihood, the steps made, and whether they converged.

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
        known = weighted > 0.0
        updated = factors.copy()
        np.divide(self.position_clicks, weighted, out=updated, where=known)
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


METHODS = ("mle", "naive")


@dataclass(frozen=True, slots=True, eq=False)
class ClickCurve:
    """Clicks at each position relative to those the same ad has at the first, (p,) each.

    factors : the curve, 1 at the first position with clicks; nan where nothing was shown.
    linked : whether the log compares the position with the first one with clicks: by an ad clicked
        and shown in both, or by a chain of such ads. Where it does not, nothing tells a bad
        position from bad ads, and the factor is the naive one. Always true of "naive".
    impressions, clicks : of each position.
    steps : updates made.
    converged : whether the last update changed no factor by more than 1e-9 of itself.
    """

    factors: Floats
    linked: NDArray[np.bool_]
    impressions: Floats
    clicks: Floats
    steps: int = 0
    converged: bool = True

    @property
    def rates(self) -> Floats:
        """Click rate of each position over all ads, (p,): the reference; nan without data."""
        held = self.impressions > 0.0
        rates = np.full(len(held), np.nan)
        np.divide(self.clicks, self.impressions, out=rates, where=held)
        return rates

    @property
    def naive_factors(self) -> Floats:
        """The rates, 1 at the first position with clicks, (p,); nan without a click."""
        clicked = self.clicks > 0.0
        if not clicked.any():
            return np.full(len(clicked), np.nan)
        rates = self.rates
        naive: Floats = rates / rates[np.argmax(clicked)]
        return naive


def click_curve(
    pairs: ArrayLike,
    positions: ArrayLike,
    impressions: ArrayLike,
    clicks: ArrayLike,
    *,
    n_positions: int | None = None,
    method: str = "mle",
) -> ClickCurve:
    """Estimate what a position does to an ad's clicks, apart from which ads stand there.

    "mle" takes clicks of pair i at position j as Poisson with mean
    impressions * rate_i * factor_j and maximises the likelihood by turns: each rate is clicks
    over factor-weighted impressions, each factor clicks over rate-weighted impressions, until no
    factor changes by more than 1e-9 of itself (5,000 turns at most). Only pairs clicked and seen
    in two positions or more tell anything about factors. "naive" is the click rate by position:
    it takes the better ads that stand higher for the merit of the position.

    pairs : (c,) whole numbers from 0: which query and ad.
    positions : (c,) whole numbers from 1.
    impressions : (c,) how often the pair was shown there, finite, at least 0; cells may repeat.
    clicks : (c,) clicks among them, at most as many.
    n_positions : length of the curve; None is the largest position.
    method : "mle" or "naive".

    Returns: All factors are nan without any click.

    Source: Yi et al., KDD 2013 (paper 001), section 4.6, asks for a click curve "derived from the
    historic user responses"; the likelihood is ours, because the naive curve is confounded.

    A good ad at position 1 and 2, a bad one at 2 and 3: each position halves the clicks.

    >>> cells = {"pairs": [0, 0, 1, 1], "positions": [1, 2, 2, 3]}
    >>> counts = {"impressions": [100, 100, 900, 900], "clicks": [40, 20, 18, 9]}
    >>> click_curve(**cells, **counts).factors.round(6)
    array([1.  , 0.5 , 0.25])
    >>> click_curve(**cells, **counts, method="naive").factors.round(6)
    array([1.   , 0.095, 0.025])
    """
    if method not in METHODS:
        raise ValueError(f"method = {method!r}: must be one of {', '.join(METHODS)}")
    pair, position = check_codes("pairs", pairs), check_codes("positions", positions)
    shown = check_not_negative("impressions", impressions)
    clicked = check_not_negative("clicks", clicks)
    check_equal_lengths(pairs=pair, positions=position, impressions=shown, clicks=clicked)
    n = int(position.max(initial=0)) if n_positions is None else n_positions
    _check_cells(position, shown, clicked, n)
    return curve_of(pair, position, shown, clicked, n, method)


def curve_of(
    pairs: Codes, positions: Codes, impressions: Floats, clicks: Floats, n: int, method: str
) -> ClickCurve:
    """`click_curve` of checked cells."""
    places = positions.astype(np.int64) - 1
    shown, clicked = sum_at(places, impressions, n), sum_at(places, clicks, n)
    naive = ClickCurve(np.full(n, np.nan), np.ones(n, np.bool_), shown, clicked)
    if not clicked.any():
        return naive
    factors = naive.naive_factors
    if method == "naive":
        return ClickCurve(factors, naive.linked, shown, clicked)
    grid = IdentifiablePairs(pairs, places, impressions, clicks, n)
    parts = grid.parts()
    first = int(np.argmax(clicked > 0.0))
    factors, steps, converged = grid.maximise(factors, parts, first)
    return ClickCurve(factors, parts == parts[first], shown, clicked, steps, converged)


def _check_cells(positions: Codes, impressions: Floats, clicks: Floats, n: int) -> None:
    outside = (positions < 1) | (positions > n)
    refuse_first("positions", positions, outside, f"every position must be from 1 to {n}")
    many = clicks > impressions
    if many.any():
        row = int(np.argmax(many))
        raise BadRow(
            "clicks", row, clicks[row], f"more than impressions[{row}] = {impressions[row]}"
        )
