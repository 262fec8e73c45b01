"""The generalised second price auction of one page or of a whole log."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
)
from evaluation.auction.identifiers import Codes, check_ads, check_codes, numbered

_ROWS = 1 << 16
"""Rows sorted at once: they fit into the cache, and their pages into 16 bits, which numpy sorts
by radix."""
_NONE = (np.empty(0, np.int32), np.empty(0, np.int16), np.empty(0), np.empty(0))


class Ranking:
    """The first ads of every page, page by page, best first; equal rank scores by ad.

    No threshold has been applied, so one ranking serves every threshold.

    alpha : click investment power.
    n_pages : how many pages there are, those without ads included.
    rows : (k,) the row of the candidate.
    pages : (k,) its page.
    ranks : (k,) its place on the page; 0 is the best.
    bids, rank_scores, click_powers : (k,) bid, bid * score ** alpha (above 0), score ** alpha.
    """

    def __init__(
        self,
        pages: Codes,
        bids: Floats,
        scores: Floats,
        alpha: float,
        layout: "SlotLayout",
        n_pages: int,
    ) -> None:
        """Rank n candidates, (n,) each, sorted by page and, inside a page, by ad; one more than
        the layout has slots, whose rank score is the price of the last."""
        self.alpha, self.n_pages = alpha, n_pages
        depth = layout.positions + 1
        parts = [
            _ranked(pages, bids, scores, alpha, depth, start, end)
            for start, end in _whole_pages(pages)
        ]
        self.rows, self.ranks, self.rank_scores, self.click_powers = (
            np.concatenate([none, *(part[place] for part in parts)])
            for place, none in enumerate(_NONE)
        )
        self.pages, self.bids = pages[self.rows], bids[self.rows]

    @property
    def next_scores(self) -> Floats:
        """Rank score of the next ad of the page, shown or not, (k,); 0 where none follows."""
        following = np.zeros(len(self.rows))
        if len(self.rows):
            same = self.pages[1:] == self.pages[:-1]
            following[:-1] = np.where(same, self.rank_scores[1:], 0.0)
        return following


def _whole_pages(pages: Codes) -> Iterator[tuple[int, int]]:
    """Ranges of rows that end where a page ends, of at most _ROWS rows or of one page."""
    start, n = 0, len(pages)
    while start < n:
        end = n
        if start + _ROWS < n:
            end = int(np.searchsorted(pages, pages[start + _ROWS]))
        if end <= start:
            end = int(np.searchsorted(pages, pages[start], side="right"))
        yield start, end
        start = end


def _ranked(
    pages: Codes, bids: Floats, scores: Floats, alpha: float, depth: int, start: int, end: int
) -> tuple[Codes, NDArray[np.int16], Floats, Floats]:
    """Rows, ranks, rank scores and powers of the candidates in [start, end)."""
    powers = scores[start:end] ** alpha
    rank_scores = bids[start:end] * powers
    held = np.flatnonzero(rank_scores > 0.0)
    # Both sorts are stable and rows come by ad, so equal rank scores stay in the order of ads.
    best = held[np.argsort(-rank_scores[held], kind="stable")]
    local = pages[start:end]
    opens = np.cumsum(np.append(False, local[1:] != local[:-1])[: end - start])
    short = opens.astype(np.uint16)[best]
    best = best[np.argsort(short, kind="stable")]
    ranks = _places(opens[best])
    kept = ranks < depth
    best = best[kept]
    rows = (best + start).astype(np.int32)
    return rows, ranks[kept].astype(np.int16), rank_scores[best], powers[best]


def _places(groups: Integers) -> Integers:
    """Place of every row inside its group; the rows of a group are neighbours."""
    rows = np.arange(len(groups))
    starts = np.where(np.append(True, groups[1:] != groups[:-1])[: len(groups)], rows, 0)
    return rows - np.maximum.accumulate(starts)


_MOST = 1_000


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """How many ads a page can show, above the results and beside them.

    A position is a slot's number: 1..mainline above the results, then mainline + 1 and up beside
    them. The sidebar begins at the same number on every page, however few ads the mainline has.

    mainline, sidebar : slots of each block, from 0 to 1,000, together at least 1.

    >>> SlotLayout(4, 5).positions
    9
    """

    mainline: int = 4
    sidebar: int = 5

    def __post_init__(self) -> None:
        for name in ("mainline", "sidebar"):
            if not 0 <= getattr(self, name) <= _MOST:
                raise ValueError(f"{name} = {getattr(self, name)}: must be from 0 to {_MOST}")
        if not self.positions:
            raise ValueError("mainline = 0 and sidebar = 0: a page must have a slot")

    @property
    def positions(self) -> int:
        """Slots of a page."""
        return self.mainline + self.sidebar


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What turns bids and scores into a ranking, and how good an ad must be to be shown.

    alpha : click investment power, at least 0: the rank score is bid * score ** alpha. 0 ranks by
        the bid alone, 1 by expected revenue, more prefers ads that are clicked.
    reserve : least rank score of an ad that is shown at all, at least 0.
    mainline_reserve : least rank score in the mainline, at least 0. Below `reserve` it is idle.

    Source: Yi et al., KDD 2013 (paper 001), section 2.1, equation 1. The paper names no thresholds,
    but without one for the mainline an auction cannot vary how many ads it shows there.

    >>> OperatingPoint(alpha=0.8, mainline_reserve=0.05)
    OperatingPoint(alpha=0.8, reserve=0.0, mainline_reserve=0.05)
    """

    alpha: float = 1.0
    reserve: float = 0.0
    mainline_reserve: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "reserve", "mainline_reserve"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} = {value}: must be finite and at least 0")


LAYOUT, POINT = SlotLayout(), OperatingPoint()


@dataclass(frozen=True, eq=False)
class Auction:
    """Who is shown where and pays what, page by page from the best slot down.

    layout : the slots of a page.
    n_pages : how many pages there are, those that show nothing included.
    rows : (k,) the row of each ad that is shown.
    pages : (k,) its page.
    slots : (k,) its position, from 1; see `SlotLayout`.
    cpcs : (k,) what a click on it costs, never more than its bid.
    """

    layout: SlotLayout
    n_pages: int
    rows: NDArray[np.integer[Any]]
    pages: Codes
    slots: NDArray[np.int16]
    cpcs: Floats

    @cached_property
    def in_mainline(self) -> NDArray[np.bool_]:
        """Whether each ad that is shown stands in the mainline, (k,)."""
        return self.slots <= self.layout.mainline


def gsp_auction(
    bids: ArrayLike,
    scores: ArrayLike,
    pages: ArrayLike | None = None,
    ads: ArrayLike | None = None,
    *,
    layout: SlotLayout = LAYOUT,
    point: OperatingPoint = POINT,
) -> Auction:
    """Generalised second price auction: each ad pays what it needs to keep its place.

    The rank score of an ad is bid * score ** alpha. Ads whose rank score is 0 or below the reserve
    are dropped, the others sorted, equal ones by ad. The first ads at or above the mainline reserve
    fill the mainline, as far as it goes; those that follow fill the sidebar. A click costs the
    rank score of the next ad of the page (shown or not), or the reserve of the block where that is
    more, divided by the ad's own score ** alpha. The reserve of the mainline is the larger of the
    two; the last ad pays the reserve, or nothing if there is none.

    bids : (n,) currency per click, finite, at least 0.
    scores : (n,) position-unbiased click probabilities in [0, 1].
    pages : (n,) whole numbers from 0, in any order; None when all are candidates of one page.
    ads : (n,) whole numbers from 0, each once a page; None numbers the rows.
    layout : the slots of a page.
    point : alpha and the reserves.

    Returns: The ads that are shown, by page and slot. `n_pages` counts the pages that are named.

    Source: Yi et al., KDD 2013 (paper 001), section 2.1: equation 1 and the CPC below it. Edelman,
    Ostrovsky and Schwarz, American Economic Review 97 (2007).

    >>> shown = gsp_auction([2, 3, 1, 4], [0.10, 0.05, 0.12, 0.02])
    >>> shown.rows.tolist(), shown.cpcs.round(4).tolist()
    ([0, 1, 2, 3], [1.5, 2.4, 0.6667, 0.0])
    >>> point = OperatingPoint(reserve=0.09, mainline_reserve=0.13)
    >>> shown = gsp_auction([2, 3, 1, 4], [0.10, 0.05, 0.12, 0.02], point=point)
    >>> shown.slots.tolist(), shown.cpcs.round(4).tolist()
    ([1, 2, 5], [1.5, 2.6, 0.75])
    """
    offered = check_not_negative("bids", bids)
    scored = check_unit_interval("scores", scores)
    n = len(offered)
    of_page = np.zeros(n, np.int32) if pages is None else check_codes("pages", pages)
    of_ad = np.arange(n, dtype=np.int32) if ads is None else check_codes("ads", ads)
    check_equal_lengths(bids=offered, scores=scored, pages=of_page, ads=of_ad)
    numbers, n_pages = numbered(of_page)
    order = np.lexsort((of_ad, numbers))
    sorted_pages = numbers[order].astype(np.int32)
    check_ads(sorted_pages, of_ad[order], order)
    ranked = (sorted_pages, offered[order], scored[order])
    ranking = Ranking(*ranked, point.alpha, layout, n_pages)
    held = held_auction(ranking, layout, point)
    rows = order[held.rows]
    return Auction(layout, n_pages, rows, of_page[rows], held.slots, held.cpcs)


def held_auction(ranking: Ranking, layout: SlotLayout, point: OperatingPoint) -> Auction:
    """The auction among ranked ads; `point.alpha` is that of the ranking."""
    kept = ranking.rank_scores >= point.reserve
    floor = max(point.mainline_reserve, point.reserve)
    above = (ranking.ranks < layout.mainline) & (ranking.rank_scores >= floor)
    in_mainline = np.bincount(ranking.pages[above], minlength=ranking.n_pages).astype(np.int16)
    beside = ranking.ranks - in_mainline[ranking.pages]
    shown = above | (kept & (beside < layout.sidebar))
    slots = np.where(above, ranking.ranks + 1, layout.mainline + 1 + beside).astype(np.int16)
    price = np.maximum(ranking.next_scores, np.where(above, floor, point.reserve))
    with np.errstate(over="ignore"):
        # Rounding alone could lift the price of an ad that ties with the next above its bid.
        cpcs = np.minimum(price / ranking.click_powers, ranking.bids)
    return Auction(
        layout,
        ranking.n_pages,
        ranking.rows[shown],
        ranking.pages[shown],
        slots[shown],
        cpcs[shown],
    )
