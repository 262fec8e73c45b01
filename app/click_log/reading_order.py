"""The order in which rows are read, and which of several rows of one click counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.columns import (
    CAMPAIGN,
    CATEGORY,
    CLICK_ID,
    CLICKED_AT,
    OCCURRED_AT,
    TARGET,
    TEXT,
)
from app.click_log.id_hashes import Hashes, hash_ids


@dataclass(frozen=True, slots=True, eq=False)
class DistinctClicks:
    """Rows of different clicks by (clicked_at, click_id), the hash of each, and what was left out.

    `repeats` are rows that say again what another says, `conflicts` rows whose click id belongs
    to another campaign.
    """

    table: Any
    hashes: Hashes
    repeats: int
    conflicts: int


def distinct_clicks(table: Any, seed: int = 0) -> DistinctClicks:
    """The first row of each click: the earliest; of equally early ones that in the first part."""
    table = in_order(table, CLICKED_AT, CLICK_ID)
    return first_rows(table, hash_ids(table[CLICK_ID], seed))


def first_rows(table: Any, hashes: Hashes) -> DistinctClicks:
    """The first row of each click of a table in reading order, given the hashes of its ids."""
    suspects = _suspects(hashes)
    if not len(suspects):
        return DistinctClicks(table, hashes, 0, 0)
    repeats, conflicts = _further(table, suspects)
    kept = np.delete(np.arange(len(table)), repeats + conflicts)
    return DistinctClicks(table.take(kept), hashes[kept], len(repeats), len(conflicts))


def distinct_conversions(table: Any) -> Any:
    """Conversions by (occurred_at, click_id, target), each once."""
    keys = [OCCURRED_AT, CLICK_ID, TARGET]
    table = in_order(table, *keys)
    columns = [table[key] for key in keys]
    same = np.ones(max(0, len(table) - 1), np.bool_)
    for column in columns:
        same &= np.asarray(pc.equal(column[1:], column[:-1]))
    return table.take(np.flatnonzero(np.concatenate([np.ones(len(table) - len(same)), ~same])))


def in_order(table: Any, *keys: str) -> Any:
    """The rows by these columns, ascending; equal ones stay as they stand."""
    if _is_ordered(table, keys):
        return table
    columns = pa.table({key: _sortable(table[key]) for key in keys})
    return table.take(pc.sort_indices(columns, sort_keys=[(key, "ascending") for key in keys]))


def _is_ordered(table: Any, keys: tuple[str, ...]) -> bool:
    """Compares ids only where times are equal: that saves most of a sort."""
    times = table[keys[0]].to_numpy()
    if (times[1:] < times[:-1]).any():
        return False
    ties = np.flatnonzero(times[1:] == times[:-1])
    if not len(ties):
        return True
    ids = table[keys[1]]
    return bool(pc.all(pc.less(ids.take(ties), ids.take(ties + 1))).as_py())


def _sortable(column: Any) -> Any:
    return column.cast(TEXT) if column.type == CATEGORY else column


def _suspects(hashes: Hashes) -> NDArray[np.intp]:
    """Rows whose hash stands more than once: all that may be of one click."""
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(hashes, twice)) if len(twice) else np.empty(0, np.intp)


def _further(table: Any, suspects: NDArray[np.intp]) -> tuple[list[int], list[int]]:
    """Of the suspects, the rows of a click that stands before: of its campaign, of another."""
    rows = table.select([CLICK_ID, CAMPAIGN]).take(suspects)
    ids, campaigns = (column.to_pylist() for column in rows.columns)
    first: dict[str, str] = {}
    repeats, conflicts = [], []
    for row, click_id, campaign in zip(suspects.tolist(), ids, campaigns, strict=True):
        if click_id not in first:
            first[click_id] = campaign
        elif first[click_id] == campaign:
            repeats.append(row)
        else:
            conflicts.append(row)
    return repeats, conflicts
