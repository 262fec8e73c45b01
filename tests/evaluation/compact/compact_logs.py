"""Small logs, their batches, and the metrics of their slices one by one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.streaming.log import OVERALL, Groupings, RowLimits, StreamedLog
from evaluation.streaming.log_metrics import LogMetrics, log_metrics
from evaluation.streaming.rows import LogBatch

Floats = NDArray[np.float64]
CUT = "campaign"


@dataclass(frozen=True)
class Log:
    """Columns of n rows; `slices` are -1 where a row is in none."""

    p: Floats
    y: Floats
    bids: Floats
    slices: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.p)

    def shuffled(self, rng: np.random.Generator) -> "Log":
        order = rng.permutation(len(self))
        return Log(self.p[order], self.y[order], self.bids[order], self.slices[order])

    def batches(self, size: int) -> Iterator[LogBatch]:
        for first in range(0, len(self), size):
            rows = slice(first, first + size)
            slices = {OVERALL: None, CUT: self.slices[rows]}
            yield LogBatch(self.p[rows], self.y[rows], self.bids[rows], slices)


def drawn(
    n: int = 3_000,
    slices: int = 7,
    *,
    seed: int = 0,
    levels: int | None = None,
    rate: float = 0.2,
    bid_levels: int = 9,
) -> Log:
    """A log with unequal slices; with `levels`, scores have so many values."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(np.log(rate / (1 - rate)), 1.0, n)
    p = 1.0 / (1.0 + np.exp(-odds))
    y = (rng.random(n) < p).astype(float)
    if levels is not None:
        p = np.ceil(p * levels) / levels
    bids = 1.0 + rng.integers(0, bid_levels, n) / 4.0
    return Log(p, y, bids, (slices * rng.random(n) ** 2).astype(np.int32))


def compact(log: Log, room: RowLimits | None = None, batch: int = 500) -> StreamedLog:
    found = StreamedLog((OVERALL, CUT), (OVERALL, CUT), room)
    for part in log.batches(batch):
        found.add(part)
    return found


def measured(
    log: Log, room: RowLimits | None = None, batch: int = 500, workers: int = 1
) -> LogMetrics:
    sizes = {OVERALL: 1, CUT: int(log.slices.max()) + 1}
    return log_metrics(compact(log, room, batch), Groupings(sizes, CUT, CUT), workers=workers)
