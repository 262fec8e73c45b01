"""Logs of any length, boiled down to what the metrics of their slices need."""

from evaluation.streaming.group_metrics import CutMetrics
from evaluation.streaming.log import OVERALL, CompactLog, LogCuts, Room
from evaluation.streaming.log_metrics import LogMetrics, log_metrics
from evaluation.streaming.rows import LogBatch

__all__ = [
    "OVERALL",
    "CompactLog",
    "CutMetrics",
    "LogBatch",
    "LogCuts",
    "LogMetrics",
    "Room",
    "log_metrics",
]
