"""Streaming evaluation: metrics of logs of any length, and of their slices, in bounded memory."""

from evaluation.streaming.group_metrics import GroupMetrics
from evaluation.streaming.log import OVERALL, Groupings, RowLimits, StreamedLog
from evaluation.streaming.log_metrics import LogMetrics, log_metrics
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
