"""What a streamed log is reduced to: per slice, cells of scores and exact sums.

A cell takes the samples of one slice and score together, or of scores that differ in their last
binary digits only, so that any log fits into a bounded number of cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers, sum_at
from evaluation.metrics.calibration import sample_losses
from evaluation.metrics.predictions import GroupSums

SliceCodes = NDArray[np.integer[Any]]
LEFT_OUT = -1
"""The slice of a row that belongs to none."""


def slice_order(slices: SliceCodes) -> tuple[Integers | slice, SliceCodes]:
    """The rows by slice, those of one slice as they stand, (k,), and the slices of these, (k,).

    Rows whose slice is -1 are left out. All rows that are sorted already are not copied. There
    are fewer than 2 ** 31 rows.

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


MANTISSA_BITS = 52
ALL_BITS = 63
_LARGEST = np.asarray(np.finfo(np.float64).max).view(np.int64)


def score_cells(scores: Floats, dropped: int) -> Integers:
    """The cell of each score, (n,): its binary digits without the last `dropped`, at most 63.

    The scores are finite and at least 0 (and not -0.0); cells ascend with them. An octave, from x
    to 2 x, has 2 ** (52 - dropped) cells.

    >>> score_cells(np.array([0.5, 0.5000001, 0.75, 1.0]), 51).tolist()
    [2044, 2044, 2045, 2046]
    """
    bits = scores.view(np.int64)
    return bits >> dropped if dropped else bits


def inside_cells(scores: Floats, cells: Integers, dropped: int) -> Floats:
    """The scores, (n,), moved into their cells where the rounding of a mean left them outside."""
    lowest = cells << dropped
    highest = np.minimum(lowest | ((1 << dropped) - 1), _LARGEST)
    return np.clip(scores, lowest.view(np.float64), highest.view(np.float64))


def least_dropped(
    scores: Floats, opens_slice: NDArray[np.bool_], budget: int, dropped: int = 0
) -> int:
    """The fewest digits, at least `dropped`, that leave at most `budget` cells.

    The scores, (n,), are sorted by slice and score; `opens_slice`, (n - 1,), says which row is of
    another slice than the one before it. Without any digits each slice is one cell, so more than
    `budget` slices leave more cells than that.
    """
    bits = scores.view(np.int64)
    apart = bits[1:] ^ bits[:-1]
    apart[opens_slice] = np.iinfo(np.int64).max
    low, high = dropped, ALL_BITS
    while low < high:
        middle = (low + high) // 2
        if 1 + np.count_nonzero(apart >= 1 << middle) <= budget:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """Samples sorted by slice and score, of shape (r,) each.

    Every metric of this package takes weighted rows with fractional outcomes, so these rows stand
    for the samples without loss as long as no digit of a score is dropped. With `dropped` digits,
    samples whose scores share a cell stand together at their mean score.

    slices : code of the slice of each row, at least 0.
    scores : finite, at least 0.
    positives : sum of the outcomes of each row.
    weights : number of samples of each row, or their weight.
    dropped : binary digits of the scores that no longer tell rows apart; 0 is exact.
    """

    slices: SliceCodes
    scores: Floats
    positives: Floats
    weights: Floats
    dropped: int = 0

    @classmethod
    def of_sorted(
        cls,
        slices: SliceCodes,
        scores: Floats,
        positives: Floats,
        weights: Floats,
        dropped: int = 0,
    ) -> Self:
        """The rows of samples, (n,) each, that are sorted by slice and score."""
        cells = score_cells(scores, dropped)
        opens = (cells[1:] != cells[:-1]) | opens_slice(slices)
        if opens.all():
            return cls(slices, scores, positives, weights, dropped)
        starts = np.flatnonzero(np.concatenate((np.ones(1, bool), opens)))
        total = np.add.reduceat(weights, starts)
        means = np.add.reduceat(scores * weights, starts)
        means /= total
        return cls(
            slices[starts],
            inside_cells(means, cells[starts], dropped),
            np.add.reduceat(positives, starts),
            total,
            dropped,
        )

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def cells_per_octave(self) -> float | None:
        """Cells from a score to its double; None while rows are exact."""
        return 2.0 ** (MANTISSA_BITS - self.dropped) if self.dropped else None

    @property
    def outcomes(self) -> Floats:
        """Mean outcome of each row, (r,)."""
        return np.minimum(self.positives / self.weights, 1.0)

    def within(self, budget: int) -> "CellRows":
        """These rows, with as few more digits dropped as leave at most `budget` of them.

        The result does not depend on what was merged when: dropping digits first from parts of
        the samples leads to the same cells.
        """
        if len(self) <= budget:
            return self
        digits = least_dropped(self.scores, opens_slice(self.slices), budget, self.dropped)
        return self.coarser(digits)

    def coarser(self, dropped: int) -> "CellRows":
        """These rows with at least so many digits dropped."""
        if dropped <= self.dropped:
            return self
        return CellRows.of_sorted(self.slices, self.scores, self.positives, self.weights, dropped)

    def merged(self, other: "CellRows") -> "CellRows":
        """The rows of both, with the more digits dropped of either."""
        dropped = max(self.dropped, other.dropped)
        ours, theirs = self.coarser(dropped), other.coarser(dropped)
        slices = np.concatenate((ours.slices, theirs.slices))
        scores = np.concatenate((ours.scores, theirs.scores))
        order = merging(slices, score_cells(scores, dropped))
        return CellRows.of_sorted(
            slices[order],
            scores[order],
            np.concatenate((ours.positives, theirs.positives))[order],
            np.concatenate((ours.weights, theirs.weights))[order],
            dropped,
        )

    def auc_errors(self, n_slices: int) -> Floats:
        """By how much the AUC of each slice may be wrong at most, (n_slices,).

        Half the share of its positive-negative pairs that share a cell; 0 while rows are exact.
        """
        errors = np.zeros(n_slices)
        if self.dropped:
            negatives = self.weights - self.positives
            tied = sum_at(self.slices, self.positives * negatives, n_slices)
            pairs = sum_at(self.slices, self.positives, n_slices)
            pairs *= sum_at(self.slices, negatives, n_slices)
            np.divide(tied, 2.0 * pairs, out=errors, where=pairs > 0.0)
        return errors


@dataclass(frozen=True, slots=True, eq=False)
class LogBatch:
    """Rows of a log; columns of shape (n,).

    scores, outcomes : in [0, 1]; the caller has checked them.
    bids : finite and at least 0, or None where the log has none.
    slices : for each grouping, the code of the slice that a row belongs to, or -1 for none; None
        where all rows are slice 0.
    weights : above 0, as how many samples each row counts; None where each is one.
    fields : for each field, the number of the row's value.
    """

    scores: Floats
    outcomes: Floats
    bids: Floats | None
    slices: Mapping[str, SliceCodes | None]
    weights: Floats | None = None
    fields: Mapping[str, SliceCodes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def classes(self) -> NDArray[np.bool_] | None:
        """The outcomes as truth values, or None unless each is 0 or 1."""
        positive: NDArray[np.bool_] = self.outcomes == 1.0
        return positive if (positive | (self.outcomes == 0.0)).all() else None


@dataclass(frozen=True, slots=True, eq=False)
class Sums(GroupSums):
    """Sums over the samples of each slice, (slices,) each.

    A fractional outcome y is y of a click and 1 - y of none, in `squares` too.

    distances : of absolute errors.
    bids, revenue, expected_revenue : of bids, of outcome times bid and of probability times bid.
    """

    distances: Floats
    bids: Floats
    revenue: Floats
    expected_revenue: Floats


_COLUMNS: Final = len(fields(Sums))


class SliceSums:
    """Running sums of one grouping of a log."""

    def __init__(self) -> None:
        self._sums = np.zeros((_COLUMNS, 0))

    def add(self, rows: Floats, slices: SliceCodes | None) -> None:
        """Add the rows' terms, (9, n), to the slices they belong to, None being slice 0."""
        if slices is None:
            self._make_room(1)
            self._sums[:, 0] += rows.sum(axis=1)
            return
        held = slices != LEFT_OUT
        if not held.all():
            rows, slices = rows[:, held], slices[held]
        self._make_room(int(slices.max(initial=-1)) + 1)
        size = self._sums.shape[1]
        for total, terms in zip(self._sums, rows, strict=True):
            total += np.bincount(slices, terms, size)

    def of(self, n_slices: int) -> Sums:
        """The sums of the first slices; 0 for those without a sample."""
        self._make_room(n_slices)
        return Sums(*self._sums[:, :n_slices])

    def _make_room(self, size: int) -> None:
        if size > self._sums.shape[1]:
            # Twice what is needed, so that growing slice by slice copies little.
            room = np.zeros((len(self._sums), 2 * size))
            room[:, : self._sums.shape[1]] = self._sums
            self._sums = room


def terms(batch: LogBatch) -> Floats:
    """What each row adds to the sums, (9, n), in the order of `Sums`."""
    p, y = batch.scores, batch.outcomes
    rows = np.empty((_COLUMNS, len(p)))
    sums = Sums(*rows)
    sums.weights[:] = 1.0
    sums.positives[:] = y
    sums.expected[:] = p
    sums.log_losses[:] = sample_losses(p, y, sums.weights)
    missed, wrong = y * (1.0 - p), (1.0 - y) * p
    sums.squares[:] = missed * (1.0 - p) + wrong * p
    sums.distances[:] = missed + wrong
    sums.bids[:] = 0.0 if batch.bids is None else batch.bids
    sums.revenue[:] = sums.bids * y
    sums.expected_revenue[:] = sums.bids * p
    if batch.weights is not None:
        rows *= batch.weights
    return rows
