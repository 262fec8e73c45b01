"""Ad auctions of a search engine, simulated: what another model or setting would earn."""

from evaluation.auction.click_curve import ClickCurve, click_curve
from evaluation.auction.comparison import (
    AuctionComparison,
    Conclusion,
    SimulatedModel,
    compare_auctions,
)
from evaluation.auction.gsp import Auction, OperatingPoint, SlotLayout, gsp_auction
from evaluation.auction.identifiers import BadRow
from evaluation.auction.operating_points import SweptPoint, sweep_operating_points
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import DrawnSearchLog, SearchPlatform
from evaluation.auction.simulation import (
    RelativeChange,
    Simulation,
    relative_change,
    simulate_auction,
)

__all__ = [
    "Auction",
    "AuctionComparison",
    "BadRow",
    "ClickCurve",
    "Conclusion",
    "DrawnSearchLog",
    "OperatingPoint",
    "RelativeChange",
    "SearchLog",
    "SearchPlatform",
    "SimulatedModel",
    "Simulation",
    "SlotLayout",
    "SweptPoint",
    "click_curve",
    "compare_auctions",
    "gsp_auction",
    "relative_change",
    "simulate_auction",
    "sweep_operating_points",
]
