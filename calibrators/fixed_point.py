"""Fixed-point sums: integers add to the same bits in any order, split or engine."""

import numpy as np

from calibrators.samples import Floats, Integers

SCALE = 1_000_000_000
"""Units in 1.0: a value v is stored as floor(v * SCALE + 0.5) in an int64."""

LIMIT = 9.2e18
"""Largest sum: under 2**63 by more than the rounding of a float sum that watches for overflow."""

_SPARSEST = 4
"""Keys of a span up to this many times their number are summed in place, others by sorting."""


def to_fixed(values: Floats) -> Integers:
    """Each value in fixed point, rounded half up (error at most 5e-10).

    Raises ValueError when a value does not fit: |v| must stay under 9.2e9.
    """
    with np.errstate(over="ignore"):
        scaled = np.floor(values * SCALE + 0.5)
    if scaled.size and np.abs(scaled).max() >= LIMIT:
        raise ValueError(f"{values[np.abs(scaled).argmax()]}: a value in a bin must be under 9.2e9")
    return scaled.astype(np.int64)


def from_fixed(units: Integers) -> Floats:
    """The fixed-point integers as float64."""
    return units / SCALE


def group_totals(units: Integers, starts: Integers) -> Floats:
    """Sums of the entries, shape (n,), from each start to the next, shape (k,), as float64.

    Whole and fractional parts are added apart, so that no total overflows or depends on how the
    units are spread over the entries.
    """
    whole, rest = (np.add.reduceat(part, starts) for part in np.divmod(units, SCALE))
    carried, rest = np.divmod(rest, SCALE)
    totals: Floats = whole + carried + from_fixed(rest)
    return totals


def grand_total(units: Integers) -> float:
    """The sum of all entries; see `group_totals`."""
    return float(group_totals(units, np.array([0]))[0]) if units.size else 0.0


def sum_by_key(keys: Integers, columns: Integers) -> tuple[Integers, Integers]:
    """Sum the columns, shape (k, n), over equal keys, shape (n,); nothing is negative.

    Returns the distinct keys ascending, (m,), and the sums, (k, m), without the keys whose sums
    are all 0. Raises OverflowError rather than wrap around.
    """
    if keys.size == 0:
        return keys, columns
    _refuse_overflow(keys, columns)
    span = int(keys.max()) + 1
    if span <= _SPARSEST * keys.size:
        return _sum_in_place(keys, columns, span)
    return _sum_sorted(keys, columns)


def _sum_in_place(keys: Integers, columns: Integers, span: int) -> tuple[Integers, Integers]:
    sums = np.zeros((len(columns), span), np.int64)
    for total, column in zip(sums, columns, strict=True):
        np.add.at(total, keys, column)
    held = np.flatnonzero(sums.any(axis=0))
    return held, sums[:, held]


def _sum_sorted(keys: Integers, columns: Integers) -> tuple[Integers, Integers]:
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.stack([np.add.reduceat(column[order], starts) for column in columns])
    held = sums.any(axis=0)
    return ordered[starts][held], sums[:, held]


def _refuse_overflow(keys: Integers, columns: Integers) -> None:
    # The largest entry bounds every sum, so the exact check runs only where one could overflow.
    if float(columns.max()) * columns.shape[1] < LIMIT:
        return
    place = np.unique(keys, return_inverse=True)[1]
    if max(np.bincount(place, column).max() for column in columns) >= LIMIT:
        raise OverflowError("a bin holds more than 9.2e9 samples: use shorter windows")
