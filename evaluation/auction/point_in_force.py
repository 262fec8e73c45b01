"""The operating point at which a log was made, as far as the log tells."""

import numpy as np

from evaluation.auction.ad_load import point_at_load
from evaluation.auction.gsp import Auction
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.ranking import Ranking
from evaluation.auction.search_log import SearchLog


def point_in_force(
    log: SearchLog,
    ranking: Ranking,
    *,
    reserve: float | None = None,
    mainline_reserve: float | None = None,
) -> OperatingPoint:
    """The point at which the model in force, ranked, shows as many ads as the log has.

    What is given stays. A mainline reserve that is not given is matched to the mainline ads per
    page of the log; the reserve, when neither is given, to all ads per page.
    """
    if mainline_reserve is not None:
        return OperatingPoint(ranking.alpha, reserve or 0.0, mainline_reserve)
    return point_at_load(
        ranking,
        log.layout,
        log.mainline_ads_per_page,
        ads_per_page=log.ads_per_page if reserve is None else None,
        reserve=reserve or 0.0,
    )


def placement_agreement(log: SearchLog, auction: Auction) -> float:
    """Share of the logged impressions that an auction shows in the same slot; nan without any.

    Of the model in force it should be near 1. If it is not, the log was made by other scores, bids
    or settings than those given, or by rules that this auction does not know.
    """
    if not len(log.shown):
        return float("nan")
    again = np.count_nonzero(log.positions[auction.rows] == auction.slots)
    return float(again / len(log.shown))
