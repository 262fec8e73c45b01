"""A uniform sample of bounded size from rows that come in pieces."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.click_log.columns import CLICK_ID
from app.click_log.id_hashes import HIGHEST, Hashes, hash_ids

_SLACK = 1.25
"""How far above the limit rows pile up before the surplus goes: thinning costs a pass."""


class Sample:
    """Keeps the `limit` clicks with the lowest hashes of their ids; all where there is no limit.

    Which those are depends on the ids and the seed only: every repeat, in any order and piecewise
    in any way, keeps the same clicks.
    """

    def __init__(self, limit: int | None = None, seed: int = 0) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"max_clicks = {limit}: must be at least 1")
        self.seed = seed
        self.total = 0
        self._limit = limit
        self._highest = HIGHEST
        self._tables: list[Any] = []
        self._hashes: list[Hashes] = []

    def add(self, table: Any, hashes: Hashes) -> None:
        """Take rows of clicks that were not added before."""
        self.total += len(table)
        self._tables.append(table)
        self._hashes.append(hashes)
        if self._highest < HIGHEST:
            self._thin_last()
        if self._limit is not None and sum(map(len, self._hashes)) > _SLACK * self._limit:
            self._lower(self._limit)

    def rows(self) -> tuple[list[Any], Hashes]:
        """The rows kept, in the pieces and the order they came in, and the hash of each, (n,)."""
        if self._limit is not None and sum(map(len, self._hashes)) > self._limit:
            self._lower(self._limit)
        return self._tables, np.concatenate([np.empty(0, np.uint64), *self._hashes])

    def admits(self, ids: Any) -> NDArray[np.bool_]:
        """Which ids, (n,), may still be of clicks that are kept."""
        if self._highest == HIGHEST:
            return np.ones(len(ids), np.bool_)
        return hash_ids(ids, self.seed) <= self._highest

    def _lower(self, limit: int) -> None:
        everything = np.concatenate(self._hashes)
        self._highest = np.partition(everything, limit - 1)[limit - 1]
        pieces = zip(self._tables, self._hashes, strict=True)
        kept = [_at_most(table, hashes, self._highest) for table, hashes in pieces]
        self._tables, self._hashes = [table for table, _ in kept], [hashes for _, hashes in kept]

    def _thin_last(self) -> None:
        self._tables[-1], self._hashes[-1] = _at_most(
            self._tables[-1], self._hashes[-1], self._highest
        )


def thinned(table: Any, sample: Sample) -> Any:
    """The rows whose click may be in the sample."""
    admitted = sample.admits(table[CLICK_ID])
    return table if admitted.all() else table.filter(admitted)


def _at_most(table: Any, hashes: Hashes, highest: np.uint64) -> tuple[Any, Hashes]:
    kept = hashes <= highest
    return (table, hashes) if kept.all() else (table.filter(kept), hashes[kept])
