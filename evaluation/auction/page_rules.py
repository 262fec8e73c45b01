"""What a page of a log may not hold."""

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Integers
from evaluation.auction.identifiers import BadRow, Codes


def check_shown(positions: Codes, clicks: NDArray[np.bool_], slots: int) -> None:
    """Raises BadRow for a position beyond the last slot, or a click on what was not shown."""
    beyond = positions > slots
    if beyond.any():
        row = int(np.argmax(beyond))
        raise BadRow("positions", row, positions[row], f"a page has {slots} slots")
    unseen = clicks & (positions == 0)
    if unseen.any():
        raise BadRow("clicks", int(np.argmax(unseen)), 1, "the ad was not shown: its position is 0")


def check_ads(pages: Codes, ads: Codes, order: Integers | None) -> None:
    """Raises BadRow for an ad that its page has twice.

    Rows, (n,), are sorted by page and ad; `order`, (n,), is where they came from.
    """
    again = (pages[1:] == pages[:-1]) & (ads[1:] == ads[:-1])
    if again.any():
        _refuse("ads", ads, again, order, "the same ad twice on one page")


def check_queries(pages: Codes, queries: Codes, order: Integers | None) -> None:
    """Raises BadRow for a page with two queries; rows as in `check_ads`."""
    other = (pages[1:] == pages[:-1]) & (queries[1:] != queries[:-1])
    if other.any():
        _refuse("queries", queries, other, order, "its page has another query too")


def check_positions(pages: Codes, positions: Codes, order: Integers | None) -> None:
    """Raises BadRow for two ads in one slot of a page; rows as in `check_ads`."""
    shown = np.flatnonzero(positions)
    by_slot = shown[np.lexsort((positions[shown], pages[shown]))]
    page, slot = pages[by_slot], positions[by_slot]
    again = (page[1:] == page[:-1]) & (slot[1:] == slot[:-1])
    if again.any():
        came_from = by_slot if order is None else order[by_slot]
        _refuse("positions", slot, again, came_from, "two ads in one position of a page")


def _refuse(
    column: str, values: Codes, wrong: NDArray[np.bool_], order: Integers | None, rule: str
) -> None:
    """Name the later row of the first pair of neighbours that is wrong."""
    rows = np.arange(len(values)) if order is None else order
    later = np.maximum(rows[1:], rows[:-1])[wrong]
    at = int(np.argmin(later))
    place = np.flatnonzero(wrong)[at] + (rows[1:][wrong][at] == later[at])
    raise BadRow(column, int(later[at]), values[place], rule)
