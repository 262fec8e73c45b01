"""The generalised second price auction of one page or of a whole log."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
)
from evaluation.auction.identifiers import Codes, check_codes, numbered
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.page_rules import check_ads
from evaluation.auction.ranking import Ranking
from evaluation.auction.slot_layout import SlotLayout

LAYOUT, POINT = SlotLayout(), OperatingPoint()


@dataclass(frozen=True, eq=False)
class Auction:
    """Who is shown where and pays what, page by page from the best slot down.

    Attributes
    ----------
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

    Parameters
    ----------
    bids : (n,) currency per click, finite, at least 0.
    scores : (n,) position-unbiased click probabilities in [0, 1].
    pages : (n,) whole numbers from 0, in any order; None when all are candidates of one page.
    ads : (n,) whole numbers from 0, each once a page; None numbers the rows.
    layout : the slots of a page.
    point : alpha and the reserves.

    Returns
    -------
    Auction
        The ads that are shown, by page and slot. `n_pages` counts the pages that are named.

    Raises
    ------
    ValueError
        When the columns differ in length or a value breaks its rule; it is named.

    References
    ----------
    Yi et al., KDD 2013 (paper 001), section 2.1: equation 1 and the CPC below it. Edelman,
    Ostrovsky and Schwarz, American Economic Review 97 (2007).

    Examples
    --------
    >>> shown = gsp_auction([2, 3, 1, 4], [0.10, 0.05, 0.12, 0.02])
    >>> shown.rows.tolist(), shown.cpcs.round(4).tolist()
    ([0, 1, 2, 3], [1.5, 2.4, 0.6667, 0.0])
    >>> point = OperatingPoint(reserve=0.09, mainline_reserve=0.13)
    >>> shown = gsp_auction([2, 3, 1, 4], [0.10, 0.05, 0.12, 0.02], point=point)
    >>> shown.slots.tolist(), shown.cpcs.round(4).tolist()
    ([1, 2, 5], [1.5, 2.6, 0.75])
    """
    offered = check_not_negative("bids", bids)
    promised = check_unit_interval("scores", scores)
    n = len(offered)
    of_page = np.zeros(n, np.int32) if pages is None else check_codes("pages", pages)
    of_ad = np.arange(n, dtype=np.int32) if ads is None else check_codes("ads", ads)
    check_equal_lengths(bids=offered, scores=promised, pages=of_page, ads=of_ad)
    numbers, n_pages = numbered(of_page)
    order = np.lexsort((of_ad, numbers))
    sorted_pages = numbers[order].astype(np.int32)
    check_ads(sorted_pages, of_ad[order], order)
    ranking = Ranking.of(
        sorted_pages,
        offered[order],
        promised[order],
        alpha=point.alpha,
        depth=layout.positions + 1,
        n_pages=n_pages,
    )
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
