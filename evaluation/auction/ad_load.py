"""Reserves that give a ranking the ads per page of another."""

import numpy as np

from calibrators.samples import Floats
from evaluation.auction.operating_point import OperatingPoint
from evaluation.auction.ranking import Ranking
from evaluation.auction.slot_layout import SlotLayout


def point_at_load(
    ranking: Ranking,
    layout: SlotLayout,
    mainline_ads_per_page: float,
    *,
    ads_per_page: float | None = None,
    reserve: float = 0.0,
) -> OperatingPoint:
    """The operating point at which ranked ads fill the mainline as often as wanted.

    The mainline of a page holds those of its first ads that reach the mainline reserve, so the
    reserve is the quantile of those ads' rank scores that leaves the wanted number of them, exactly
    but for ties. When even a reserve of 0 leaves too few, it is 0. With `ads_per_page` the
    reserve of the whole page is found in the same way, else it is `reserve`.
    """
    able = ranking.rank_scores >= reserve
    first = able & (ranking.ranks < layout.mainline)
    wanted = mainline_ads_per_page * ranking.n_pages
    mainline_reserve = _threshold(ranking.rank_scores[first], wanted)
    if ads_per_page is not None:
        above = first & (ranking.rank_scores >= mainline_reserve)
        in_mainline = np.bincount(ranking.pages[above], minlength=ranking.n_pages)
        fitting = able & (ranking.ranks < in_mainline[ranking.pages] + layout.sidebar)
        fitting |= above
        reserve = _threshold(ranking.rank_scores[fitting], ads_per_page * ranking.n_pages)
        reserve = min(reserve, mainline_reserve) if mainline_reserve else reserve
    return OperatingPoint(ranking.alpha, reserve, mainline_reserve)


def _threshold(rank_scores: Floats, wanted: float) -> float:
    """The least rank score that leaves as nearly as possible the wanted number."""
    if not len(rank_scores):
        return 0.0
    count = round(wanted)
    if count >= len(rank_scores):
        return 0.0
    if count <= 0:
        return float(np.nextafter(rank_scores.max(), np.inf))
    value = float(np.partition(rank_scores, -count)[-count])
    reach, beyond = np.sum(rank_scores >= value), np.sum(rank_scores > value)
    if count - beyond < reach - count:
        return float(np.nextafter(value, np.inf))
    return value
