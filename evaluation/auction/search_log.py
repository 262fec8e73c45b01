"""The log of a search engine's ad auctions: candidates, where they stood, what was clicked."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    check_equal_lengths,
    check_not_negative,
    check_unit_interval,
)
from evaluation.auction.gsp import Ranking, SlotLayout
from evaluation.auction.identifiers import (
    Codes,
    check_ads,
    check_clicks,
    check_codes,
    check_positions,
    check_queries,
    check_shown,
    numbered,
    refuse_first,
)


@dataclass(frozen=True, eq=False)
class SearchLog:
    """Candidates of every logged page, (n,) each, sorted by page and, inside a page, by ad.

    A row is an ad that could be shown on a page, whether it was or not. Rows may be given to `of`
    in any order; scores go through `arranged`, which brings them into the order held here.

    layout : the slots of a page.
    n_pages : how many pages there are, those without candidates included.
    pages, queries, ads : numbers from 0.
    positions : slot in which the ad was shown, from 1; 0 where it was not.
    clicks : whether it was clicked.
    bids : currency per click.
    order : the row, as given, of each row held here; None when they came sorted.

    >>> log = SearchLog.of(
    ...     pages=[1, 0, 0], queries=[7, 7, 7], ads=[3, 5, 4], positions=[1, 0, 1],
    ...     clicks=[1, 0, 0], bids=[2.0, 1.0, 3.0],
    ... )
    >>> log.ads, log.arranged("scores", [0.1, 0.2, 0.3])
    (array([4, 5, 3], dtype=int32), array([0.3, 0.2, 0.1]))
    """

    layout: SlotLayout
    n_pages: int
    pages: Codes
    queries: Codes
    ads: Codes
    positions: Codes
    clicks: NDArray[np.bool_]
    bids: Floats
    order: Integers | None

    @classmethod
    def of(
        cls,
        *,
        pages: ArrayLike,
        queries: ArrayLike,
        ads: ArrayLike,
        positions: ArrayLike,
        clicks: ArrayLike,
        bids: ArrayLike,
        layout: SlotLayout | None = None,
        n_pages: int | None = None,
    ) -> Self:
        """A checked log of n rows; without `n_pages`, pages are those that rows name.

        Raises ValueError when the columns differ in length, a value breaks its rule, a page has two
        queries, or an ad or a position twice, or an ad that was not shown was clicked; it is named.
        """
        layout = layout or SlotLayout()
        page, query, ad, position = (
            check_codes(name, values)
            for name, values in (
                ("pages", pages),
                ("queries", queries),
                ("ads", ads),
                ("positions", positions),
            )
        )
        clicked, bid = check_clicks(clicks), check_not_negative("bids", bids)
        check_equal_lengths(
            pages=page, queries=query, ads=ad, positions=position, clicks=clicked, bids=bid
        )
        check_shown(position, clicked, layout.positions)
        page, n_pages = _numbered_pages(page, n_pages)
        order = _sorting(page, ad)
        if order is not None:
            page, query, ad, position = (column[order] for column in (page, query, ad, position))
            clicked, bid = clicked[order], bid[order]
        check_ads(page, ad, order)
        check_queries(page, query, order)
        check_positions(page, position, order)
        return cls(layout, n_pages, page, query, ad, position, clicked, bid, order)

    def __len__(self) -> int:
        return len(self.pages)

    def arranged(self, name: str, scores: ArrayLike) -> Floats:
        """Checked probabilities of the rows as given, (n,), in the order of this log."""
        checked = check_unit_interval(name, scores)
        columns: dict[str, NDArray[np.generic]] = {"log": self.pages, name: checked}
        check_equal_lengths(**columns)
        return checked if self.order is None else checked[self.order]

    def ranking(self, scores: Floats, alpha: float) -> Ranking:
        """The best ads of every page by arranged scores."""
        return Ranking(self.pages, self.bids, scores, alpha, self.layout, self.n_pages)

    @cached_property
    def shown(self) -> Integers:
        """The rows of ads that were shown."""
        return np.flatnonzero(self.positions)

    @property
    def pair_keys(self) -> Integers:
        """A number for each row that only rows of the same query and ad share, (n,)."""
        return self.queries * np.int64(self.ads.max(initial=0) + 1) + self.ads

    @property
    def ads_per_page(self) -> float:
        """Ads shown on an average page, as logged."""
        return len(self.shown) / self.n_pages if self.n_pages else float("nan")

    @property
    def mainline_ads_per_page(self) -> float:
        """Ads shown in the mainline of an average page, as logged."""
        shown = np.count_nonzero(self.positions[self.shown] <= self.layout.mainline)
        return shown / self.n_pages if self.n_pages else float("nan")


def _sorting(pages: Codes, ads: Codes) -> Integers | None:
    """What sorts rows by page and ad; None when they are."""
    ascends = (pages[1:] > pages[:-1]) | ((pages[1:] == pages[:-1]) & (ads[1:] >= ads[:-1]))
    return None if ascends.all() else np.lexsort((ads, pages))


def _numbered_pages(pages: Codes, n_pages: int | None) -> tuple[Codes, int]:
    if n_pages is None:
        numbers, distinct = numbered(pages)
        return numbers.astype(np.int32), distinct
    refuse_first("pages", pages, pages >= n_pages, f"there are {n_pages} pages, numbered from 0")
    return pages, n_pages
