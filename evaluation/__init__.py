"""How good probabilities are: metrics, tests on logs, and simulations. No clock, no files.

`metrics/` has every metric, `fields/` those by field and segment, `bootstrap/` their intervals,
`comparison/` two models, `streaming/` logs of any length. `backtest/` replays methods hour by hour,
`ab_test/` analyses experiments, `auction/` runs logged auctions again, `simulation/` makes traffic
whose truth is known.

Everything here raises ValueError, which names value and rule, when a value breaks its rule or
columns differ in length; docstrings say what is raised besides.
"""

from evaluation.ab_test.analysis import AbAnalysis, ArmAnalysis, Estimate, SampleRatio, ab_analysis
from evaluation.auction.click_curve import click_curve
from evaluation.auction.comparison import AuctionComparison, compare_auctions
from evaluation.auction.gsp import OperatingPoint, SlotLayout, gsp_auction
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import SearchPlatform
from evaluation.auction.simulation import simulate_auction, sweep_operating_points
from evaluation.backtest.backtest import Backtest, backtest
from evaluation.backtest.click_history import ClickStream, ClickWindows
from evaluation.backtest.delayed import DelayedBacktest, delayed_backtest
from evaluation.backtest.event_table import EventTable
from evaluation.bootstrap.blocks import Blocks
from evaluation.bootstrap.paired import Difference, paired_bootstrap
from evaluation.comparison.behaviour_study import (
    BehaviourStudy,
    QuantileRates,
    behaviour_study,
    quantile_rates,
)
from evaluation.comparison.metric_accuracy import MetricAccuracy, metric_accuracy
from evaluation.fields.field_errors import FieldErrors, field_ece, field_errors, field_rce, mf_rce
from evaluation.fields.multicalibration import Multicalibration, SegmentSums, multicalibration
from evaluation.fields.segments import SegmentLimits
from evaluation.metrics.auc import GroupedAuc, auc, gauc, grouped_auc, partial_auc
from evaluation.metrics.cal_n import cal_n, cal_n_floor
from evaluation.metrics.calibrated_loss import (
    CalibratedLoss,
    RollingCalibratedLoss,
    calibrated_log_loss,
    calibrated_losses,
    calibrated_quadratic_loss,
    rolling_calibrated_losses,
)
from evaluation.metrics.calibration import (
    bias_shift,
    copc,
    log_loss,
    mae,
    mse,
    nmse,
    pcoc,
    prediction_error,
    rig,
    ropr,
    scorecard,
)
from evaluation.metrics.cs_auc import (
    CsAuc,
    GroupedCsAuc,
    bucketed_cs_auc,
    cs_auc,
    cs_auc_parts,
    gcs_auc,
    grouped_cs_auc,
)
from evaluation.metrics.gc_n import GroupedCalN, gc_n, grouped_cal_n
from evaluation.metrics.reliability import (
    ReliabilityDiagram,
    ScoreQuantiles,
    reliability_diagram,
    score_quantiles,
)
from evaluation.simulation.ad_platform import Platform, PlatformHour
from evaluation.simulation.click_platform import ClickHour, ClickPlatform

__all__ = [
    "AbAnalysis",
    "ArmAnalysis",
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
    "FieldErrors",
    "GroupedAuc",
    "GroupedCalN",
    "GroupedCsAuc",
    "MetricAccuracy",
    "Multicalibration",
    "OperatingPoint",
    "Platform",
    "PlatformHour",
    "QuantileRates",
    "ReliabilityDiagram",
    "RollingCalibratedLoss",
    "SampleRatio",
    "ScoreQuantiles",
    "SearchLog",
    "SearchPlatform",
    "SegmentLimits",
    "SegmentSums",
    "SlotLayout",
    "ab_analysis",
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
    "field_ece",
    "field_errors",
    "field_rce",
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
    "mf_rce",
    "mse",
    "multicalibration",
    "nmse",
    "paired_bootstrap",
    "partial_auc",
    "pcoc",
    "prediction_error",
    "quantile_rates",
    "reliability_diagram",
    "rig",
    "rolling_calibrated_losses",
    "ropr",
    "score_quantiles",
    "scorecard",
    "simulate_auction",
    "sweep_operating_points",
]
