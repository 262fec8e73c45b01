"""How good probabilities are: calibration metrics, the hourly backtest, a synthetic platform."""

from evaluation.auc import auc
from evaluation.backtest import Backtest, backtest
from evaluation.behaviour_study import BehaviourStudy, behaviour_study
from evaluation.cal_n import cal_n
from evaluation.cal_n_floor import cal_n_floor
from evaluation.click_platform import ClickHour, ClickPlatform
from evaluation.click_stream import ClickStream
from evaluation.click_windows import ClickWindows
from evaluation.delayed_backtest import DelayedBacktest, delayed_backtest
from evaluation.event_table import EventTable
from evaluation.gc_n import GroupedCalN, gc_n, grouped_cal_n
from evaluation.log_loss import log_loss
from evaluation.pcoc import pcoc
from evaluation.platform import Platform, PlatformHour
from evaluation.quantile_rates import QuantileRates, quantile_rates
from evaluation.reliability import ReliabilityDiagram, reliability_diagram
from evaluation.scorecard import scorecard

__all__ = [
    "Backtest",
    "BehaviourStudy",
    "ClickHour",
    "ClickPlatform",
    "ClickStream",
    "ClickWindows",
    "DelayedBacktest",
    "EventTable",
    "GroupedCalN",
    "Platform",
    "PlatformHour",
    "QuantileRates",
    "ReliabilityDiagram",
    "auc",
    "backtest",
    "behaviour_study",
    "cal_n",
    "cal_n_floor",
    "delayed_backtest",
    "gc_n",
    "grouped_cal_n",
    "log_loss",
    "pcoc",
    "quantile_rates",
    "reliability_diagram",
    "scorecard",
]
