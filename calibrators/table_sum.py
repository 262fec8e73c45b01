"""The sum of many tables of bins, a few campaigns at a time and without unpacking the tables."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from calibrators.grid import GRID
from calibrators.packed_table import Columns, PackedTable
from calibrators.samples import Integers

_ROWS = 64
"""Campaigns in hand at once: their sums stay in the processor's cache."""


def sum_packed(
    tables: Sequence[PackedTable], rows: Sequence[Integers], campaigns: range
) -> Columns:
    """The sum over these rows of tables whose campaigns have these new rows, ascending.

    Cells whose sums are all 0 are left out. No sum may overflow: the caller looks.
    """
    edges = [*range(campaigns.start, campaigns.stop, _ROWS), campaigns.stop]
    bounds = [np.searchsorted(row, edges).tolist() for row in rows]
    sums = np.zeros((3, min(_ROWS, len(campaigns)) * GRID.size), np.int64)
    # As long as the result can be; what is not written to takes no memory.
    spans = [table.offsets[[b[0], b[-1]]] for table, b in zip(tables, bounds, strict=True)]
    longest = min(len(campaigns) * GRID.size, sum(int(end - start) for start, end in spans))
    columns = np.empty((4, longest), np.int64)
    offsets = [np.zeros(1, np.int64)]
    for block, first in enumerate(edges[:-1]):
        for table, row, bound in zip(tables, rows, bounds, strict=True):
            _add(sums, table, row - first, slice(bound[block], bound[block + 1]))
        starts = _take(sums, columns[:, offsets[-1][-1] :], edges[block + 1] - first)
        offsets.append(offsets[-1][-1] + starts)
        sums.fill(0)
    ends = np.fromiter(chain.from_iterable(offsets), np.int64, len(campaigns) + 1)
    return ends, columns[0, : ends[-1]], columns[1:, : ends[-1]]


def _add(sums: Integers, table: PackedTable, rows: Integers, chosen: slice) -> None:
    span = slice(table.offsets[chosen.start], table.offsets[chosen.stop])
    places = table.places(rows, chosen)
    for total, column in zip(sums, table.sums, strict=True):
        np.add.at(total, places, column.values(span))


def _take(sums: Integers, into: Integers, campaigns: int) -> Integers:
    """Move what the sums hold into the columns; returns where each campaign's cells end."""
    held = np.flatnonzero(np.bitwise_or.reduce(sums) != 0)
    firsts = np.arange(campaigns + 1) * GRID.size
    bounds = np.searchsorted(held, firsts)
    end = len(held)
    np.subtract(held, np.repeat(firsts[:-1], np.diff(bounds)), out=into[0, :end])
    for total, column in zip(sums, into[1:], strict=True):
        # Clipping spares a copy, and nothing is out of bounds.
        total.take(held, out=column[:end], mode="clip")
    return bounds[1:]
