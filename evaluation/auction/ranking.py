"""The best ads of every page in the order of their rank scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.auction.identifiers import Codes

_ROWS = 1 << 16
"""Rows sorted at once: they fit into the cache, and their pages into 16 bits, which numpy sorts
by radix."""
_NONE = (np.empty(0, np.int32), np.empty(0, np.int16), np.empty(0), np.empty(0))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Up to `depth` ads of every page, page by page, best first; equal rank scores by ad.

    No threshold has been applied, so one ranking serves every threshold.

    Attributes
    ----------
    alpha : click investment power.
    n_pages : how many pages there are, those without ads included.
    rows : (k,) the row of the candidate.
    pages : (k,) its page.
    ranks : (k,) its place on the page; 0 is the best.
    bids, rank_scores, click_powers : (k,) bid, bid * score ** alpha (above 0), score ** alpha.
    """

    alpha: float
    n_pages: int
    rows: Codes
    pages: Codes
    ranks: NDArray[np.int16]
    bids: Floats
    rank_scores: Floats
    click_powers: Floats

    @classmethod
    def of(
        cls, pages: Codes, bids: Floats, scores: Floats, *, alpha: float, depth: int, n_pages: int
    ) -> Self:
        """Rank n candidates, (n,) each, sorted by page and, inside a page, by ad."""
        parts = [
            _ranked(pages, bids, scores, alpha, depth, start, end)
            for start, end in _whole_pages(pages)
        ]
        rows, ranks, rank_scores, powers = (
            np.concatenate([none, *(part[place] for part in parts)])
            for place, none in enumerate(_NONE)
        )
        return cls(alpha, n_pages, rows, pages[rows], ranks, bids[rows], rank_scores, powers)

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
