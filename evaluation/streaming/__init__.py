"""Streaming evaluation: every metric of a log of any length, in bounded memory.

`log.py` takes the batches of `rows.py`, keeps them as they are (`in_memory.py`) or added up, and
`log_metrics.py` measures all of it and each group.
"""

from evaluation.streaming.log import OVERALL, Groupings, RowLimits, StreamedLog
from evaluation.streaming.log_metrics import GroupMetrics, LogMetrics, log_metrics
from evaluation.streaming.rows import LogBatch

__all__ = [
    "OVERALL",
    "GroupMetrics",
    "Groupings",
    "LogBatch",
    "LogMetrics",
    "RowLimits",
    "StreamedLog",
    "log_metrics",
]
