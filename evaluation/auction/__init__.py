"""Ad auctions of a search engine, run again: what another model or setting would earn.

`gsp.py` is the auction, `search_log.py` the log, `simulation.py` runs it again with other scores,
at any operating point, `click_curve.py` and `click_estimates.py` say what would be clicked,
`comparison.py` what follows. `search_platform.py` makes logs whose truth is known.
"""

from evaluation.auction.click_curve import ClickCurve, click_curve
from evaluation.auction.comparison import (
    AuctionComparison,
    Conclusion,
    SimulatedModel,
    compare_auctions,
)
from evaluation.auction.gsp import Auction, OperatingPoint, SlotLayout, gsp_auction
from evaluation.auction.identifiers import BadRow
from evaluation.auction.search_log import SearchLog
from evaluation.auction.search_platform import DrawnSearchLog, SearchPlatform
from evaluation.auction.simulation import (
    RelativeChange,
    Simulation,
    SweptPoint,
    relative_change,
    simulate_auction,
    sweep_operating_points,
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
