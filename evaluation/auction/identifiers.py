"""Pages, queries and ads as whole numbers, and the row of a log that breaks a rule."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Integers, as_vector

Codes = NDArray[np.int32]
_LARGEST = np.iinfo(np.int32).max
_WHOLE = f"must be a whole number from 0 to {_LARGEST}"


class BadRow(ValueError):
    """A value of a log that breaks a rule: which column, which row (from 0), what and why."""

    def __init__(self, column: str, row: int, value: object, rule: str) -> None:
        super().__init__(f"{column}[{row}] = {value}: {rule}")
        self.column, self.row, self.value, self.rule = column, row, value, rule


def refuse_first(column: str, values: NDArray[Any], wrong: NDArray[np.bool_], rule: str) -> None:
    """Raises BadRow for the first of the values, (n,), that is wrong, if any is."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadRow(column, row, values[row], rule)


def check_codes(name: str, values: ArrayLike) -> Codes:
    """The values as int32 of shape (n,), all whole numbers from 0 up.

    Raises BadRow for the first that is not.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        array = as_vector(name, values)
    with np.errstate(invalid="ignore"):
        obeys = (array >= 0) & (array <= _LARGEST) & (array % 1 == 0)
    refuse_first(name, array, ~obeys, f"every value {_WHOLE}")
    return array.astype(np.int32, copy=False)


def check_clicks(clicks: ArrayLike) -> NDArray[np.bool_]:
    """The clicks as bools, (n,), each given as 0 or 1; raises BadRow for the first that is not."""
    numbers = as_vector("clicks", clicks)
    clicked: NDArray[np.bool_] = numbers == 1.0
    refuse_first("clicks", numbers, ~clicked & (numbers != 0.0), "every value must be 0 or 1")
    return clicked


def numbered(codes: Codes) -> tuple[Integers, int]:
    """The distinct codes numbered from 0, in their order, (n,), and how many there are."""
    distinct, numbers = np.unique(codes, return_inverse=True)
    return numbers, len(distinct)


def check_shown(positions: Codes, clicks: NDArray[np.bool_], slots: int) -> None:
    """Raises BadRow for a position beyond the last slot, or a click on what was not shown."""
    refuse_first("positions", positions, positions > slots, f"a page has {slots} slots")
    unseen = clicks & (positions == 0)
    refuse_first("clicks", clicks.view(np.int8), unseen, "the ad was not shown: its position is 0")


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
