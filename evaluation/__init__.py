"""How good probabilities are: calibration metrics, the hourly backtest, a synthetic platform."""

from evaluation.ab_readout import AbReadout, ArmReadout, ab_readout
from evaluation.auc import auc
from evaluation.auction import (
    AuctionComparison,
    OperatingPoint,
    SearchLog,
    SearchPlatform,
    SlotLayout,
    click_curve,
    compare_auctions,
    gsp_auction,
    search_experiment,
    simulate_auction,
    sweep_operating_points,
)
from evaluation.backtest import Backtest, backtest
from evaluation.behaviour_study import BehaviourStudy, behaviour_study
from evaluation.bias_shift import bias_shift
from evaluation.blocks import Blocks
from evaluation.cal_n import cal_n
from evaluation.cal_n_floor import cal_n_floor
from evaluation.calibrated_loss import (
    CalibratedLoss,
    calibrated_log_loss,
    calibrated_losses,
    calibrated_quadratic_loss,
)
from evaluation.click_platform import ClickHour, ClickPlatform
from evaluation.click_stream import ClickStream
from evaluation.click_windows import ClickWindows
from evaluation.copc import copc
from evaluation.cs_auc import CsAuc, cs_auc, cs_auc_parts
from evaluation.cs_auc_buckets import bucketed_cs_auc
from evaluation.delayed_backtest import DelayedBacktest, delayed_backtest
from evaluation.difference import Difference
from evaluation.event_table import EventTable
from evaluation.gauc import GroupedAuc, gauc, grouped_auc
from evaluation.gc_n import GroupedCalN, gc_n, grouped_cal_n
from evaluation.gcs_auc import GroupedCsAuc, gcs_auc, grouped_cs_auc
from evaluation.log_loss import log_loss
from evaluation.mae import mae
from evaluation.metric_accuracy import MetricAccuracy, metric_accuracy
from evaluation.mse import mse
from evaluation.nmse import nmse
from evaluation.paired_bootstrap import paired_bootstrap
from evaluation.partial_auc import partial_auc
from evaluation.pcoc import pcoc
from evaluation.platform import Platform, PlatformHour
from evaluation.prediction_error import prediction_error
from evaluation.quantile_rates import QuantileRates, quantile_rates
from evaluation.rate_slices import RateSlices, rate_slices
from evaluation.reliability import ReliabilityDiagram, reliability_diagram
from evaluation.rig import rig
from evaluation.rolling_calibrated_loss import (
    RollingCalibratedLoss,
    rolling_calibrated_log_loss,
    rolling_calibrated_losses,
    rolling_calibrated_quadratic_loss,
)
from evaluation.ropr import ropr
from evaluation.sample_ratio import SampleRatio
from evaluation.score_quantiles import ScoreQuantiles, score_quantiles
from evaluation.scorecard import scorecard
from evaluation.unit_ratio import Estimate

__all__ = [
    "AbReadout",
    "ArmReadout",
    "AuctionComparison",
    "Backtest",
    "BehaviourStudy",
    "Blocks",
    "CalibratedLoss",
    "ClickHour",
    "ClickPlatform",
    "ClickStream",
    "ClickWindows",
    "CsAuc",
    "DelayedBacktest",
    "Difference",
    "Estimate",
    "EventTable",
    "GroupedAuc",
    "GroupedCalN",
    "GroupedCsAuc",
    "MetricAccuracy",
    "OperatingPoint",
    "Platform",
    "PlatformHour",
    "QuantileRates",
    "RateSlices",
    "ReliabilityDiagram",
    "RollingCalibratedLoss",
    "SampleRatio",
    "ScoreQuantiles",
    "SearchLog",
    "SearchPlatform",
    "SlotLayout",
    "ab_readout",
    "auc",
    "backtest",
    "behaviour_study",
    "bias_shift",
    "bucketed_cs_auc",
    "cal_n",
    "cal_n_floor",
    "calibrated_log_loss",
    "calibrated_losses",
    "calibrated_quadratic_loss",
    "click_curve",
    "compare_auctions",
    "copc",
    "cs_auc",
    "cs_auc_parts",
    "delayed_backtest",
    "gauc",
    "gc_n",
    "gcs_auc",
    "grouped_auc",
    "grouped_cal_n",
    "grouped_cs_auc",
    "gsp_auction",
    "log_loss",
    "mae",
    "metric_accuracy",
    "mse",
    "nmse",
    "paired_bootstrap",
    "partial_auc",
    "pcoc",
    "prediction_error",
    "quantile_rates",
    "rate_slices",
    "reliability_diagram",
    "rig",
    "rolling_calibrated_log_loss",
    "rolling_calibrated_losses",
    "rolling_calibrated_quadratic_loss",
    "ropr",
    "score_quantiles",
    "scorecard",
    "search_experiment",
    "simulate_auction",
    "sweep_operating_points",
]
