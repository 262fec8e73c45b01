"""Fixed-point sums: integers add to the same bits in any order, split or engine."""

from collections.abc import Sequence

import numpy as np

from calibrators.samples import Floats, Integers

Part = tuple[Integers, Integers]
"""Keys, shape (n,), and the columns to sum over them, shape (k, n)."""

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
    return sum_parts([(keys, columns)])


def sum_parts(parts: Sequence[Part]) -> tuple[Integers, Integers]:
    """`sum_by_key` of one or more parts' keys and columns, without putting them end to end first
    where that can be spared."""
    size = sum(keys.size for keys, _ in parts)
    if size == 0:
        return parts[0]
    _refuse_overflow(parts)
    span = 1 + max(int(keys.max(initial=0)) for keys, _ in parts)
    return _sum_in_place(parts, span) if span <= _SPARSEST * size else _sum_sorted(parts)


def _sum_in_place(parts: Sequence[Part], span: int) -> tuple[Integers, Integers]:
    sums = np.zeros((len(parts[0][1]), span), np.int64)
    for keys, columns in parts:
        for total, column in zip(sums, columns, strict=True):
            np.add.at(total, keys, column)
    held = np.flatnonzero(sums.any(axis=0))
    return held, sums[:, held]


def _sum_sorted(parts: Sequence[Part]) -> tuple[Integers, Integers]:
    keys, columns = _end_to_end(parts)
    # Integers add to the same in any order; a stable sort takes several times as long.
    order = np.argsort(keys)
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sums = np.empty((len(columns), len(starts)), np.int64)
    for total, column in zip(sums, columns, strict=True):
        np.add.reduceat(column[order], starts, out=total)
    held = np.bitwise_or.reduce(sums) != 0
    keys = ordered[starts]
    return (keys, sums) if held.all() else (keys[held], sums[:, held])


def _end_to_end(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([keys for keys, _ in parts]), np.hstack([sums for _, sums in parts])


def _refuse_overflow(parts: Sequence[Part]) -> None:
    # The largest entries bound every sum, so the exact check runs only where one could overflow.
    if sum(float(sums.max(initial=0)) * sums.shape[1] for _, sums in parts) < LIMIT:
        return
    keys, columns = _end_to_end(parts)
    # Keys of a short span are places already.
    short = keys.max() <= _SPARSEST * keys.size
    place = keys if short else np.unique(keys, return_inverse=True)[1]
    if max(np.bincount(place, column).max() for column in columns) >= LIMIT:
        raise OverflowError("a bin holds more than 9.2e9 samples: use shorter windows")
