"""Ad auctions of a search engine, simulated: what another model or setting would earn."""

from evaluation.auction.click_curve import ClickCurve, click_curve
from evaluation.auction.comparison import AuctionComparison, JudgedModel, compare_auctions
from evaluation.auction.conclusion import Conclusion
from evaluation.auction.gsp import Auction, gsp_auction
from evaluation.auction.identifiers import BadRow
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.operating_sweep import SweptPoint, sweep_operating_points
from evaluation.auction.relative_change import RelativeChange, relative_change
from evaluation.auction.search_experiment import (
    ExperimentRow,
    SearchExperiment,
    search_experiment,
)
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import DrawnSearchLog, SearchPlatform
from evaluation.auction.simulation import Simulation, simulate_auction
from evaluation.auction.slot_layout import SlotLayout

__all__ = [
    "Auction",
    "AuctionComparison",
    "BadRow",
    "ClickCurve",
    "Conclusion",
    "DrawnSearchLog",
    "ExperimentRow",
    "JudgedModel",
    "OperatingPoint",
    "RelativeChange",
    "SearchExperiment",
    "SearchLog",
    "SearchPlatform",
    "Simulation",
    "SlotLayout",
    "SweptPoint",
    "click_curve",
    "compare_auctions",
    "gsp_auction",
    "relative_change",
    "search_experiment",
    "simulate_auction",
    "sweep_operating_points",
]
