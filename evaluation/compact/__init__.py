"""Logs of any length, boiled down to what the metrics of their slices need."""

from evaluation.compact.compact_log import CompactLog, Room
from evaluation.compact.cut_metrics import CutMetrics
from evaluation.compact.log_batch import LogBatch
from evaluation.compact.log_cuts import OVERALL, LogCuts
from evaluation.compact.log_metrics import LogMetrics, log_metrics

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
