"""Whether maps that had to be moved make a difference where there is traffic."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrators.guard.newest_hour import NewestHour
from calibrators.map_blocks import MapBlocks
from calibrators.map_columns import MapColumns
from calibrators.samples import Floats, Integers

LEAST = 0.01
"""Less than this share of the hour's expected positives moved is not felt."""


def felt_by(
    hour: NewestHour, campaigns: Sequence[str], chosen: MapColumns, moved: MapColumns
) -> set[str]:
    """Those of the campaigns, (k,), whose scores of the hour have other probabilities by the map
    that was moved, (k,), than by the one that was chosen, (k,)."""
    if not campaigns:
        return set()
    row_of = {name: row for row, name in enumerate(campaigns)}
    before, after = (MapBlocks(each.lengths, each.knots, each.values) for each in (chosen, moved))
    found: set[str] = set()
    for table, evidence in zip(hour.tables, hour.evidence, strict=True):
        of_table = [row_of.get(name, -1) for name in table.campaigns]
        rows = np.array(of_table, np.int64)[evidence.rows]
        ours = rows >= 0
        rows, scores, weights = rows[ours], evidence.scores[ours], evidence.weights[ours]
        was, now = before.look_up(rows, scores), after.look_up(rows, scores)
        changed = felt(was, now, weights, rows, len(campaigns))
        found.update(campaigns[row] for row in np.flatnonzero(changed).tolist())
    return found


def felt(
    before: Floats, after: Floats, weights: Floats, rows: Integers, campaigns: int
) -> NDArray[np.bool_]:
    """Of which campaigns, (c,), the probabilities of the cells, (m,), have changed that much."""
    moved = np.bincount(rows, weights * np.abs(after - before), campaigns)
    expected = np.bincount(rows, weights * before, campaigns)
    changed: NDArray[np.bool_] = moved > LEAST * expected
    return changed
