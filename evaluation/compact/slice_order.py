"""Sorting by slice rows that are sorted by score already."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers

SliceCodes = NDArray[np.integer[Any]]
LEFT_OUT = -1
"""The slice of a row that belongs to none."""


def slice_order(slices: SliceCodes) -> tuple[Integers | slice, SliceCodes]:
    """The rows by slice, those of one slice as they stand, (k,), and the slices of these, (k,).

    Rows whose slice is -1 are left out. All rows that are sorted already are not copied. There
    are fewer than 2 ** 31 rows.

    Examples
    --------
    >>> rows, slices = slice_order(np.array([2, 0, -1, 2, 0], np.int32))
    >>> rows.tolist(), slices.tolist()
    ([1, 4, 0, 3], [0, 0, 2, 2])
    """
    if (slices[1:] >= slices[:-1]).all() and not (len(slices) and slices[0] == LEFT_OUT):
        return slice(None), slices
    # Slice and row in one number: sorting such numbers is ten times cheaper than an argsort.
    packed = slices.astype(np.int64)
    packed <<= 32
    packed |= np.arange(len(slices), dtype=np.int64)
    packed.sort()
    packed = packed[np.searchsorted(packed, 0) :]
    ordered = (packed >> 32).astype(slices.dtype)
    packed &= (1 << 32) - 1
    return packed, ordered


def opens_slice(slices: SliceCodes) -> NDArray[np.bool_]:
    """Which row is of another slice than the one before it, (n - 1,)."""
    opens: NDArray[np.bool_] = slices[1:] != slices[:-1]
    return opens


def sorting(slices: SliceCodes, scores: Floats | Integers) -> Integers:
    """The order by slice and score, (n,), of rows in any order that all belong to a slice."""
    by_score = np.argsort(scores)
    return by_score[slice_order(slices[by_score])[0]]


def merging(slices: SliceCodes, cells: Integers) -> Integers:
    """The order by slice and cell, (n,), of rows that are two sorted parts, one after the other."""
    lowest = cells.min(initial=0)
    digits = int(cells.max(initial=0) - lowest).bit_length()
    if digits + int(slices.max(initial=0)).bit_length() > 63:
        return sorting(slices, cells)
    # A stable sort finds the two parts in order and merges them, which is cheaper than sorting.
    return np.argsort((slices.astype(np.int64) << digits) | (cells - lowest), kind="stable")


def slice_totals(slices: SliceCodes, values: Floats, n_slices: int) -> Floats:
    """Sum of the values, (n,), of each slice, (n_slices,)."""
    return np.bincount(slices, values, n_slices).astype(np.float64, copy=False)
