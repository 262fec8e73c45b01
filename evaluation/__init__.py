"""How good probabilities are: calibration metrics, the hourly backtest, a synthetic platform."""

from evaluation.auc import auc
from evaluation.backtest import Backtest, backtest
from evaluation.cal_n import cal_n
from evaluation.cal_n_floor import cal_n_floor
from evaluation.event_table import EventTable
from evaluation.gc_n import GroupedCalN, gc_n, grouped_cal_n
from evaluation.log_loss import log_loss
from evaluation.pcoc import pcoc
from evaluation.platform import Platform, PlatformHour
from evaluation.reliability import ReliabilityDiagram, reliability_diagram
from evaluation.scorecard import scorecard

__all__ = [
    "Backtest",
    "EventTable",
    "GroupedCalN",
    "Platform",
    "PlatformHour",
    "ReliabilityDiagram",
    "auc",
    "backtest",
    "cal_n",
    "cal_n_floor",
    "gc_n",
    "grouped_cal_n",
    "log_loss",
    "pcoc",
    "reliability_diagram",
    "scorecard",
]
