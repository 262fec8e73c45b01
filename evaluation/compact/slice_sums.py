"""Sums over the samples of every slice: what needs no order of the scores, exactly."""

from typing import NamedTuple

import numpy as np

from calibrators.samples import Floats
from evaluation.compact.log_batch import LogBatch
from evaluation.compact.slice_order import LEFT_OUT, SliceCodes
from evaluation.sample_losses import sample_losses


class Sums(NamedTuple):
    """Sums over samples, (slices,) each; a fractional outcome y is y of a click, 1 - y of none."""

    weight: Floats
    positives: Floats
    expected: Floats
    log_losses: Floats
    squares: Floats
    distances: Floats
    bids: Floats
    revenue: Floats
    expected_revenue: Floats


class SliceSums:
    """Running sums of one cut of a log."""

    def __init__(self) -> None:
        self._sums = np.zeros((len(Sums._fields), 0))

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
    rows = np.empty((len(Sums._fields), len(p)))
    sums = Sums(*rows)
    sums.weight[:] = 1.0
    sums.positives[:] = y
    sums.expected[:] = p
    sums.log_losses[:] = sample_losses(p, y, sums.weight)
    missed, wrong = y * (1.0 - p), (1.0 - y) * p
    sums.squares[:] = missed * (1.0 - p) + wrong * p
    sums.distances[:] = missed + wrong
    sums.bids[:] = 0.0 if batch.bids is None else batch.bids
    sums.revenue[:] = sums.bids * y
    sums.expected_revenue[:] = sums.bids * p
    return rows
